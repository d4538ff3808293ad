import Convoy
import ConvoyCache
import Foundation
import Testing

@Suite(.timeLimit(.minutes(2)))
struct ServingTests {
    @Test(arguments: Place.allCases)
    func freshHitSendsNothing(_ place: Place) async throws {
        let world = try CacheWorld(place) { _, number in .fresh("body \(number)") }
        let first = try await world.get()
        #expect(first.metrics?.cache?.forward == .uriMiss && first.metrics?.cache?.isStored == true)
        world.clock.advance(by: .seconds(10))
        let second = try await world.get()
        #expect(second.value == first.value && second.isHit && second.metrics?.cache?.timeToLive == 50)
        #expect(second.headerFields["Age"] == "10")
        #expect(world.sent.count == 1)
        #expect(world.cache.statistics.hits == 1 && world.cache.statistics.entryCount == 1)
    }

    @Test(arguments: Place.allCases)
    func staleResponseIsValidatedAndA304IsTheStoredResponse(_ place: Place) async throws {
        let world = try CacheWorld(place) {
            .confirming($0, [("Cache-Control", "max-age=5"), ("ETag", "\"v\""), ("X-Number", "\($1)")])
        }
        _ = try await world.get()
        world.clock.advance(by: .seconds(6))
        let second = try await world.get()
        #expect(second.statusCode == 200 && second.text == "body")
        #expect(second.headerFields["X-Number"] == "2")
        #expect(second.metrics?.cache?.forward == .stale && second.metrics?.cache?.forwardStatus == 304)
        // The stored response is fresh again.
        #expect(try await world.get().isHit)
        #expect(world.sent.count == 2)
        #expect(world.cache.statistics.validations == 1)
    }

    @Test func aFreshHitUsesNoSlotAndNoToken() async throws {
        let gate = Gate()
        let world = try CacheWorld(
            .memory,
            {
                $0.maxConcurrentOperationCount = 1
                $0.requestRate = RequestRate(1, per: .seconds(1000))
            },
            reply: { request, _ in request.target == "/slow" ? .status(200).stalling(until: gate) : .fresh() })
        _ = try await world.get("/a")
        world.clock.advance(by: .seconds(1000))
        let slow = world.manager.enqueue(world.request("/slow"))
        try await gate.reached()
        // The request for `/slow` occupies the only slot and the only token.
        #expect(try await world.get("/a") { $0.cachePolicy(.preferCache) }.isHit)
        #expect(world.sent.count == 2)
        gate.open()
        _ = try await slow.response()
    }

    @Test(arguments: Place.allCases)
    func variantsAreKeptApart(_ place: Place) async throws {
        let world = try CacheWorld(place) { request, _ in
            .fresh(request.value(of: "Accept-Language") ?? "none", ("Vary", "Accept-Language"))
        }
        for language in ["de", "en", "de", "en"] {
            #expect(try await world.text { $0.header("Accept-Language", language) } == language)
        }
        #expect(try await world.text() == "none")
        #expect(world.sent.count == 3)
    }

