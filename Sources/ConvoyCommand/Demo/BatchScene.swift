import Convoy
import ConvoyTesting
import Foundation

struct BatchScene: DemoScene {
    private static let fileCount = 60
    private static let failingIndex = 41

    let name = "batch"
    let summary = "\(fileCount) files, at most \(DemoStage.perHost) at once, some slow, one that fails"

    func play(_ stage: DemoStage, _ server: TestServer, _ manager: RequestManager) async throws -> DemoVerdict {
        server.respond { request in Self.reply(to: request.path) }
        let items = (0..<Self.fileCount).map { index in
            FetchItem(index: index, url: server.url("/file/\(index)"), fileName: "file-\(index)")
        }
        let start = ContinuousClock.now
        let batch = manager.batch(items.map { Request<Data>.get($0.url).tagged(String($0.index)) })
        let screen = Locked(FetchScreen(maxAttempts: 1))
        let peak = Locked(0)
        let results = await Ticker.ticking(every: DemoStage.interval) {
            let running = Self.running(manager, items)
            peak.withLock { $0 = max($0, running.count) }
            let (known, size) = (batch.currentProgress, stage.console.size)
            var progress = RunProgress(known)
            progress.receivedBytes = known.download.completedBytes
            progress.savedCount = progress.finishedCount - progress.failedCount
            progress.savedBytes = running.reduce(progress.receivedBytes) { max(0, $0 - $1.receivedBytes) }
            stage.console.draw(screen.withLock { $0.lines(progress, running, size: size, now: .now) })
        } while: {
            await batch.results
        }
        return judge(results, peak: peak.withLock { $0 }, requestCount: server.requestCount, time: .now - start)
    }

    /// The sizes differ, so that a result in a wrong position is noticed.
    private static func byteCount(of index: Int) -> Int64 { 20_000 + Int64(index) * 3_137 }

    private static func reply(to path: String) -> Reply {
        guard let index = path.split(separator: "/").last.flatMap({ Int($0) }) else { return .status(404) }
        if index == failingIndex { return .status(500, body: "out of order") }
        let reply = Reply.generated(byteCount: byteCount(of: index))
        return index % 8 == 3 ? reply.dripping(bytesPerSecond: 160_000) : reply
    }

    private static func running(_ manager: RequestManager, _ items: [FetchItem]) -> [RunningTransfer] {
        // A single read could count an operation that has just finished together with its successor.
        manager.operations.filter(\.isExecuting).filter(\.isExecuting).compactMap { operation in
            guard let index = operation.itemIndex, items.indices.contains(index) else { return nil }
            let progress = operation.progress
            return RunningTransfer(
                item: items[index], receivedBytes: progress.download.completedBytes,
                expectedBytes: progress.download.totalBytes)
        }
    }

    private func judge(
        _ results: [Batch<Data>.Result], peak: Int, requestCount: Int, time: Duration
    ) -> DemoVerdict {
        var problems: [String] = []
        if results.count != Self.fileCount {
            problems.append("\(results.count) results for \(Self.fileCount) requests")
        }
        var bytes: Int64 = 0
        for (index, result) in results.enumerated() {
            switch result {
            case .success(let response):
                bytes += Int64(response.value.count)
                if response.value != Reply.pattern(range: 0..<Self.byteCount(of: index)) {
                    problems.append("result \(index) is not the content of file \(index)")
                }
            case .failure(let error):
                if index != Self.failingIndex || error.response?.statusCode != 500 { problems.append("\(error)") }
            }
        }
        let failed = results.count { if case .failure = $0 { true } else { false } }
        if failed != 1 { problems.append("\(failed) requests failed instead of 1") }
        if requestCount != Self.fileCount { problems.append("the server received \(requestCount) requests") }
        if peak > DemoStage.perHost { problems.append("\(peak) requests ran at once") }
        return (
            "\(results.count - failed) files, \(Figures.bytes(bytes)) in \(Figures.time(time)), verified and in input order; "
                + "\(failed) failed (500); the server received \(requestCount) requests, at most \(peak) at once",
            problems
        )
    }
}
