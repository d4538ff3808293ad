import Convoy
import ConvoyCache
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
        let results = await world.manager.batch(Array(repeating: world.request(), count: 3000)).results
        #expect(results.count == 3000)
        for result in results { #expect(try result.get().value == first) }
        #expect(world.sent.count == 1)
    }

    /// Hits of operations that are enqueued, started directly, coalesced, made after another one, or in a queue of the
    /// caller's.
    @Test func everyPathEndsInAHit() async throws {
        let world = try Self.makeWorld()
        _ = try await world.get()
        let (manager, request) = (world.manager, world.request())
        manager.queue.maxConcurrentOperationCount = 1
        var operations = (0..<20).map { _ in manager.enqueue(request) }
        operations.append(manager.operation(request))
        operations.last?.start()
        operations += (0..<20).map { _ in manager.enqueue(request.coalesced()) }
        let first = manager.operation(request)
        let second = manager.operation(after: first) { _ in request }
        manager.enqueue(first, second)
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = 1
        let other = RequestManager(queue: queue, configuration: manager.configuration)
        let others = (0..<50).map { _ in other.operation(request) }
        for operation in others { queue.addOperation(operation) }
        for operation in operations + [second] + others { #expect(try await operation.response().isHit) }
        other.queue.maxConcurrentOperationCount = 2
        #expect(try await other.send(request).isHit)
        #expect(world.sent.count == 1)
    }

    @Test func storedRedirectsAreFollowedWithoutANetworkAsFarAsTheyAreStored() async throws {
        let world = try Self.makeWorld()
        for _ in 1...2 { #expect(try await world.get("/moved").head.url?.path == "/a") }
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
        let operation = world.manager.enqueue(world.request())
        let other = RequestManager(configuration: world.manager.configuration)
        #expect(try await other.send(world.request()).isHit)
        #expect(!operation.isFinished)
        world.manager.isSuspended = false
        #expect(try await operation.response().isHit)
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
        #expect(try await world.get().isHit)
        #expect(try await world.get { $0.withoutInterceptors() }.isHit == false)
        #expect(world.sent.count == 2)
    }

    @Test func storedCookiesAreNotSetASecondTime() async throws {
        let jar = CookieJar()
        let world = try CacheWorld(.memory, { $0.cookies = jar }) { _, number in
            .fresh("body", ("Set-Cookie", "n=\(number)"))
        }
        let first = try await world.get("/a") { $0.header("Cookie", "fixed") }
        #expect(first.headerFields["Set-Cookie"] == "n=1")
        _ = try await world.get("/b") { $0.header("Cookie", "fixed") }
        #expect(jar.cookieField(for: world.server.url()) == "n=2")
        #expect(try await world.get("/a") { $0.header("Cookie", "fixed") }.isHit)
        #expect(jar.cookieField(for: world.server.url()) == "n=2")
    }

    @Test func cookiesOfAValidationGoIntoTheJar() async throws {
        let jar = CookieJar()
        let world = try CacheWorld(.memory, { $0.cookies = jar }) {
            .confirming($0, [("Cache-Control", "max-age=1"), ("ETag", "\"v\""), ("Set-Cookie", "n=\($1)")])
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
            .cut(request, number, Self.fresh + [("Set-Cookie", "n=\(number)")], rest: Self.fresh)
        }
        _ = await world.failure("/a") { $0.header("Cookie", "fixed") }
        _ = try await world.get("/b") { $0.header("Cookie", "fixed") }
        #expect(jar.cookieField(for: world.server.url()) == "n=2")
        #expect(try await world.text("/a") { $0.header("Cookie", "fixed") } == "0123456789")
        #expect(world.sent.count == 3)
        #expect(jar.cookieField(for: world.server.url()) == "n=2")
    }

    /// The rest belongs to another representation, although the entity tag is the same.
    @Test func aRestOfAnotherLengthDoesNotCompleteAResponse() async throws {
        let world = try CacheWorld { .cut($0, $1, Self.fresh, rest: Self.fresh, end: "ab") }
        _ = await world.failure { $0.retries(.never) }
        #expect(try await world.text("/a") == "0123456789ab")
        #expect(world.sent.count == 3)
    }

    /// An invalid `Host` field shares no response.
    @Test func hostFieldsSelectDifferentResponses() async throws {
        let world = try CacheWorld { request, _ in .fresh(request.value(of: "Host") ?? "") }
        let own = try await world.text("/a")
        for _ in 0..<2 {
            #expect(try await world.text("/a") { $0.header("Host", "A.example") } == "A.example")
            #expect(try await world.text("/a") { $0.header("Host", "b.example") } == "b.example")
            #expect(try await world.text("/a") { $0.header("Host", own) } == own)
        }
        let invalid = [
            "b.example/x", "b.example#x", "b.example?x", "u@b.example", "b.example\\x", "b.example/X",
            "http://b.example:80",
        ]
        for host in invalid { #expect(try await world.text("/a") { $0.header("Host", host) } == host) }
        #expect(world.sent.count == 3 + invalid.count)
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
            // Only the first response comes over the network, so only the first request must not be retried.
            let error = await world.failure { world.sent.count == 0 ? $0.retries(.never) : $0 }
            #expect(error?.response?.statusCode == 503)
        }
        #expect(world.sent.count == 1)
    }

    @Test func answersInParallelAreAllWhole() async throws {
        let world = try CacheWorld(.disk, capacity: 4 << 20) { request, _ in
            .fresh(String(repeating: request.path, count: request.path.hasSuffix("0") ? 20_000 : 50))
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