    @Test(
        arguments: Place.allCases,
        [
            "Authorization", "Cookie", "X-Api-Key", "api_key", "X-Auth-Token", "PRIVATE-TOKEN", "X-Session-Id",
            "Ocp-Apim-Subscription-Key", "X-Goog-Api-Key", "X-Amz-Security-Token", "X-Functions-Key", "X-Tenant",
        ])
    func answerToOneCredentialIsNotServedForAnother(_ place: Place, _ name: String) async throws {
        let world = try CacheWorld(place) { request, _ in
            let control = request.target == "/all" ? "public, max-age=60" : "\(request.path.dropFirst())max-age=60"
            return .fresh(request.value(of: name) ?? "none", control: control)
        }
        func text(_ target: String, _ value: String) async throws -> String {
            // The name of `X-Tenant` indicates no secret.
            try await world.text(target) {
                name == "X-Tenant" ? $0.secretHeader(name, value) : $0.header(name, value)
            }
        }
        for target in ["/", "/private,", "/public,private,"] {
            let sentCount = world.sent.count
            for value in ["secret a", "secret b", "secret a", "secret b"] {
                #expect(try await text(target, value) == value, "\(target)")
            }
            #expect(try await world.text(target) == "none")
            #expect(try await text(target, "secret a") == "secret a")
            #expect(world.sent.count == sentCount + 3)
        }
        _ = try await text("/all", "secret a")
        #expect(try await text("/all", "secret b") == "secret a")
        #expect(try await world.text("/all") == "secret a")
        if place == .disk { #expect(try !world.storedBytes().contains(name)) }
    }

    /// The order of fields with different names has no meaning.
    @Test func credentialsOfSeveralFieldsBelongTogether() async throws {
        let world = try CacheWorld { _, number in .fresh("body \(number)") }
        let requests: [[(String, String)]] = [
            [("X-Api-Key", "a"), ("Cookie", "b")], [("x-api-key", "b"), ("Cookie", "a")], [("X-Api-Key", "a")],
            [("Cookie", "b"), ("X-API-KEY", "a")],
        ]
        var texts: [String] = []
        for fields in requests {
            texts.append(try await world.text { fields.reduce($0) { $0.header($1.0, $1.1) } })
        }
        #expect(texts == ["body 1", "body 2", "body 3", "body 1"])
    }

    /// A request with cookies may use a response to one without them, unless it is private.
    @Test func cookiesOfAJarKeepUsersApart() async throws {
        for (control, isShared) in [("max-age=60", true), ("private, max-age=60", false)] {
            let jars = [CookieJar(), CookieJar()]
            let world = try CacheWorld { request, _ in
                let user = request.target == "/login" ? request.value(of: "X-User") : nil
                let fields = [("Cache-Control", user == nil ? control : "no-store")]
                return .status(
                    200, headerFields: fields + (user.map { [("Set-Cookie", "sid=\($0)")] } ?? []),
                    body: request.value(of: "Cookie") ?? "none")
            }
            #expect(try await world.text("/page") == "none")
            for (jar, user) in zip(jars, ["ann", "bob"]) {
                var configuration = world.manager.configuration
                configuration.cookies = jar
                let manager = RequestManager(configuration: configuration)
                _ = try await manager.send(world.request("/login").header("X-User", user))
                for target in ["/page", "/account", "/account"] {
                    let text = try await manager.send(world.request(target)).text
                    #expect(text == (isShared && target == "/page" ? "none" : "sid=\(user)"))
                }
            }
        }
    }

    /// The confirmation has fields for one user, such as `Set-Cookie`.
    @Test func aConfirmedResponseBelongsToTheCredentialThatConfirmedIt() async throws {
        let world = try CacheWorld { request, number in
            let fields = [("Cache-Control", "max-age=5"), ("ETag", "\"v\"")]
            guard let user = request.value(of: "Cookie") else {
                return .status(200, headerFields: fields, body: "body \(number)")
            }
            return .status(
                request.value(of: "If-None-Match") == nil ? 200 : 304, headerFields: fields + [("Set-Cookie", user)])
        }
        #expect(try await world.text() == "body 1")
        world.clock.advance(by: .seconds(6))
        #expect(try await world.text { $0.header("Cookie", "sid=ann") } == "body 1")
        let other = try await world.get { $0.header("Cookie", "sid=bob") }
        #expect(other.headerFields["Set-Cookie"] == "sid=bob")
        #expect(world.sent.count == 3)
    }

    @Test(arguments: Place.allCases)
    func unsafeMethodInvalidates(_ place: Place) async throws {
        let world = try CacheWorld(place) { request, number in
            request.method == "POST" ? .status(201, headerFields: [("Location", "/b")]) : .fresh("body \(number)")
        }
        for target in ["/a", "/b", "/c"] { _ = try await world.get(target) }
        _ = try await world.manager.send(Request<Data>.post(world.server.url("/a")).body(Data("x".utf8)))
        for target in ["/a", "/b", "/c"] { _ = try await world.get(target) }
        #expect(world.sent.count == 6)
        #expect(world.cache.statistics.hits == 1)
    }

    @Test func rangeIsServedFromTheStoredWhole() async throws {
        let world = try CacheWorld { _, number in .fresh("body \(number)") }
        _ = try await world.get()
        let part = try await world.get { $0.header("Range", "bytes=0-3") }
        #expect(part.statusCode == 206 && part.text == "body")
        #expect(part.headerFields["Content-Range"] == "bytes 0-3/6")
        #expect(world.sent.count == 1)
    }

    @Test(arguments: Place.allCases)
    func cutResponseIsNeverServedAsTheWhole(_ place: Place) async throws {
        let fields = [("Cache-Control", "max-age=60")]
        let world = try CacheWorld(place) { .cut($0, $1, fields, rest: fields) }
        _ = await world.failure()
        for _ in 1...2 {
            let response = try await world.get()
            #expect(response.statusCode == 200 && response.text == "0123456789")
        }
        #expect(world.sent.count == 2)
    }

    @Test func staleIsUsedWhenTheServerIsGoneUnlessForbidden() async throws {
        let world = try CacheWorld { request, _ in
            .fresh(control: request.target == "/strict" ? "max-age=1, must-revalidate" : "max-age=1")
        }
        _ = try await world.get("/a")
        _ = try await world.get("/strict")
        world.clock.advance(by: .seconds(5))
        world.server.shutDown()
        let response = try await world.get("/a")
        #expect(response.metrics?.cache?.detail == "stale-if-error")
        #expect(response.headerFields["Age"] == "5")
        let error = await world.failure("/strict")
        #expect(error?.code == .connectionFailed || error?.code == .connectionLost)
    }

    enum UnusedBody: CaseIterable {
        case endless, endlessOverURLSession, cut, undecodable
    }

    /// The cache replaces the body of the 503 by a stored one, and requests the whole instead of a wrong rest.
    @Test(arguments: UnusedBody.allCases, [503, 206])
    func aBodyThatNoOneReceivesNeedNotEnd(_ body: UnusedBody, _ status: Int) async throws {
        let isRest = status == 206
        let world = try CacheWorld(.disk, { if body == .endlessOverURLSession { $0.transport = .urlSession } }) {
            request, number in
            if number == 2 {
                var fields = [("ETag", "\"v\""), ("Content-Range", "bytes 4-1048579/1048580")]
                if body == .undecodable {
                    fields.append(("Content-Encoding", "gzip"))
                    return .status(status, headerFields: fields, body: "not gzip at all")
                }
                let reply = Reply.status(status, headerFields: fields, body: Data(count: 1 << 20))
                return body == .cut
                    ? reply.performing(.close, at: .responseBody(afterBytes: 10))
                    : reply.stalling(afterBodyBytes: 512 << 10)
            }
            return isRest
                ? .cut(request, number, [("Cache-Control", "max-age=60")], rest: [])
                : .fresh("0123456789", control: "max-age=1, stale-if-error=60")
        }
        _ = try? await world.get { $0.retries(.never) }
        if !isRest { world.clock.advance(by: .seconds(5)) }
        #expect(try await world.text { $0.retries(.never) } == "0123456789")
        #expect(world.sent.count == (isRest ? 3 : 2))
    }

    @Test(arguments: [false, true])
    func staleWhileRevalidateRefreshesOnceInTheBackground(_ isCancelled: Bool) async throws {
        let gate = Gate()
        let world = try CacheWorld { _, number in
            let reply = Reply.fresh("body \(number)", control: "max-age=1, stale-while-revalidate=60")
            return number == 2 ? reply.stalling(until: gate) : reply
        }
        _ = try await world.get()
        world.clock.advance(by: .seconds(5))
        for _ in 1...3 { #expect(try await world.text() == "body 1") }
        try await gate.reached()
        if isCancelled { world.manager.cancelAll() } else { gate.open() }
        await world.manager.drain()
        gate.open()
        #expect(try await world.text() == (isCancelled ? "body 1" : "body 2"))
        if !isCancelled { #expect(world.sent.count == 2) }
    }

    @Test func damagedBodyIsAMissAndNoRequestWhereNoneIsAllowed() async throws {
        let world = try CacheWorld(.disk) { _, _ in
            .generated(byteCount: 100_000, headerFields: [("Cache-Control", "max-age=60")])
        }
        let whole = try await world.get().value
        #expect(world.cache.statistics.entryCount == 1)
        func damage() throws {
            for name in try world.directory.names(in: "cache/convoy-cache-bodies") {
                let file = world.directory.file("cache/convoy-cache-bodies/" + name)
                let handle = try FileHandle(forWritingTo: file)
                try handle.seek(toOffset: 50_000)
                try handle.write(contentsOf: Data("damage".utf8))
                try handle.close()
            }
        }
        try damage()
        let second = try await world.get()
        #expect(second.value == whole && second.metrics?.cache?.forward == .uriMiss)
        #expect(world.sent.count == 2)
        #expect(world.cache.statistics.repairs == 1)
        #expect(try await world.get().isHit)
        try damage()
        let error = await world.failure { $0.cachePolicy(.onlyCache) }
        #expect(error?.response?.statusCode == 504)
        #expect(world.sent.count == 2)
    }
}
