// The open requests of a run, and the order of the reports about them.
import Convoy
import Foundation

/// Reports the steps of each request in order: its start and further attempts.
///
/// A manager reports the end of a request on another queue than the earlier events, so these events may arrive after
/// the end. Therefore ``close(_:_:_:)`` derives missing steps from the attempt records.
///
/// ## Concurrency
/// Safe to use from any thread, except from a report. One queue makes all reports in order, without a lock. Starts and
/// retries are queued asynchronously. `close` and `inTurn` return after the report, so a slow reader of the output
/// slows the run. The number of open requests therefore limits the length of the queue.
final class OpenRequests: EventMonitor {
    private let onStep: (@Sendable (FetchStep, FetchItem) -> Void)?
    private let queue = DispatchQueue(label: "convoy.report")
    /// The requests whose end was not reported, by their index.
    private let open = Locked<[Int: OpenRequest]>([:])

    /// - Parameter onStep: reports a step; nil if steps are not reported.
    init(onStep: (@Sendable (FetchStep, FetchItem) -> Void)?) { self.onStep = onStep }

    /// Records a request before it is sent.
    ///
    /// - Parameter secrets: values that no step may show.
    func begin(_ item: FetchItem, hiding secrets: Set<String> = []) {
        open.withLock { $0[item.index] = OpenRequest(item: item, hiding: secrets) }
    }

    func operation(_ operation: AnyRequestOperation, did event: RequestEvent) {
        guard let index = operation.itemIndex else { return }
        switch event {
        case .started(let attempt):
            answered(index, nil)
            queue.async { self.report(index) { $0.begin(attempt) } }
        case .response(let head): answered(index, head.statusCode)
        case .attemptEnded(let record): queue.async { self.report(index) { $0.end(record) } }
        default: break
        }
    }

    /// Reports the steps whose events have not arrived, and then the end of the request.
    ///
    /// - Parameter end: reports the end; called with nil if the request was not recorded, or was closed before.
    func close<Value>(
        _ index: Int, _ attempts: @autoclosure () -> [AttemptRecord], _ end: (OpenRequest?) -> Value
    ) -> Value {
        queue.sync {
            if onStep != nil {
                let attempts = attempts()
                if let first = attempts.first { report(index) { $0.begin(first.number) } }
                for record in attempts where record.next != .outcome { report(index) { $0.end(record) } }
            }
            return end(open.withLock { $0.removeValue(forKey: index) })
        }
    }

    /// The items of the open requests.
    var items: [FetchItem] { open.withLock { $0.values.map(\.item) } }

    /// Makes a report that is not about a step, after the reports that were queued before.
    func inTurn<Value>(_ report: () -> Value) -> Value { queue.sync(execute: report) }

    /// The progress of the started requests in the order of `operations`, and the items of the other requests.
    func transfers(of operations: [AnyRequestOperation]) -> (started: [RunningTransfer], others: [FetchItem]) {
        let indices = operations.map { $0.itemIndex ?? -1 }
        let requests = open.withLock { open in indices.map { open[$0] } }
        let started = zip(operations, requests).compactMap { $1?.transfer($0.progress) }
        return (started, requests.compactMap { $0 }.filter { !$0.hasBegun }.map(\.item))
    }

    /// Records the status of the response to the running attempt of a request.
    private func answered(_ index: Int, _ statusCode: Int?) { open.withLock { $0[index]?.statusCode = statusCode } }

    /// Reports a step if it is new and the request is open.
    private func report(_ index: Int, _ note: (inout OpenRequest) -> FetchStep?) {
        let (step, item) = open.withLock { open -> (FetchStep?, FetchItem?) in
            guard var request = open[index] else { return (nil, nil) }
            defer { open[index] = request }
            return (note(&request), request.item)
        }
        if let step, let item { onStep?(step, item) }
    }
}

extension AnyRequestOperation {
    /// The index of the item, which is the first tag.
    var itemIndex: Int? { tags.first.flatMap { Int($0) } }
}
