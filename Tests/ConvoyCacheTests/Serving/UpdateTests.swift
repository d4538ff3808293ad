import Convoy
import ConvoyCache
import Foundation
import Testing

/// Tests stored responses whose fields change without a new body: by a 304, a response to HEAD, or a 206.
@Suite(.timeLimit(.minutes(2)))
struct UpdateTests {
    /// Fields that forbid storing a response.
    struct Ban: Sendable {
        let sharing: CacheSharing
        let fields: [(String, String)]

        static let all = [
            Ban(sharing: .private, fields: [("Cache-Control", "no-store, max-age=60")]),
            Ban(sharing: .shared(), fields: [("Cache-Control", "private, max-age=60"), ("Set-Cookie", "a=1")]),
            Ban(sharing: .private, fields: [("Cache-Control", "max-age=60"), ("Vary", "*")]),
        ]
    }

    private static let tag = ("ETag", "\"v\"")
    /// Without `max-age`, the old `Last-Modified` date would make the response fresh for a day.
    private static let short = [
        tag, ("Cache-Control", "max-age=1"), ("Last-Modified", "Mon, 01 Jan 2001 00:00:00 GMT"),
    ]
    private static let long = [tag, ("Cache-Control", "max-age=60")]

    /// Without a condition of its own, the request gets the stored response once more.
    @Test(arguments: Place.allCases, Ban.all)
    func confirmationThatForbidsStoringAnswersOnce(_ place: Place, _ ban: Ban) async throws {
        let world = try CacheWorld(place, sharing: ban.sharing) {
            .confirming($0, Self.short, "body \($1)", by: [Self.tag] + ban.fields)
        }
        for (count, isConditional) in [(0, false), (2, true)] {
            _ = try await world.get()
            world.clock.advance(by: .seconds(5))
            let second = try await world.get { request in
                isConditional ? request.header("If-None-Match", "\"v\"").acceptableStatusCodes(.any) : request
            }
            #expect(second.statusCode == (isConditional ? 304 : 200))
            #expect(second.text == (isConditional ? "" : "body \(count + 1)"))
            if !isConditional { #expect(second.metrics?.cache?.forwardStatus == 304) }
            #expect(world.cache.statistics.entryCount == 0)
        }
    }

    @Test(arguments: Place.allCases)
    func confirmationOfAnotherVersionIsNotReported(_ place: Place) async throws {
        let world = try CacheWorld(place) {
            .confirming($0, Self.short, "body \($1)", by: [("ETag", "\"another\"")])
        }
        _ = try await world.get()
        world.clock.advance(by: .seconds(5))
        let second = try await world.get()
        #expect(second.text == "body 3")
        #expect(second.metrics?.cache?.forward == .stale && second.metrics?.cache?.forwardStatus == nil)
    }

    @Test(arguments: Place.allCases)
    func confirmationOfARefreshThatForbidsStoringRemoves(_ place: Place) async throws {
        let fields = [Self.tag, ("Cache-Control", "max-age=1, stale-while-revalidate=60")]
        let world = try CacheWorld(place) {
            .confirming($0, fields, "body \($1)", by: [Self.tag, ("Cache-Control", "no-store")])
        }
        _ = try await world.get()
        world.clock.advance(by: .seconds(5))
        #expect(try await world.text() == "body 1")
        await world.manager.drain()
        #expect(world.sent.count == 2)
        #expect(world.cache.statistics.entryCount == 0)
    }

    @Test(arguments: Place.allCases, Ban.all)
    func responseToHeadThatForbidsStoringRemoves(_ place: Place, _ ban: Ban) async throws {
        let world = try CacheWorld(place, sharing: ban.sharing) { request, number in
            request.method == "HEAD"
                ? .status(200, headerFields: [Self.tag] + ban.fields, body: "body 1")
                : .status(200, headerFields: Self.long, body: "body \(number)")
        }
        _ = try await world.get()
        let head = Request<Data>(method: .head, url: world.server.url("/a")).cachePolicy(.reload)
        _ = try await world.manager.send(head)
        #expect(world.cache.statistics.entryCount == 0)
        #expect(try await world.text() == "body 3")
    }

    @Test(arguments: Place.allCases, Ban.all)
    func restThatForbidsStoringIsNotStored(_ place: Place, _ ban: Ban) async throws {
        let world = try CacheWorld(place, sharing: ban.sharing) {
            .cut($0, $1, [("Cache-Control", "max-age=60")], rest: ban.fields)
        }
        _ = await world.failure()
        try #require(world.cache.statistics.entryCount == 1)
        let second = try await world.get()
        #expect(second.statusCode == 200 && second.text == "0123456789")
        #expect(second.metrics?.cache?.isStored == false)
        #expect(world.sent.count == 2)
        #expect(world.cache.statistics.entryCount == 0)
        if place == .disk { #expect(try !world.storedBytes().contains("3456789")) }
    }

    @Test(arguments: Place.allCases, [HTTPMethod.get, .head])
    func varyOfAnUpdateSelectsByTheRequestThatWasSent(_ place: Place, _ method: HTTPMethod) async throws {
        let varying = Self.long + [("Vary", "Accept-Language")]
        let world = try CacheWorld(place) { request, number in
            if request.method == "HEAD" { return .status(200, headerFields: varying, body: "body 1") }
            return .confirming(request, Self.short, "body \(number)", by: varying)
        }
        _ = try await world.get()
        world.clock.advance(by: .seconds(5))
        let update = Request<Data>(method: method, url: world.server.url("/a")).header("Accept-Language", "de")
        _ = try await world.manager.send(method == .head ? update.cachePolicy(.reload) : update)
        #expect(try await world.text { $0.header("Accept-Language", "de") } == "body 1")
        #expect(world.sent.count == 2)
        #expect(try await world.text { $0.header("Accept-Language", "en") } == "body 3")
    }

    /// If a 304 makes a field private, the cache must also remove the field from the stored response.
    @Test func fieldThatAConfirmationMakesPrivateIsNotServedAgain() async throws {
        let confirmation = [Self.tag, ("Cache-Control", "max-age=60, private=\"set-cookie\"")]
        let world = try CacheWorld(sharing: .shared()) { request, _ in
            .confirming(request, Self.short + [("Set-Cookie", "a=1")], by: confirmation)
        }
        _ = try await world.get()
        world.clock.advance(by: .seconds(5))
        _ = try await world.get()
        let third = try await world.get()
        #expect(third.isHit)
        #expect(third.headerFields["Set-Cookie"] == nil)
    }

    /// A background request for a range would neither validate the complete response nor store anything.
    @Test(arguments: Place.allCases)
    func refreshOfAWholeResponseLeavesOutTheRange(_ place: Place) async throws {
        let fields = [Self.tag, ("Cache-Control", "max-age=5, stale-while-revalidate=60")]
        let world = try CacheWorld(place) { request, _ in .confirming(request, fields, "0123456789") }
        _ = try await world.get()
        world.clock.advance(by: .seconds(6))
        for range in ["bytes=0-3", "bytes=4-7"] {
            let part = try await world.get { $0.header("Range", range).header("If-Range", "\"v\"") }
            #expect(part.statusCode == 206)
            await world.manager.drain()
        }
        #expect(world.sent.count == 2)
        let names = ["Range", "If-Range", "If-None-Match"]
        #expect(names.map { world.sent.events.last?.value(of: $0) } == [nil, nil, "\"v\""])
        #expect(world.cache.statistics.validations == 1)
    }

    /// The complete representation may be much larger than the part that is stored.
    @Test func refreshOfAPartKeepsTheRange() async throws {
        let world = try CacheWorld { _, _ in
            let control = ("Cache-Control", "max-age=5, stale-while-revalidate=60")
            return .status(206, headerFields: [Self.tag, control, ("Content-Range", "bytes 0-3/1000")], body: "0123")
        }
        for _ in 1...2 {
            _ = try await world.get { $0.header("Range", "bytes=0-3") }
            await world.manager.drain()
            world.clock.advance(by: .seconds(6))
        }
        #expect(world.sent.events.map { $0.value(of: "Range") } == ["bytes=0-3", "bytes=0-3"])
    }
}
