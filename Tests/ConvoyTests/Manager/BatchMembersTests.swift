import Foundation
import Testing

@testable import Convoy

/// Tests the index of each result when members are added to those of the source.
@Suite struct BatchMembersTests {
    /// A stub whose responses contain the paths of their requests.
    private static func echo() -> StubServer {
        StubServer { $0.answer(200, body: Data($0.request.url.path.utf8)) }
    }

    private static func path(_ result: Batch<Data>.Result?) -> String? {
        (try? result?.get().value).map { String(decoding: $0, as: UTF8.self) }
    }

    @Test func additionsDoNotShiftResultsOfTheSource() async {
        let told = EventLog<(Int, String?)>()
        let adders = Locked<Batch<Data>?>(nil)
        let batch = Self.echo().manager().batch((0..<5_000).map { Request<Data>.stub("\($0)") }) { index, result in
            told.record((index, Self.path(result)))
            if index % 500 == 0 { adders.withLock { $0 }?.add(.stub("added")) }
        }
        // This addition may precede the first pull from the source.
        batch.add(.stub("added"))
        adders.withLock { $0 = batch }
        let paths = await batch.results.map(Self.path)
        adders.withLock { $0 = nil }
        #expect(Array(paths.prefix(5_000)) == (0..<5_000).map { "/\($0)" })
        #expect(paths.count > 5_000)
        #expect(paths.dropFirst(5_000).allSatisfy { $0 == "/added" })
        #expect(told.events.allSatisfy { $0.1 == "/\($0.0)" })
        #expect(told.count == 5_000)
        #expect(batch.currentProgress.totalCount == paths.count)
    }

    /// Several threads add members while a source of unknown length is pulled.
    ///
    /// The failure of the source changes no index.
    @Test(arguments: [true, false]) func eachAdditionFindsItsOwnResult(sourceFails: Bool) async {
        struct Broken: Error {}
        let (stream, source) = AsyncThrowingStream<Request<Data>, any Error>.makeStream()
        let batch = Self.echo().manager().batch(pulling: stream)
        let found = EventLog<(Batch<Data>.Addition, String)>()
        await withTaskGroup { group in
            for adder in 0..<4 {
                group.addTask {
                    for index in 0..<100 {
                        let name = "added-\(adder)-\(index)"
                        guard let addition = batch.add(.stub(name)) else { return }
                        found.record((addition, "/" + name))
                    }
                }
            }
            group.addTask { for index in 0..<400 { source.yield(.stub("\(index)")) } }
        }
        if sourceFails { source.finish(throwing: Broken()) } else { source.finish() }
        let results = await batch.results
        let sourceCount = sourceFails ? 401 : 400
        #expect(results.prefix(400).map(Self.path) == (0..<400).map { "/\($0)" })
        #expect(results.count == sourceCount + 400)
        #expect((results[400].code == .invalidRequest) == sourceFails)
        if sourceFails { #expect((results[400].failure as? RequestError)?.underlying is Broken) }
        #expect(Set(found.events.map(\.0.number)) == Set(0..<400))
        for (addition, path) in found.events {
            #expect(Self.path(await batch.result(of: addition)) == path)
            #expect(Self.path(results[sourceCount + addition.number]) == path)
        }
    }

    /// Simulates a crawler: each response adds more requests, and the batch ends after the last one.
    @Test func aHandlerOfAnAdditionMayAddMore() async throws {
        let server = StubServer { exchange in
            guard exchange.request.url.path != "/start" else { return }
            exchange.answer(200, body: Data(exchange.request.url.path.utf8))
        }
        let batch = server.manager().batch([Request<Data>.stub("start")], keepsResults: false)
        let start = await server.exchanges.wait()[0]
        let seen = EventLog<String?>()
        @Sendable func visit(_ name: String, depth: Int) {
            batch.add(.stub(name)) { result in
                seen.record(Self.path(result))
                guard depth < 5 else { return }
                for side in ["l", "r"] { visit(name + side, depth: depth + 1) }
            }
        }
        let root = batch.add(.stub("x")) { _ in for side in ["l", "r"] { visit(side, depth: 1) } }
        start.answer(200)
        await batch.finished()
        #expect(seen.count == 62)
        #expect(Set(seen.events).count == 62)
        #expect(await batch.result(of: try #require(root)) == nil)
        #expect(batch.currentProgress.finishedCount == 64)
    }

    @Test func stoppedRequestsHaveResultsAtTheirIndices() async {
        let (server, manager) = StubServer.held().withManager(2)
        let batch = manager.batch((0..<3_000).map { Request<Data>.stub("\($0)") })
        await server.exchanges.wait(count: 2)
        let addition = batch.add(.stub("added"))
        server.exchanges.events.first { $0.request.url.path == "/1" }?.answer(
            200, body: Data("/1".utf8))
        await server.exchanges.wait(count: 3)
        batch.cancel()
        let results = await batch.results
        #expect(results.count == 3_001)
        #expect(results.indices.filter { results[$0].code == nil } == [1])
        if let addition { #expect(await batch.result(of: addition)?.code == .cancelled) }
        #expect(batch.currentProgress.finishedCount == 3_001 && batch.currentProgress.skippedCount >= 1_900)
    }
}
