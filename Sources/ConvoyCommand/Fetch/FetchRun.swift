import Convoy
import Foundation

// The batch reads items on demand and stores no results, so memory never contains all items.
struct FetchRun {
    let options: FetchOptions
    let setup: FetchSetup
    let report: any FetchReport
    let interruption: Interruption
    let reporter: FetchReporter
    let items: FetchItems
    let manager: RequestManager
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
            // On this thread, `batch.cancel` reports the requests that have not started.
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

    private final class Downloads: Sendable {
        private struct State {
            var running: [Int: (item: FetchItem, download: SegmentedDownload)] = [:]
            var isStopped = false
            var counts = RunProgress()
        }

        private let state = Locked(State())

        func begin(_ item: FetchItem, _ download: SegmentedDownload) {
            let isStopped = state.withLock { state in
                state.running[item.index] = (item, download)
                return state.isStopped
            }
            if isStopped { download.cancel() }
        }

        func end(_ index: Int, hasFailed: Bool) {
            state.withLock { state in
                state.running[index] = nil
                state.counts.finishedCount += 1
                if hasFailed { state.counts.failedCount += 1 }
            }
        }

        func tookAll(_ count: Int) { state.withLock { $0.counts.totalCount = count } }

        func stop() {
            let running = state.withLock { state in
                state.isStopped = true
                return state.running.values.map(\.download)
            }
            for download in running { download.cancel() }
        }

        var progress: (RunProgress, [RunningTransfer]) {
            let (counts, running) = state.withLock { ($0.counts, $0.running) }
            let transfers = running.sorted { $0.key < $1.key }.map { _, value in
                let progress = value.download.progress
                let bytes = progress.download
                return RunningTransfer(
                    item: value.item, receivedBytes: bytes.completedBytes, resumedBytes: progress.resumedBytes,
                    expectedBytes: bytes.totalBytes, wait: bytes.totalBytes == nil ? .answer : nil)
            }
            return (counts, transfers)
        }
    }

    func sendInSegments() async {
        let downloads = Downloads()
        let (reporter, items, knownCount) = (reporter, items, knownCount)
        interruption.onStop {
            items.stop()
            downloads.stop()
        }
        await Ticker.ticking(every: report.tickInterval) {
            var (progress, transfers) = downloads.progress
            progress.totalCount = progress.totalCount ?? knownCount
            reporter.tick(progress) { transfers }
        } while: {
            await withTaskGroup(of: Void.self) { group in
                var count = 0
                while let item = await items.next() {
                    if count >= options.jobs { await group.next() }
                    count += 1
                    var item = item
                    item.isLink = options.hasLink(item)
                    reporter.opened(item)
                    group.addTask { [item] in
                        let result = await fetch(item, downloads)
                        options.setTime(result)
                        downloads.end(item.index, hasFailed: (try? result.get()) == nil)
                        reporter.finished(item.index, result, stop: interruption.reason)
                    }
                }
                downloads.tookAll(count)
            }
        }
    }

    // If the server of the item and all mirrors fail, the first failure is the result.
    private func fetch(_ item: FetchItem, _ downloads: Downloads) async -> Result<Response<URL>, RequestError> {
        options.makeDirectory(of: item)
        var request = setup.request(for: item, options)
        var mirrors = (options.mirrors + item.mirrors)[...]
        // Segments come from several servers only if a digest verifies the file.
        var isShared = item.digest != nil
        var first: RequestError?
        while true {
            let download = manager.downloadInSegments(
                request, to: options.file(of: item), segments: options.segments,
                mirrors: isShared ? Array(mirrors) : [],
                verifying: item.digest, byteCount: item.byteCount, existing: options.existing(for: item))
            downloads.begin(item, download)
            do throws(RequestError) { return .success(try await download.response()) } catch {
                guard error.code.facts.contains(.otherServerHelps) else { return .failure(error) }
                first = first ?? error
                // The digest does not tell which server sent the wrong bytes, so one server at a time follows.
                if error.code == .integrityFailed, isShared, !mirrors.isEmpty {
                    isShared = false
                    continue
                }
                guard let mirror = mirrors.popFirst() else { return .failure(first ?? error) }
                request = setup.request(toMirror: mirror, of: item, options)
            }
        }
    }
}

extension RequestManager {
    // Without the limit, a server that does not answer would delay the exit by its timeout and all retries.
    func drainBriefly() async {
        let limit = Task {
            try await Task.sleep(for: .seconds(5))
            cancelAll()
        }
        await drain()
        limit.cancel()
    }
}

// A counting semaphore for tasks. A deadline starts when a request is queued; without this limit, the batch would
// queue more requests than can run, and deadlines could pass before the requests are sent.
// One task calls `take()`; any thread calls `give()`.
final class FetchPlaces: Sendable {
    private let (slots, free) = AsyncStream.makeStream(of: Void.self)

    init(count: Int) { for _ in 0..<count { give() } }

    // Returns at once after the task was cancelled.
    func take() async { for await _ in slots { return } }

    func give() { free.yield() }
}
