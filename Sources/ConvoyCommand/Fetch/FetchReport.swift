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
        /// Whether nothing was received: mostly because the file was there.
        var isSkipped = false
        /// Whether it is the server that has nothing newer than this moment, whatever is here; as it was sent.
        var unchangedSince: String?
        /// Whether a link of its name was there, which it has replaced.
        var replacesLink = false
        /// Whether there is a file, as far as files are wanted.
        var hasFile = true
    }

    let item: FetchItem
    let result: Result<Success, RequestError>
    /// What became of each attempt; empty when nothing was sent.
    let attempts: [AttemptRecord]
    /// When it was taken, and when it ended.
    var span = EventSpan()
    /// How much is kept for the next run; nil when nothing is, or it ended well.
    var keptBytes: Int64?

    /// How often it was tried.
    var attemptCount: Int { attempts.triedCount }

    /// Why it failed, as far as the command's own options can help; nil when it did not.
    var message: String? {
        guard case .failure(let error) = result else { return nil }
        // The library names no way out: its users and ours have different ones.
        return error.code == .destinationExists ? "\(error.message) with --existing" : error.message
    }

    /// Why nothing was received; nil where something was, or it failed.
    var skipWords: String? {
        guard case .success(let success) = result, success.isSkipped else { return nil }
        let digest = item.digest == nil || !success.hasFile ? "" : " and has its digest"
        if let date = success.unchangedSince { return "not newer than \(date)\(digest)" }
        return (attempts.isEmpty ? "it is there" : "it has not changed") + digest
    }

    /// Why it failed, for people: of a refusal its status and what the server wrote; nil when it did not.
    var cause: String? {
        guard case .failure(let error) = result else { return nil }
        return error.code == .unacceptableStatus ? Words.cause(error) : message
    }

    /// Whether it ended only because everything was cancelled.
    var isCancelled: Bool { if case .failure(let error) = result { error.code == .cancelled } else { false } }
}

extension FetchOutcome.Success {
    /// - Parameter attempts: the response's.
    init(_ response: Response<some Sendable>, _ attempts: [AttemptRecord], of item: FetchItem) {
        statusCode = response.statusCode
        bytes = response.transfer.download.completedBytes
        // A download in segments has no attempts of its own.
        resumedBytes =
            attempts.isEmpty ? response.transfer.resumedBytes : ResumedBytes(of: attempts).count
        time = response.timings.executed ?? .zero
        fileName = (response.value as? URL).map(item.name(of:))
        isSkipped = response.statusCode == 304
        replacesLink = item.isLink && fileName == item.fileName
        let sent = response.request.headerFields
        guard isSkipped, !sent.contains("If-None-Match") else { return }
        unchangedSince = sent["If-Modified-Since"]
        hasFile = (response.value as? UnchangedResource) == nil
    }
}

extension [AttemptRecord] {
    /// How often it was tried: once, and once more for each retry; redirects do not count, nor what was not sent for want
    /// of a file descriptor.
    var triedCount: Int {
        count { record in
            switch record.next {
            case .redirect, .awaitedDescriptor, .awaitedConnectivity: false
            default: true
            }
        }
    }
}

/// In place of a file: the server has nothing newer than the date it was asked about, and none is there.
struct UnchangedResource: Sendable {}

extension Result {
    /// A success without a file, where the failure is that none is there for an answer of 304 that was asked for.
    func unchanged<Value>() -> Response<UnchangedResource>?
    where Success == Response<Value>, Failure == RequestError {
        guard case .failure(let error) = self, error.code == .badResponse, let head = error.response,
            head.statusCode == 304, let sent = error.attempts.last?.request
        else { return nil }
        return Response(value: UnchangedResource(), request: sent, head: head)
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
    /// The failure is nil when a whole answer came that was not acceptable; the cause is for people.
    case retrying(attempt: Int, failure: RequestError.Code?, statusCode: Int?, cause: String, delay: Duration)
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

/// A request that has a line of its own: one that has begun and not ended, or could begin but for its host.
struct RunningTransfer: Sendable, Equatable {
    /// What keeps its bytes from moving.
    enum Wait: Sendable, Equatable {
        /// Other files of its host: as many as may run have begun.
        case host
        /// The head of the answer, or an answer that is part of the file.
        case answer
        /// The next attempt; the number is that of the failed one.
        case retry(attempt: Int, cause: String, due: ContinuousClock.Instant)
    }

    let item: FetchItem
    /// Those from before included.
    let receivedBytes: Int64
    var resumedBytes: Int64 = 0
    let expectedBytes: Int64?
    /// Nil while its bytes move.
    var wait: Wait?

    /// 0 to 1; nil while the size is not known.
    var fraction: Double? { expectedBytes.flatMap { $0 > 0 ? Double(receivedBytes) / Double($0) : nil } }
}

/// How far a run is.
struct RunProgress: Sendable, Equatable {
    /// Requests that have finished, whatever their outcome.
    var finishedCount = 0
    var failedCount = 0
    var skippedCount = 0
    /// Requests there will be; nil while the list is being read.
    var totalCount: Int?
    /// Of the files that succeeded, and of those under way, what was there before included.
    ///
    /// What came with a refusal is no part of a file.
    var receivedBytes: Int64 = 0
    var resumedBytes: Int64 = 0
    /// The files that succeeded and were not skipped, and their bytes.
    var savedCount = 0
    var savedBytes: Int64 = 0
}

extension RunProgress {
    /// The counts of a batch, without its bytes: it counts those of refused answers too.
    init(_ progress: BatchProgress) {
        finishedCount = progress.finishedCount
        failedCount = progress.failedCount
        totalCount = progress.totalCount
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
