// A run in which each file comes in several ranges at once.
import Convoy
import Foundation

extension FetchRun {
    /// The downloads under way, by the index of their item.
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
                let progress = state.running.removeValue(forKey: index)?.download.progress
                state.counts.finishedCount += 1
                if hasFailed { state.counts.failedCount += 1 }
                state.counts.receivedBytes += progress?.download.completedBytes ?? 0
            }
        }

        func stop() {
            let running = state.withLock { state in
                state.isStopped = true
                return state.running.values.map(\.download)
            }
            for download in running { download.cancel() }
        }

        /// How far everything is, and each file.
        var progress: (RunProgress, [RunningTransfer]) {
            let (counts, running) = state.withLock { ($0.counts, $0.running) }
            let transfers = running.sorted { $0.key < $1.key }.map { _, value in
                let progress = value.download.progress
                return RunningTransfer(
                    item: value.item, receivedBytes: progress.download.completedBytes,
                    resumedBytes: progress.resumedBytes,
                    expectedBytes: progress.download.totalBytes)
            }
            var all = counts
            all.receivedBytes = transfers.reduce(all.receivedBytes) { $0 + $1.receivedBytes }
            return (all, transfers)
        }
    }

    /// Runs all items, each as a ``SegmentedDownload``.
    func runInSegments() async -> ExitStatus {
        let interruption = interruption
        let reporter = makeReporter()
        let items = FetchItems(
            urls: options.urls, digest: options.digest, list: list, naming: .byURL, onDefect: reporter.isDefective)
        let manager = makeManager(monitor: reporter)
        let downloads = Downloads()
        let start = ContinuousClock.now
        interruption.onStop {
            items.stop()
            downloads.stop()
        }
        let ticker = report.tickInterval.map { interval in
            Ticker(every: interval) {
                let (progress, transfers) = downloads.progress
                reporter.tick(progress) { transfers }
            }
        }
        await withTaskGroup(of: Void.self) { group in
            var count = 0
            while let item = await items.next() {
                if count == options.jobs { await group.next() } else { count += 1 }
                reporter.opened(item)
                group.addTask { [options] in
                    let request = Request<Data>.get(item.url).tagged(String(item.index))
                        .carrying(options.headerFields).deadline(options.deadline).limited(by: options)
                    let download = manager.downloadInSegments(
                        request, to: options.file(of: item), segments: options.segments, verifying: item.digest,
                        existing: options.existing(for: item))
                    downloads.begin(item, download)
                    let result: Result<Response<URL>, RequestError>
                    do throws(RequestError) { result = .success(try await download.response()) } catch {
                        result = .failure(error)
                    }
                    downloads.end(item.index, hasFailed: (try? result.get()) == nil)
                    reporter.finished(item.index, result, isStopping: interruption.reason != nil)
                }
            }
        }
        ticker?.stop()
        return reporter.ended(after: .now - start, reason: interruption.reason)
    }
}
