import Convoy
import ConvoyCache
import Foundation
import Testing

@Suite(.timeLimit(.minutes(2)))
struct PolicyTests {
    private func makeWorld() throws -> CacheWorld {
        try CacheWorld { _, number in .fresh("body \(number)", control: "max-age=10") }
    }

    /// The field that the policy adds, and the response to the next request.
    @Test(arguments: [
        (CachePolicy.reload, "no-cache", "body 2"), (.revalidate, "max-age=0", "body 2"),
        (.noStore, "no-cache", "body 1"),
    ])
    func policiesSendTheRequest(_ policy: CachePolicy, _ control: String, _ next: String) async throws {
        let world = try makeWorld()
        _ = try await world.get()
        #expect(try await world.text { $0.cachePolicy(policy) } == "body 2")
        #expect(world.sent.events.last?.value(of: "Cache-Control") == control)
        #expect(try await world.text() == next)
    }

    @Test func preferCacheAndOnlyCacheTakeStaleResponses() async throws {
        let world = try makeWorld()
        _ = try await world.get()
        world.clock.advance(by: .seconds(100))
        #expect(try await world.text { $0.cachePolicy(.preferCache) } == "body 1")
        #expect(try await world.text { $0.cachePolicy(.onlyCache) } == "body 1")
        let error = await world.failure("/other") { $0.cachePolicy(.onlyCache) }
        #expect(error?.code == .unacceptableStatus && error?.response?.statusCode == 504)
        #expect(try await world.text("/other") { $0.cachePolicy(.preferCache) } == "body 2")
    }

    @Test func ageAndStalenessAreTheRequests() async throws {
        let world = try makeWorld()
        _ = try await world.get()
        world.clock.advance(by: .seconds(5))
        #expect(try await world.text { $0.maxCacheAge(.seconds(5)) } == "body 1")
        #expect(try await world.text { $0.maxCacheAge(.seconds(4)) } == "body 2")
        world.clock.advance(by: .seconds(15))
        #expect(try await world.text { $0.maxCacheStaleness(.seconds(5)) } == "body 2")
        #expect(try await world.text { $0.maxCacheStaleness(.seconds(4)) } == "body 3")
    }

    @Test func theCacheKeyReplacesTheURLAndUnsafeMethodsInvalidateBoth() async throws {
        let world = try makeWorld()
        let post = Request<Data>.post(world.server.url("/a?signature=2")).body(Data("x".utf8))
        #expect(try await world.text("/a?signature=1") { $0.cacheKey("a") } == "body 1")
        #expect(try await world.text("/a?signature=2") { $0.cacheKey("a") } == "body 1")
        #expect(try await world.text("/a?signature=2") == "body 2")
        // A request without the cache key cannot invalidate the response that is stored with the key.
        _ = try await world.manager.send(post)
        #expect(try await world.text("/a?signature=1") { $0.cacheKey("a") } == "body 1")
        #expect(try await world.text("/a?signature=2") == "body 4")
        _ = try await world.manager.send(post.cacheKey("a"))
        #expect(try await world.text("/a?signature=1") { $0.cacheKey("a") } == "body 6")
        #expect(try await world.text("/a?signature=2") == "body 7")
    }

    @Test func contradictionsMakeARequestInvalid() async throws {
        let plain = Request<Data>.get("http://a.test")
        let contradictions = [
            plain.cachePolicy(.reload).maxCacheAge(.seconds(1)), plain.cachePolicy(.noStore).cacheKey("a"),
            plain.cachePolicy(.onlyCache).maxCacheStaleness(.seconds(1)), plain.maxCacheAge(.seconds(-1)),
            plain.cacheKey(""),
        ]
        for request in contradictions { #expect(request.defect != nil) }
        // `onlyCache` needs a cache, which the manager does not have.
        for request in contradictions + [plain.cachePolicy(.onlyCache)] {
            let error = await #expect(throws: RequestError.self) { _ = try await RequestManager().send(request) }
            #expect(error?.code == .invalidRequest)
        }
    }

    @Test func explanationNamesTheRules() async throws {
        let world = try makeWorld()
        let request = world.request()
        #expect(try world.cache.explanation(of: request, at: world.clock.date).entry == nil)
        _ = try await world.get()
        let fresh = try world.cache.explanation(of: request, at: world.clock.date)
        #expect(fresh.isAnswered)
        #expect(fresh.rules.map(\.text).contains("1 response stored for the URL, 1 of them for these header fields"))
        #expect(fresh.entry?.freshUntil == world.clock.date.addingTimeInterval(10))
        world.clock.advance(by: .seconds(20))
        let stale = try world.cache.explanation(of: request, at: world.clock.date)
        #expect(!stale.isAnswered)
        #expect(stale.status.forward == .stale)
        #expect(stale.rules.contains { $0.section == "RFC 9111, 4.3.1" })
    }

    @Test func explanationNamesTheFieldsThatAreSent() async throws {
        let fields = [("Cache-Control", "max-age=10"), ("ETag", "\"v\"")]
        let world = try CacheWorld { request, _ in .confirming(request, fields) }
        let request = world.request()
        _ = try await world.get()
        world.clock.advance(by: .seconds(20))
        func added(_ request: Request<Data>) throws -> [String] {
            try world.cache.explanation(of: request, at: world.clock.date).addedFields.map(\.name)
        }
        #expect(try added(request) == ["If-None-Match"])
        let part = request.header("Range", "bytes=0-1")
        #expect(try added(part).isEmpty)
        #expect(try added(request.header("If-None-Match", "\"w\"")).isEmpty)
        // The sent request has no added condition, as the explanation says.
        _ = try await world.manager.send(part)
        #expect(world.sent.events.last?.value(of: "If-None-Match") == nil)
    }

    @Test func entriesAreListedAndRemoved() async throws {
        let world = try makeWorld()
        for target in ["/a", "/b", "/c"] { _ = try await world.get(target) }
        #expect(world.cache.entries().count == 3)
        #expect(world.cache.remove { $0.key.hasSuffix("/b") } == 1)
        #expect(world.cache.entries { $0.bodyBytes == 6 }.map(\.key).count == 2)
        world.cache.removeAll()
        #expect(world.cache.entries().isEmpty)
    }
}
