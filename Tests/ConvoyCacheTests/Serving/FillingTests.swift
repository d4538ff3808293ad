import Convoy
import ConvoyCache
import Foundation
import Testing

/// Tests responses that are stored before a request needs them, and how the cache explains them.
@Suite(.timeLimit(.minutes(2)))
struct FillingTests {
    @Test(arguments: Place.allCases)
    func prefetchAlsoReplacesFreshResponses(_ place: Place) async throws {
        let world = try CacheWorld(place) { _, number in .fresh("body \(number)") }
        _ = try await world.get("/a")
        let batch = world.manager.prefetch(["/a", "/b"].map { world.request($0) })
        await batch.finished()
        #expect(batch.currentProgress.failedCount == 0)
        #expect(world.sent.count == 3)
        #expect(try await world.text("/a") != "body 1")
        #expect(try await world.get("/b").isHit)
    }

    @Test(arguments: Place.allCases)
    func responseThatIsGivenAnswers(_ place: Place) async throws {
        let world = try CacheWorld(place) { _, _ in .status(200, body: "sent") }
        func store(_ target: String, _ fields: HeaderFields) throws -> Bool {
            try world.cache.store(
                Data("given".utf8), headerFields: fields, for: world.request(target), at: world.clock.date)
        }
        #expect(try store("/a", ["Cache-Control": "max-age=60", "Content-Length": "5"]))
        #expect(try await world.text("/a") == "given")
        #expect(try !store("/b", ["Cache-Control": "no-store"]))
        #expect(try await world.text("/b") == "sent")
        world.clock.advance(by: .seconds(61))
        #expect(try await world.text("/a") == "sent")
    }

    /// Both responses match the request, and both arrived in the same second.
    @Test func explanationSelectsTheLaterOfOneSecond() throws {
        let cache = HTTPCache.memory(capacity: 1 << 20)
        let request = Request<Data>.get("http://host/a")
        for name in ["A", "B"] {
            try cache.store(
                Data(), headerFields: ["Cache-Control": "max-age=60", "Vary": name, "X-Name": name],
                for: request.header(name, "1"), at: Date(timeIntervalSince1970: 1_700_000_000))
        }
        let asked = request.header("A", "1").header("B", "1").cachePolicy(.reload)
        #expect(try cache.explanation(of: asked).entry?.headerFields["X-Name"] == "B")
    }

    /// A stub without a network, whose responses become stale by the clock of a test.
    @Test func stubAnswersAsACacheableServer() async throws {
        let clock = VirtualClock()
        let stub = StubTransport(clock: clock)
        stub.route("/a", replies: .json("1").cacheable(maxAge: .seconds(60), etag: "v"))
        var configuration = RequestManager.Configuration(transport: .custom(stub), clock: clock)
        configuration.cache = HTTPCache.memory(capacity: 1 << 20)
        let manager = RequestManager(configuration: configuration)
        func status() async throws -> CacheStatus? {
            let response = try await manager.send(Request<Data>.get("http://stub.test/a"))
            #expect(response.statusCode == 200 && response.value == Data("1".utf8))
            return response.metrics?.cache
        }
        #expect(try await status()?.forward == .uriMiss)
        clock.advance(by: .seconds(59))
        #expect(try await status()?.isHit == true)
        clock.advance(by: .seconds(2))
        let validated = try await status()
        #expect(validated?.forward == .stale && validated?.forwardStatus == 304)
        #expect(try await status()?.isHit == true)
        #expect(stub.calls.count == 2)
    }

    @Test func monitorsSeeWhetherAResponseIsAHit() async throws {
        let lines = EventLog<String>()
        let recorder = HARRecorder()
        let monitors: [any EventMonitor] = [LogMonitor { _, line in lines.record(line) }, recorder]
        let world = try CacheWorld(.memory, { $0.monitors = monitors }) { _, _ in .fresh() }
        let miss = world.manager.enqueue(world.request())
        _ = try await miss.response()
        let hit = world.manager.enqueue(world.request())
        _ = try await hit.response()
        world.manager.shutDown()
        // A monitor may be notified after `response()` has returned, so the test waits for the entry in the archive.
        func archive() -> String { String(decoding: recorder.har(), as: UTF8.self) }
        await look { archive().contains("convoy; hit; ttl=60") }
        #expect(hit.attempts.last?.isFromCache == true)
        #expect(miss.attempts.last?.isFromCache == false)
        #expect(world.manager.why(hit) == "has finished, from the cache")
        #expect(world.manager.why(miss) == "has finished")
        #expect(lines.events.count { $0.contains("200, 4 bytes from the cache in") } == 1)
        #expect(archive().contains("convoy; fwd=uri-miss"))
    }
}
