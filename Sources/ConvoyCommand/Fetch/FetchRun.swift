// Runs the items as a batch, with a report.
import Convoy
import Foundation

/// Runs the requests of a fetch.
///
/// The batch reads items on demand and stores no results, so memory never contains all items.
struct FetchRun {
    let options: FetchOptions
    let setup: FetchSetup
    let report: any FetchReport
    let interruption: Interruption
    let reporter: FetchReporter
    let items: FetchItems
    let manager: RequestManager
    /// The number of requests; nil if there is a list.
    ///
    /// With a list, the batch knows the number after the last item was read.
    let knownCount: Int?

    init(
        options: FetchOptions, setup: FetchSetup, list: LineReader?, report: any FetchReport, interruption: Interruption
    ) {
        (self.options, self.setup, self.report, self.interruption) = (options, setup, report, interruption)
        knownCount = list == nil ? options.urls.count : nil
        reporter = FetchReporter(report: report, options, setup)
        items = FetchItems(
            options, list: list,
            naming: options.discards ? .none : options.takesProposedNames ? .byServer : .byURL,
            onEmpty: setup.reportEmpty, onDefect: reporter.isDefective)
        manager = Self.makeManager(options, setup, monitors: report.wantsSteps ? [reporter.requests] : [])
    }

    /// Runs all items, and writes the bodies to the destination of the options.
    func run() async -> ExitStatus {
        let start = ContinuousClock.now
        switch options.destination {
        case .files where options.usesSegments: await sendInSegments()
        case .files: await send { [options] request, item in options.saving(request, item) }
        case .nowhere, .head: await send { request, _ in request.ignoringBody() }
        // The header fields are printed when the response is complete, so the body stays in memory until then.
        case .standardOutput where options.includesHeads || options.headFile == "-":
            await send { request, _ in request }
        case .standardOutput, .device: await send { [setup] request, _ in setup.printing(request) }
        }
        if interruption.reason != nil { setup.reportRest(items.rest) }
        if setup.cache != nil || !setup.monitors.isEmpty { await manager.drainBriefly() }
        return reporter.ended(after: .now - start, reason: interruption.reason)
    }

    /// Sends the requests of all items as one batch.
    ///
    /// - Parameter complete: sets the destination of the response body.
    private func send<Output: Sendable>(
        _ complete: @escaping @Sendable (Request<Data>, FetchItem) -> Request<Output>
    ) async {
        let (options, setup, interruption, knownCount) = (options, setup, interruption, knownCount)
        let (reporter, items, manager) = (reporter, items, manager)
        // A deadline starts when a request is queued. So with a deadline, at most `jobs` requests are open at a time.
        let places = options.deadline.map { _ in FetchPlaces(count: options.jobs) }
        let requests = AsyncStream<Request<Output>>(unfolding: {
            await places?.take()
            guard var item = await items.next() else { return nil }
            item.isLink = !options.discards && options.hasLink(item)
            reporter.opened(item)
            return complete(setup.request(for: item, options), item)
        })
        let isDated = options.sending.newer != nil
        let unchangedCount = Locked(0)
        let batch = manager.batch(pulling: requests, keepsResults: false) { index, result in
            options.setTime(result)
            let unchanged = isDated ? result.unchanged() : nil
            if unchanged != nil { unchangedCount.withLock { $0 += 1 } }
            reporter.finished(index, result, unchanged, stop: interruption.reason)
            places?.give()
        }
        interruption.onStop {
            // On this thread, `batch.cancel` reports the requests that have not started. It may wait for a slow reader
            // of the output.
            items.stop()
            batch.cancel()
            // `cancelAll` also cancels the cache's background validations.
            if setup.cache != nil { manager.cancelAll() }
        }
        await Ticker.ticking(every: report.tickInterval) {
            var progress = RunProgress(batch.currentProgress)
            progress.failedCount = max(0, progress.failedCount - unchangedCount.withLock { $0 })
            progress.totalCount = progress.totalCount ?? knownCount
            reporter.tick(progress, manager.operations)
        } while: {
            await batch.finished()
        }
    }

    private static func makeManager(
        _ options: FetchOptions, _ setup: FetchSetup, monitors: [any EventMonitor]
    ) -> RequestManager {
        var configuration = setup.configuration(monitors)
        configuration.maxConcurrentOperationCount =
            options.isOneStream ? 1 : min(options.jobs * options.segments, options.mostRequests)
        configuration.maxConcurrentPerHost =
            min(options.perHost * options.segments, FetchOptions.jobsRange.upperBound)
        if let delay = options.retryDelay {
            (configuration.retries.baseDelay, configuration.retries.maxDelay) = (delay, delay)
            configuration.jitter = { 1 }
        }
        // A callback in place saves a change of threads, but a slow output blocks the thread on which the request ends.
        // A download ends on an executor for blocking code, so its callback may print. Without a file, a success ends
        // on the transport's thread, so its callback may print nothing. A deadline ends a waiting request on the queue
        // that also starts requests, so with a deadline no callback runs in place.
        let isSilent = options.destination == .nowhere && options.isQuiet && !setup.records.isPrinted
        let isFile = options.destination == .files && !options.usesSegments
        if options.deadline == nil, isFile || isSilent { configuration.callbacks = .inPlace }
        if options.usesSegments { configuration.cache = nil }
        return RequestManager(configuration: configuration)
    }
}

extension RequestManager {
    /// Waits for the monitors, and at most five seconds for the cache's background validations.
    ///
    /// Without the limit, a server that does not answer would delay the exit by its timeout and all retries.
    func drainBriefly() async {
        let limit = Task {
            try await Task.sleep(for: .seconds(5))
            cancelAll()
        }
        await drain()
        limit.cancel()
    }
}
