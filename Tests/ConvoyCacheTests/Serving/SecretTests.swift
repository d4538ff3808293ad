import Convoy
import ConvoyCache
import Foundation
import Testing

/// Searches each byte of the cache's directory for secrets: index, log, shared memory, bodies and key.
@Suite(.timeLimit(.minutes(5)))
struct SecretTests {
    private static func secret(_ kind: String, _ number: Int) -> String { "\(kind)-secret-\(number)-" }

    /// Each body repeats its secret until it fills several pages.
    private static func body(_ kind: String, _ number: Int) -> String {
        String(repeating: secret(kind, number), count: number.isMultiple(of: 10) ? 4_000 : 200)
    }

    private static func request(_ request: Request<Data>, _ number: Int, key: Int) -> Request<Data> {
        request.header("Authorization", "Bearer " + secret("token", number))
            .header("Cookie", "session=" + secret("cookie", number)).header("X-Api-Key", secret("key", key))
    }

    @Test func fiveHundredRequestsLeaveNoSecret() async throws {
        let world = try CacheWorld(.disk, capacity: 1 << 20) { request, number in
            var fields = [
                ("Cache-Control", "max-age=60"), ("Vary", "Cookie, X-Api-Key, Accept-Encoding"),
                ("ETag", "\"v\(number)\""),
            ]
            let kind = request.target.split(separator: "/").first.map(String.init) ?? ""
            if kind == "refused" { fields[0].1 = "max-age=60, no-store" }
            let index = Int(request.target.split(separator: "/").last ?? "") ?? 0
            return .status(200, headerFields: fields, body: Self.body(kind, index))
        }
        for number in 0..<500 {
            let target = "/\(["stored", "refused", "asked", "policy"][number % 4])/\(number)"
            let response = try await world.get(target) {
                let request = Self.request($0, number, key: number)
                if number % 4 == 3 { return request.cachePolicy(.noStore) }
                return number % 4 == 2 ? request.header("Cache-Control", "no-store") : request
            }
            #expect(response.statusCode == 200)
        }
        // A short secret can be guessed from its unkeyed digest, so the directory must not contain one.
        let plain = [0, 4, 496].map {
            FileDigest.ofBytes(Data(("Bearer " + Self.secret("token", $0)).utf8)).hexadecimal
        }
        #expect(world.cache.statistics.entryCount > 0)
        #expect(world.cache.statistics.evictions > 0)
        let bytes = try world.storedBytes()
        #expect(bytes.contains("stored-secret-"))
        for kind in ["refused", "asked", "policy", "token", "cookie", "key"] {
            #expect(!bytes.contains("\(kind)-secret-"), "\(kind)")
        }
        #expect(!plain.contains { bytes.contains($0) })
        // The stored digests still distinguish callers.
        #expect(try await world.get("/stored/496") { Self.request($0, 496, key: 496) }.isHit)
        #expect(try await !world.get("/stored/496") { Self.request($0, 496, key: 495) }.isHit)
    }

    /// The refresh repeats the request to the other origin, to which the redirect took no secret.
    @Test func refreshAfterARedirectHasNoSecretOfTheManager() async throws {
        let (other, sent) = (try TestServer(), EventLog<RecordedRequest>())
        defer { other.shutDown() }
        other.respond { request in
            sent.record(request)
            return .fresh(control: "max-age=0, stale-while-revalidate=600")
        }
        let target = other.url("/b")
        let world = try CacheWorld(.memory, { $0.headerFields = ["X-Api-Key": "secret", "Authorization": "secret"] }) {
            request, _ in
            #expect(request.value(of: "X-Api-Key") == "secret")
            return .redirect(to: "\(target)")
        }
        for _ in 1...3 {
            _ = try await world.get()
            // The refresh, which is one at a time, has ended.
            await world.manager.drain()
        }
        #expect(sent.count == 3)
        #expect(
            sent.events.flatMap { [$0.value(of: "X-Api-Key"), $0.value(of: "Authorization")] }.allSatisfy { $0 == nil })
    }

    @Test func sharedCacheHasNothingOfOneUser() async throws {
        let world = try CacheWorld(.disk, sharing: .shared()) { request, _ in
            let isPrivate = request.target.hasPrefix("/private")
            return .status(
                200, headerFields: [("Cache-Control", isPrivate ? "private, max-age=60" : "max-age=60")],
                body: Self.body(isPrivate ? "private" : request.target == "/all" ? "all" : "user", 1))
        }
        _ = try await world.get("/private")
        _ = try await world.get("/user") { $0.header("Authorization", "Bearer a") }
        _ = try await world.get("/all")
        #expect(world.cache.statistics.entryCount == 1)
        let bytes = try world.storedBytes()
        #expect(bytes.contains("all-secret-"))
        #expect(!bytes.contains("private-secret-"))
        #expect(!bytes.contains("user-secret-"))
    }

    /// A new cache reads the key from the directory, as another process would.
    ///
    /// Without the key, no stored response matches a request with credentials.
    @Test func keyOfDigestsIsBesideTheIndex() async throws {
        let world = try CacheWorld(.disk) { _, _ in .fresh() }
        func isHit() async throws -> Bool {
            var configuration = RequestManager.Configuration(clock: world.clock)
            let cache = HTTPCache(directory: world.directory.file("cache"), capacity: 1 << 20)
            configuration.cache = cache
            let manager = RequestManager(configuration: configuration)
            let response = try await manager.send(world.request().header("Authorization", "Bearer a"))
            // Waits until the response is written, for the next cache.
            _ = cache.statistics
            return response.isHit
        }
        _ = try await world.get("/a") { $0.header("Authorization", "Bearer a") }
        _ = world.cache.statistics
        #expect(try await isHit())
        let key = world.directory.file("cache/convoy-cache.key")
        #expect(try Data(contentsOf: key).count == 64)
        // The key file is cut off, so the cache creates a new key.
        try Data(repeating: 1, count: 10).write(to: key)
        #expect(try await !isHit())
        #expect(try Data(contentsOf: key).count == 64)
        #expect(try await isHit())
    }
}
