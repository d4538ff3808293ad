import Convoy
import ConvoyCache
import ConvoyTesting
import Foundation
import Testing

/// Tests hits on every path through a manager.
@Suite(.timeLimit(.minutes(5)))
struct ManagerTests {
    private static let fresh = [("Cache-Control", "max-age=60")]

    private static func reply(_ request: RecordedRequest, _ number: Int) -> Reply {
        switch request.path {
        case "/moved": .status(301, headerFields: fresh + [("Location", "/a")])
        case "/found": .status(302, headerFields: fresh + [("Location", "/uncached")])
        case "/uncached": .status(200, headerFields: [("Cache-Control", "no-store")], body: "body \(number)")
        default: .status(200, headerFields: fresh, body: "body \(number)")
        }
    }

    private static func makeWorld(
        _ place: Place = .memory, _ change: (inout RequestManager.Configuration) -> Void = { _ in }
    ) throws -> CacheWorld {
        try CacheWorld(place, change, reply: reply)
    }

    @Test(arguments: Place.allCases)
    func batchOfHitsEnds(_ place: Place) async throws {
        let world = try Self.makeWorld(place)
        let first = try await world.get().value
        let request = Request<Data>.get(world.server.url("/a"))
        let results = await world.manager.batch(Array(repeating: request, count: 3000)).results
        #expect(results.count == 3000)
        for result in results { #expect(try result.get().value == first) }
        #expect(world.sent.count == 1)
    }

    @Test func hitsEndInAQueueOfTheCallersWithALimit() async throws {
        let world = try Self.makeWorld()
        _ = try await world.get()
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = 1
        let manager = RequestManager(queue: queue, configuration: world.manager.configuration)
        let operations = (0..<50).map { _ in manager.operation(Request<Data>.get(world.server.url("/a"))) }
        for operation in operations { queue.addOperation(operation) }
        for operation in operations { #expect(try await operation.response().metrics?.cache?.isHit == true) }
        manager.queue.maxConcurrentOperationCount = 2
        #expect(try await manager.send(Request<Data>.get(world.server.url("/a"))).metrics?.cache?.isHit == true)
        #expect(world.sent.count == 1)
    }

    /// Hits of operations that are enqueued, started directly, coalesced, or made after another one.
    @Test func everyPathEndsInAHit() async throws {
        let world = try Self.makeWorld()
        _ = try await world.get()
        let (manager, url) = (world.manager, world.server.url("/a"))
        manager.queue.maxConcurrentOperationCount = 1
        var operations = (0..<20).map { _ in manager.enqueue(Request<Data>.get(url)) }
        operations.append(manager.operation(Request<Data>.get(url)))
        operations.last?.start()
        operations += (0..<20).map { _ in manager.enqueue(Request<Data>.get(url).coalesced()) }
        let first = manager.operation(Request<Data>.get(url))
        let second = manager.operation(after: first) { _ in Request<Data>.get(url) }
        manager.enqueue(first, second)
        for operation in operations + [second] {
            #expect(try await operation.response().metrics?.cache?.isHit == true)
        }
        #expect(world.sent.count == 1)
    }

    @Test func storedRedirectsAreFollowedWithoutANetworkAsFarAsTheyAreStored() async throws {
        let world = try Self.makeWorld()
        for _ in 1...2 {
            let response = try await world.get("/moved")
            #expect(response.head.url?.path == "/a")
        }
        #expect(world.sent.count == 2)
        for number in 3...5 {
            _ = try await world.get("/found")
            // The first request stores the redirect. Its target is requested each time.
            #expect(world.sent.count == number + 1)
        }
        await world.manager.drain()
        #expect(try await world.text("/a") == "body 2")
    }

    @Test func suspendedManagerAnswersNothing() async throws {
        let world = try Self.makeWorld()
        _ = try await world.get()
        world.manager.isSuspended = true
        let operation = world.manager.enqueue(Request<Data>.get(world.server.url("/a")))
        let other = RequestManager(configuration: world.manager.configuration)
        #expect(try await other.send(Request<Data>.get(world.server.url("/a"))).metrics?.cache?.isHit == true)
        #expect(!operation.isFinished)
        world.manager.isSuspended = false
        #expect(try await operation.response().metrics?.cache?.isHit == true)
    }

    @Test func interceptorsSeeTheRequestBeforeTheCacheDoes() async throws {
        struct Tagging: RequestInterceptor {
            func adapt(_ request: PreparedRequest, for _: AttemptContext) async throws -> PreparedRequest {
                var request = request
                request.headerFields["Authorization"] = "Bearer a"
                return request
            }
        }
        let world = try Self.makeWorld { $0.interceptors = [Tagging()] }
        _ = try await world.get()
        #expect(try await world.get().metrics?.cache?.isHit == true)
        #expect(try await world.get { $0.withoutInterceptors() }.metrics?.cache?.isHit == false)
        #expect(world.sent.count == 2)
    }

    @Test func storedCookiesAreNotSetASecondTime() async throws {
        let jar = CookieJar()
        let world = try CacheWorld(.memory, { $0.cookies = jar }) { _, number in
            .status(200, headerFields: Self.fresh + [("Set-Cookie", "n=\(number)")], body: "body")
        }
        let first = try await world.get("/a") { $0.header("Cookie", "fixed") }
        #expect(first.headerFields["Set-Cookie"] == "n=1")
        _ = try await world.get("/b") { $0.header("Cookie", "fixed") }
        #expect(jar.cookieField(for: world.server.url()) == "n=2")
        let hit = try await world.get("/a") { $0.header("Cookie", "fixed") }
        #expect(hit.metrics?.cache?.isHit == true)
        #expect(jar.cookieField(for: world.server.url()) == "n=2")
    }

    @Test func cookiesOfAValidationGoIntoTheJar() async throws {
        let jar = CookieJar()
        let world = try CacheWorld(.memory, { $0.cookies = jar }) { request, number in
            let fields = [("Cache-Control", "max-age=1"), ("ETag", "\"v\""), ("Set-Cookie", "n=\(number)")]
            return request.value(of: "If-None-Match") == nil
                ? .status(200, headerFields: fields, body: "body") : .status(304, headerFields: fields)
        }
        for number in 1...3 {
            #expect(try await world.text("/a") { $0.header("Cookie", "fixed") } == "body")
            #expect(jar.cookieField(for: world.server.url()) == "n=\(number)")
            world.clock.advance(by: .seconds(5))
        }
        #expect(world.sent.count == 3)
    }

    @Test func completedResponseSetsNoStoredCookie() async throws {
        let jar = CookieJar()
        let world = try CacheWorld(.memory, { $0.cookies = jar }) { request, number in
            let fields = Self.fresh + [("ETag", "\"v\"")]
            if request.value(of: "Range") == "bytes=3-" {
                return .status(206, headerFields: fields + [("Content-Range", "bytes 3-9/10")], body: "3456789")
            }
            let reply = Reply.status(
                200, headerFields: fields + [("Set-Cookie", "n=\(number)")], body: "0123456789")
            return number == 1 ? reply.performing(.close, at: .responseBody(afterBytes: 3)) : reply
        }
        await #expect(throws: RequestError.self) { _ = try await world.get("/a") { $0.header("Cookie", "fixed") } }
        _ = try await world.get("/b") { $0.header("Cookie", "fixed") }
        #expect(jar.cookieField(for: world.server.url()) == "n=2")
        #expect(try await world.text("/a") { $0.header("Cookie", "fixed") } == "0123456789")
        #expect(world.sent.count == 3)
        #expect(jar.cookieField(for: world.server.url()) == "n=2")
    }

    /// The rest belongs to another representation, although the entity tag is the same.
    @Test func aRestOfAnotherLengthDoesNotCompleteAResponse() async throws {
        let world = try CacheWorld(.memory) { request, number in
            let fields = Self.fresh + [("ETag", "\"v\"")]
            if request.value(of: "Range") == "bytes=3-" {
                return .status(206, headerFields: fields + [("Content-Range", "bytes 3-11/12")], body: "3456789ab")
            }
            let reply = Reply.status(200, headerFields: fields, body: number == 1 ? "0123456789" : "0123456789ab")
            return number == 1 ? reply.performing(.close, at: .responseBody(afterBytes: 3)) : reply
        }
        await #expect(throws: RequestError.self) { _ = try await world.get("/a") { $0.retries(.never) } }
        #expect(try await world.text("/a") == "0123456789ab")
        #expect(world.sent.count == 3)
    }

    /// A `Host` field names the host of the target URI.
    @Test func hostFieldsSelectDifferentResponses() async throws {
        let world = try CacheWorld(.memory) { request, _ in
            .status(200, headerFields: Self.fresh, body: request.value(of: "Host") ?? "")
        }
        let own = try await world.text("/a")
        for _ in 0..<2 {
            #expect(try await world.text("/a") { $0.header("Host", "A.example") } == "A.example")
            #expect(try await world.text("/a") { $0.header("Host", "b.example") } == "b.example")
            #expect(try await world.text("/a") { $0.header("Host", own) } == own)
        }
        #expect(world.sent.count == 3)
    }

    /// All of these `Host` fields except the first are invalid.
    @Test func invalidHostFieldsShareNoResponse() async throws {
        let world = try CacheWorld(.memory) { request, _ in
            .status(200, headerFields: Self.fresh, body: request.value(of: "Host") ?? "")
        }
        let hosts = [
            "b.example", "b.example/x", "b.example#x", "b.example?x", "u@b.example", "b.example\\x", "b.example/X",
            "http://b.example:80",
        ]
        for host in hosts { #expect(try await world.text("/a") { $0.header("Host", host) } == host) }
        #expect(world.sent.count == hosts.count)
    }

    @Test func unsafeRequestWithAHostFieldInvalidatesItsTarget() async throws {
        let world = try CacheWorld(.memory) { request, number in
            .status(200, headerFields: request.method == "GET" ? Self.fresh : [], body: "\(number)")
        }
        #expect(try await world.text("/a") { $0.header("Host", "b.example") } == "1")
        #expect(try await world.text("/a") { $0.header("Host", "B.example:80") } == "1")
        let put = Request<Data>.put(world.server.url("/a")).header("Host", "b.example")
        _ = try await world.manager.send(put.cacheKey("other"))
        #expect(try await world.text("/a") { $0.header("Host", "b.example") } == "3")
    }

    @Test func storedRefusalIsNotRetried() async throws {
        let world = try CacheWorld(.memory, { $0.retries = .standard }) { _, _ in
            .status(503, headerFields: Self.fresh + [("Retry-After", "30")])
        }
        for _ in 1...2 {
            let error = await #expect(throws: RequestError.self) {
                // Only the first response comes over the network, so only the first request must not be retried.
                _ = try await world.get { world.sent.count == 0 ? $0.retries(.never) : $0 }
            }
            #expect(error?.response?.statusCode == 503)
        }
        #expect(world.sent.count == 1)
    }

    @Test func answersInParallelAreAllWhole() async throws {
        let world = try CacheWorld(.disk, capacity: 4 << 20) { request, _ in
            .status(
                200, headerFields: Self.fresh,
                body: String(repeating: request.path, count: request.path.hasSuffix("0") ? 20_000 : 50))
        }
        await withTaskGroup(of: Void.self) { group in
            for task in 0..<16 {
                group.addTask {
                    for round in 0..<40 {
                        let path = "/p\((task * 7 + round * 3) % 30)"
                        let text = try? await world.text(path)
                        let count = path.hasSuffix("0") ? 20_000 : 50
                        #expect(text == String(repeating: path, count: count))
                    }
                }
            }
        }
        let statistics = world.cache.statistics
        #expect(statistics.hits > 300)
        #expect(statistics.repairs == 0)
        #expect(statistics.storedBytes <= 4 << 20)
    }
}
