// The code of the page "Batches", against a stub.
import Convoy
import ConvoyTesting
import Foundation
import Testing

@Suite struct BatchesPageTests {
    private let stub = StubTransport()
    private let manager: RequestManager

    init() {
        stub.route("/**") { .status($0.url.path == "/3" ? 404 : 200, body: Data($0.url.path.utf8)) }
        manager = RequestManager(
            configuration: .init(baseURL: URL(string: "http://example.com"), transport: .custom(stub)))
    }

    @Test func aBatch() async throws {
        let urls = (0..<20).compactMap { URL(string: "http://example.com/\($0)") }
        var drawn: [Double] = []
        func draw(_ fraction: Double, _ bytes: Int64) { drawn.append(fraction) }
        let batch = manager.batch(urls.map { Request<Data>.get($0) })
        for await progress: BatchProgress in batch.progress {
            draw(progress.fractionCompleted, progress.download.completedBytes)
        }
        for (url, result) in zip(urls, await batch.results) {
            switch result {
            case .success(let response): print(url, response.value.count)
            case .failure(let error): print(url, error.message)
            }
        }
        #expect(drawn.last == 1)
        #expect(await batch.results.filter { (try? $0.get()) == nil }.count == 1)
    }

    @Test func manyRequests() async throws {
        let tiles = manager.batch(count: 500, keepsResults: false) { index in
            Request<Data>.get("tiles/\(index)")
        }
        await tiles.finished()
        print(tiles.currentProgress.failedCount)
        #expect(tiles.currentProgress.finishedCount == 500)
        let urls = (0..<20).map { "http://example.com/\($0)" }
        let requests = urls.map { Request<Data>.get($0) }
        let all = manager.batch(requests, failFast: true)
        let isWhole = await all.results.allSatisfy { (try? $0.get()) != nil }
        #expect(!isWhole)
    }

    @Test func aBatchAndTheRest() async throws {
        let urls = ["http://example.com/1", "http://example.com/2"]
        let batch = manager.batch(urls.map { Request<Data>.get($0) })
        let report = manager.operation(after: batch) { results in
            Request<Void>.post("report", json: ["files": results.count])
        }
        manager.enqueue(report)
        _ = try await report.response()
        #expect(stub.calls.last?.url.path == "/report")
    }

    @Test func limits() {
        var configuration = RequestManager.Configuration()
        configuration.maxConcurrentOperationCount = 32
        configuration.maxConcurrentPerHost = 8
        configuration.requestRatePerHost = .perSecond(20)
        configuration.prioritization = RequestPrioritization.lifo
        configuration.hostLimits = AdaptiveLimits(maximum: 32)
        configuration.breaker = BreakerPolicy(failuresInARow: 10)
        configuration.maxBytesPerSecond = 2 << 20
        #expect(RequestManager(configuration: configuration).maxBytesPerSecond == 2 << 20)
    }
}
