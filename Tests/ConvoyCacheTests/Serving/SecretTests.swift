import Convoy
import ConvoyCache
import ConvoyTesting
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
            let target = ["/stored/\(number)", "/refused/\(number)", "/asked/\(number)", "/policy/\(number)"][
                number % 4]
            let response = try await world.get(target) { request in
                var request = request.header("Authorization", "Bearer " + Self.secret("token", number))
                    .header("Cookie", "session=" + Self.secret("cookie", number))
                    .header("X-Api-Key", Self.secret("key", number))
                if number % 4 == 2 { request = request.header("Cache-Control", "no-store") }
                if number % 4 == 3 { request = request.cachePolicy(.noStore) }
                return request
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
        let last = world.sent.count
        let own = try await world.get("/stored/496") { request in
            request.header("Authorization", "Bearer " + Self.secret("token", 496))
                .header("Cookie", "session=" + Self.secret("cookie", 496)).header("X-Api-Key", Self.secret("key", 496))
        }
        #expect(own.metrics?.cache?.isHit == true)
        _ = try await world.get("/stored/496") { request in
            request.header("Authorization", "Bearer " + Self.secret("token", 496))
                .header("Cookie", "session=" + Self.secret("cookie", 496)).header("X-Api-Key", Self.secret("key", 495))
        }
        #expect(world.sent.count == last + 1)
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
        let world = try CacheWorld(.disk) { _, _ in
            .status(200, headerFields: [("Cache-Control", "max-age=60")], body: "x")
        }
        func isHit() async throws -> Bool? {
            var configuration = RequestManager.Configuration(clock: world.clock)
            let cache = HTTPCache(directory: world.directory.file("cache"), capacity: 1 << 20)
            configuration.cache = cache
            let manager = RequestManager(configuration: configuration)
            let request = Request<Data>.get(world.server.url("/a")).header("Authorization", "Bearer a")
            let response = try await manager.send(request)
            // Waits until the response is written, for the next cache.
            _ = cache.statistics
            return response.metrics?.cache?.isHit
        }
        _ = try await world.get("/a") { $0.header("Authorization", "Bearer a") }
        _ = world.cache.statistics
        #expect(try await isHit() == true)
        let key = world.directory.file("cache/convoy-cache.key")
        #expect(try Data(contentsOf: key).count == 64)
        // The key file is cut off, so the cache creates a new key.
        try Data(repeating: 1, count: 10).write(to: key)
        #expect(try await isHit() == false)
        #expect(try Data(contentsOf: key).count == 64)
        #expect(try await isHit() == true)
    }
}
