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

    /// Whether it ended only because everything was cancelled.
    var isCancelled: Bool { if case .failure(let error) = result { error.code == .cancelled } else { false } }
}

/// A request that has been started and has not finished.
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
/// - Thread: any; calls may come at the same time, but none after ``ended(_:)``.
protocol FetchReport: Sendable {
    /// How often ``tick(_:_:)`` wants to be called; nil for never.
    var tickInterval: DispatchTimeInterval? { get }
    /// Whether ``started(_:)`` wants to be called.
    var wantsStarts: Bool { get }

    func started(_ item: FetchItem)
    func tick(_ progress: RunProgress, _ running: [RunningTransfer])
    func finished(_ outcome: FetchOutcome)
    func isDefective(_ defect: FetchItems.Defect)
    func ended(_ summary: FetchSummary)
}
