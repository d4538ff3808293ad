// One run: a batch, fed from the items, told to a report.
import Convoy
import Foundation

/// Runs the requests of a fetch.
///
/// Memory stays flat: the batch pulls items as it has room, and keeps no result.
struct FetchRun {

    let options: FetchOptions
    let list: LineReader?
    let report: any FetchReport
    let interruption: Interruption

    /// Runs all items; one task.
    ///
    /// - Parameter complete: makes the request that is sent of the plain one.
    func run<Output: Sendable>(
        _ complete: @escaping @Sendable (Request<Data>, FetchItem) -> Request<Output>
    ) async -> ExitStatus {
        let (report, interruption) = (report, interruption)
        let tally = Locked(FetchSummary(discards: options.discards))
        let items = FetchItems(urls: options.urls, list: list, needsNames: !options.discards) { defect in
            tally.withLock { $0.failedCount += 1 }
            report.isDefective(defect)
        }
        let manager = makeManager(items)
        let start = ContinuousClock.now
        let headerFields = options.headerFields
        let requests = FetchRequests(items: items) { item in
            var request = Request<Data>.get(item.url).tagged(String(item.index))
            for field in headerFields { request = request.addingHeader(field.name, field.value) }
            return complete(request, item)
        }
        let batch = manager.batch(pulling: requests, keepsResults: false) { index, result in
            guard let item = items.take(index) else { return }
            let outcome = FetchOutcome(
                item: item,
                result: result.map { response in
                    FetchOutcome.Success(
                        statusCode: response.statusCode, bytes: response.transfer.receivedBytes,
                        time: response.timings.executed ?? .zero)
                })
            let isStopping = interruption.reason != nil
            tally.withLock { $0.count(outcome, isStopping: isStopping) }
            // Hundreds of lines that say "cancelled" would hide the one that says why.
            if !(isStopping && outcome.isCancelled && !report.wantsStarts) { report.finished(outcome) }
        }
        interruption.onStop {
            batch.cancel()
            items.stop()
        }
        let ticker = report.tickInterval.map { interval in
            Ticker(every: interval) { report.tick(RunProgress(batch.currentProgress), Self.running(manager, items)) }
        }
        await batch.finished()
        ticker?.stop()
        var summary = tally.withLock { $0 }
        summary.time = .now - start
        summary.reason = interruption.reason
        report.ended(summary)
        return summary.status
    }

    private func makeManager(_ items: FetchItems) -> RequestManager {
        var configuration = RequestManager.Configuration(
            maxConcurrentOperationCount: options.jobs, maxConcurrentPerHost: options.perHost,
            transport: options.transport)
        if report.wantsStarts { configuration.monitors = [StartMonitor(items: items, report: report)] }
        return RequestManager(configuration: configuration)
    }

    /// The requests that have been started, the first of them first.
    private static func running(_ manager: RequestManager, _ items: FetchItems) -> [RunningTransfer] {
        let operations = manager.operations.filter(\.isExecuting)
        let indices = operations.map { $0.tags.first.flatMap { Int($0) } ?? -1 }
        let found = items.items(indices)
        return zip(operations, indices).compactMap { operation, index in
            found[index].map { item in
                let progress = operation.progress
                return RunningTransfer(
                    item: item, receivedBytes: progress.receivedBytes, expectedBytes: progress.expectedBytes)
            }
        }
    }
}

/// Tells a report of requests that are started.
private struct StartMonitor: EventMonitor {
    let items: FetchItems
    let report: any FetchReport

    func operation(_ operation: AnyRequestOperation, did event: RequestEvent) {
        guard case .started(1) = event, let index = operation.tags.first.flatMap({ Int($0) }),
            let item = items.start(index)
        else { return }
        report.started(item)
    }
}
