// What a run tells, and to whom.
import Convoy
import Foundation

/// How one request of a run ended.
struct FetchOutcome: Sendable {
    struct Success: Sendable {
        let statusCode: Int
        let bytes: Int64
        let time: Duration
    }

    let item: FetchItem
    let result: Result<Success, RequestError>
    /// What became of each attempt; empty when nothing was sent.
    let attempts: [AttemptRecord]

    /// How often it was tried: once, and once more for each retry; redirects do not count.
    var attemptCount: Int { attempts.count { if case .redirect = $0.next { false } else { true } } }

    /// Whether it ended only because everything was cancelled.
    var isCancelled: Bool { if case .failure(let error) = result { error.code == .cancelled } else { false } }
}

extension FetchOutcome.Success {
    init(_ response: Response<some Sendable>) {
        statusCode = response.statusCode
        bytes = response.transfer.receivedBytes
        time = response.timings.executed ?? .zero
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

/// A request with an attempt under way.
struct RunningTransfer: Sendable, Equatable {
    let item: FetchItem
    let receivedBytes: Int64
    let expectedBytes: Int64?
}

/// How far a run is.
struct RunProgress: Sendable, Equatable {
    /// Requests that have finished, whatever their outcome.
    var finishedCount = 0
    var failedCount = 0
    /// Requests there will be; nil while the list is being read.
    var totalCount: Int?
    var receivedBytes: Int64 = 0
    /// 0 to 1.
    var fractionCompleted = 0.0
}

extension RunProgress {
    init(_ progress: BatchProgress) {
        finishedCount = progress.finishedCount
        failedCount = progress.failedCount
        totalCount = progress.totalCount
        receivedBytes = progress.receivedBytes
        fractionCompleted = progress.fractionCompleted
    }
}

/// The whole run in figures.
struct FetchSummary: Sendable, Equatable {
    var succeededCount = 0
    /// Requests and lines of the list that failed.
    var failedCount = 0
    /// Requests that ended because everything was cancelled.
    var cancelledCount = 0
    var bytes: Int64 = 0
    var time = Duration.zero
    /// Why everything was cancelled; nil when nothing was.
    var reason: ExitStatus?
    var discards = false

    mutating func count(_ outcome: FetchOutcome, isStopping: Bool) {
        switch outcome.result {
        case .success(let success):
            succeededCount += 1
            bytes += success.bytes
        case .failure:
            if isStopping, outcome.isCancelled { cancelledCount += 1 } else { failedCount += 1 }
        }
    }

    var status: ExitStatus { reason ?? (failedCount == 0 ? .success : .failure) }

    /// The summary as one line.
    var text: String {
        var text = (reason?.reason).map { "\($0): " } ?? ""
        text += "\(Figures.count(succeededCount, discards ? "answer" : "file")), \(Figures.bytes(bytes))"
        text += " in \(Figures.time(time))"
        if succeededCount > 0, time.inSeconds > 0.05 { text += " (\(Figures.rate(Double(bytes) / time.inSeconds)))" }
        if failedCount > 0 { text += ", \(failedCount) failed" }
        if cancelledCount > 0 { text += ", \(cancelledCount) cancelled" }
        return text
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
