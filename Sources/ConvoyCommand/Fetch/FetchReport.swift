// What a run tells, and to whom.
import Convoy
import Foundation

/// How one request of a run ended.
struct FetchOutcome: Sendable {
    struct Success: Sendable {
        let statusCode: Int
        /// Of the whole body.
        let bytes: Int64
        /// Of them those that an earlier run had left.
        var resumedBytes: Int64 = 0
        let time: Duration
        /// What the file is called; nil when there is none.
        var fileName: String?
        /// Whether the file was there, and nothing was received.
        var isSkipped = false
    }

    let item: FetchItem
    let result: Result<Success, RequestError>
    /// What became of each attempt; empty when nothing was sent.
    let attempts: [AttemptRecord]
    /// How much is kept for the next run; nil when nothing is, or it ended well.
    var keptBytes: Int64?

    /// How often it was tried: once, and once more for each retry; redirects do not count, nor what was not sent for want
    /// of a file descriptor.
    var attemptCount: Int {
        attempts.count { record in
            switch record.next {
            case .redirect, .awaitedDescriptor, .awaitedConnectivity: false
            default: true
            }
        }
    }

    /// Why it failed, as far as the command's own options can help; nil when it did not.
    var message: String? {
        guard case .failure(let error) = result else { return nil }
        // The library names no way out: its users and ours have different ones.
        return error.code == .destinationExists ? "\(error.message) with --existing" : error.message
    }

    /// Whether it ended only because everything was cancelled.
    var isCancelled: Bool { if case .failure(let error) = result { error.code == .cancelled } else { false } }
}

extension FetchOutcome.Success {
    /// - Parameter attempts: the response's.
    init(_ response: Response<some Sendable>, _ attempts: [AttemptRecord]) {
        statusCode = response.statusCode
        bytes = response.transfer.download.completedBytes
        // A download in segments has no attempts of its own.
        resumedBytes =
            attempts.isEmpty ? response.transfer.resumedBytes : ResumedBytes(of: attempts).count
        time = response.timings.executed ?? .zero
        fileName = (response.value as? URL)?.lastPathComponent
        isSkipped = response.statusCode == 304
    }
}

/// What happens to a request before its end.
enum FetchStep: Sendable, Equatable {
    /// Its first attempt has begun.
    case started
    /// A redirect is followed.
    case redirected(statusCode: Int?, to: URL)
    /// An attempt has failed and another follows after the delay; attempts count from 1, redirects do not.
    ///
    /// The failure is nil when a whole answer came that was not acceptable.
    case retrying(attempt: Int, failure: RequestError.Code?, statusCode: Int?, delay: Duration)
}

/// What an earlier run had left of a body; a value that takes the attempts in order.
///
/// Each attempt tells what was there when it began. What an attempt of the same run had left is not from before.
struct ResumedBytes: Sendable, Equatable {
    private var known: Int64?

    var count: Int64 { known ?? 0 }

    init() {}
    init(of attempts: [AttemptRecord]) {
        for record in attempts { note(record.transfer, statusCode: record.statusCode) }
    }

    /// Notes how far an attempt is, or came; answers that are no part of the file count nothing.
    mutating func note(_ transfer: TransferProgress, statusCode: Int? = 200) {
        guard let statusCode, (200..<300).contains(statusCode), transfer.download.completedBytes > 0 else { return }
        // Whoever begins anew throws away what was there.
        if transfer.resumedBytes == 0 { known = 0 } else if known == nil { known = transfer.resumedBytes }
    }
}

/// A request with an attempt under way.
struct RunningTransfer: Sendable, Equatable {
    let item: FetchItem
    /// Those from before included.
    let receivedBytes: Int64
    var resumedBytes: Int64 = 0
    let expectedBytes: Int64?

    /// The part of the file that was there before, 0 to 1.
    var fractionBefore: Double {
        guard let expectedBytes, expectedBytes > 0 else { return 0 }
        return min(1, Double(resumedBytes) / Double(expectedBytes))
    }
}

/// How far a run is.
struct RunProgress: Sendable, Equatable {
    /// Requests that have finished, whatever their outcome.
    var finishedCount = 0
    var failedCount = 0
    var skippedCount = 0
    /// Requests there will be; nil while the list is being read.
    var totalCount: Int?
    /// Those from before included.
    var receivedBytes: Int64 = 0
    var resumedBytes: Int64 = 0
    /// 0 to 1.
    var fractionCompleted = 0.0
    /// Of that what was done before the run: skipped files, and what earlier runs had left of others.
    var fractionBefore = 0.0
}

extension RunProgress {
    init(_ progress: BatchProgress) {
        finishedCount = progress.finishedCount
        failedCount = progress.failedCount
        totalCount = progress.totalCount
        receivedBytes = progress.download.completedBytes
        fractionCompleted = progress.fractionCompleted
    }
}

/// Tells what a run does: to people, or as JSON.
///
/// A request is told of in order: its steps, of which the first is its start, and ``finished(_:)``; one that was never
/// sent has an end only. Nothing comes after ``ended(_:)``.
///
/// - Thread: any, one call at a time.
protocol FetchReport: Sendable {
    /// How often ``tick(_:_:)`` wants to be called; nil for never.
    var tickInterval: DispatchTimeInterval? { get }
    /// Whether ``happened(_:to:)`` wants to be called.
    var wantsSteps: Bool { get }
    /// Whether each request is told that ended only because everything was cancelled.
    var wantsCancelled: Bool { get }

    func happened(_ step: FetchStep, to item: FetchItem)
    func tick(_ progress: RunProgress, _ running: [RunningTransfer])
    func finished(_ outcome: FetchOutcome)
    func isDefective(_ defect: FetchItems.Defect)
    func ended(_ summary: FetchSummary)
}
