// A run with segmented downloads.
import Convoy
import Foundation

extension FetchRun {
    /// The running downloads, by the index of their item.
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

        /// Records the total number of items, after the last item was read.
        func tookAll(_ count: Int) { state.withLock { $0.counts.totalCount = count } }

        func stop() {
            let running = state.withLock { state in
                state.isStopped = true
                return state.running.values.map(\.download)
            }
            for download in running { download.cancel() }
        }

        /// The progress of the run and of each running file.
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

    /// Fetches all items, each as a ``SegmentedDownload``.
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

    /// Downloads the file of an item.
    ///
    /// If the server of the item fails, the mirrors are tried one after another. If all fail, the first failure is the
    /// result.
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
                // The digest does not tell which server sent the wrong bytes. So the file is now downloaded
                // from one server at a time.
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
