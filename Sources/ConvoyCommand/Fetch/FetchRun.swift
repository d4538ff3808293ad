// Runs the items as a batch, with a report.
import Convoy
import Foundation

/// Runs the requests of a fetch.
///
/// The batch reads items on demand and stores no results, so memory does not grow with the number of items.
struct FetchRun {
    let options: FetchOptions
    let setup: FetchSetup
    let list: LineReader?
    let report: any FetchReport
    let interruption: Interruption

    /// Runs all items as one batch.
    ///
    /// - Parameter complete: sets the destination of the response body.
    func run<Output: Sendable>(
        _ complete: @escaping @Sendable (Request<Data>, FetchItem) -> Request<Output>
    ) async -> ExitStatus {
        let (interruption, knownCount, report) = (interruption, knownCount, report)
        let reporter = makeReporter()
        let items = makeItems(reporter)
        let manager = makeManager(monitor: reporter.requests)
        let start = ContinuousClock.now
        let options = options
        let setup = setup
        let records = setup.records
        // Limits the number of open requests. Without a deadline, the limit of the batch is enough.
        let places = options.deadline.map { _ in FetchPlaces(count: options.jobs) }
        let requests = AsyncStream<Request<Output>>(unfolding: {
            await places?.take()
            guard var item = await items.next() else { return nil }
            item.isLink = report.showsLinks && !options.discards && options.hasLink(item)
            reporter.opened(item)
            records.opened(item)
            return complete(setup.request(for: item, options), item)
        })
        let isDated = options.sending.newer != nil
        let unchangedCount = Locked(0)
        let batch = manager.batch(pulling: requests, keepsResults: false) { index, result in
            let isStopping = interruption.reason != nil
            options.setTime(result)
            if isDated, let unchanged = result.unchanged() {
                unchangedCount.withLock { $0 += 1 }
                reporter.finished(index, .success(unchanged), isStopping: isStopping)
                records.finished(index, result, isUnchanged: true)
            } else {
                reporter.finished(index, result, isStopping: isStopping)
                records.finished(index, result)
            }
            places?.give()
        }
        interruption.onStop {
            // Cancelled downloads are reported on this thread, which may wait for a slow reader of the output.
            items.stop()
            batch.cancel()
            // `cancelAll` also cancels the cache's background validations.
            if setup.cache != nil { manager.cancelAll() }
        }
        let ticker = report.tickInterval.map { interval in
            Ticker(every: interval) {
                var progress = RunProgress(batch.currentProgress)
                progress.failedCount = max(0, progress.failedCount - unchangedCount.withLock { $0 })
                progress.totalCount = progress.totalCount ?? knownCount
                reporter.tick(progress, manager.operations)
            }
        }
        await batch.finished()
        ticker?.stop()
        if interruption.reason != nil { setup.reportRest(items.rest) }
        if setup.cache != nil || !setup.monitors.isEmpty { await manager.drainBriefly() }
        return reporter.ended(after: .now - start, reason: interruption.reason)
    }

    /// Makes the items of the run, and reports invalid lines of the list.
    func makeItems(_ reporter: FetchReporter) -> FetchItems {
        FetchItems(
            urls: options.urls, digest: options.digest, outputNames: options.outputNames, isFlat: options.isFlat,
            list: list, base: options.base,
            naming: options.discards ? .none : options.takesProposedNames ? .byServer : .byURL, shard: options.shard,
            onEmpty: setup.reportEmpty
        ) { [setup] defect in
            reporter.isDefective(defect)
            setup.records.isDefective(defect)
        }
    }

    /// The number of requests; nil if there is a list.
    ///
    /// The batch knows the number after the last item of the list.
    var knownCount: Int? { list == nil ? options.urls.count : nil }

    func makeReporter() -> FetchReporter {
        var summary = FetchSummary(discards: options.discards)
        if !options.discards { summary.directory = options.directory }
        // If the server chooses the name, the name is known too late to skip the request.
        let isRepeated = ![.skip, .fail, .updateIfChanged].contains(options.existing) && !options.takesProposedNames
        summary.replacesFiles = isRepeated && !options.discards
        let parts =
            options.discards
            ? nil
            : PartFinder(
                directory: options.directory,
                knowsNames: !options.takesProposedNames && options.existing != .rename,
                usesSegments: options.segments > 1, started: Date(),
                numbersNames: !options.takesProposedNames && options.existing == .rename)
        return FetchReporter(
            report: report, summary: summary, parts: parts, kept: setup.report, jobs: options.jobs,
            perHost: options.perHost, hiding: setup.secrets)
    }

    func makeManager(monitor: any EventMonitor) -> RequestManager {
        var configuration = RequestManager.Configuration(
            maxConcurrentOperationCount: options.isOneStream
                ? 1 : min(options.jobs * options.segments, options.mostRequests),
            maxConcurrentPerHost: min(options.perHost * options.segments, FetchOptions.jobsRange.upperBound),
            transport: setup.transport)
        configuration.retries = RetryPolicy(maxRetries: options.retries)
        if let delay = options.retryDelay {
            (configuration.retries.baseDelay, configuration.retries.maxDelay) = (delay, delay)
            configuration.jitter = { 1 }
        }
        // Retries have no budget, because the user wants every file. The limits of concurrent requests bound the load.
        configuration.retryBudget = .unlimited
        configuration.limit(by: options)
        // The report needs no other thread. A download ends on an executor that may block. A success without a file ends
        // on the transport's thread, so nothing may be printed then.
        let isSilent = options.destination == .nowhere && options.isQuiet && !setup.records.isPrinted
        let isFile = options.destination == .files && !options.usesSegments
        if isFile || isSilent { configuration.callbacks = .inPlace }
        configuration.cookies = setup.cookies
        if !options.usesSegments { configuration.cache = setup.cache }
        configuration.interceptors = setup.interceptors
        configuration.monitors = setup.monitors + (report.wantsSteps ? [monitor] : [])
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
