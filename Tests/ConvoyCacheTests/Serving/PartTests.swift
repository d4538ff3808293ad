import Convoy
import ConvoyCache
import Foundation
import Testing

/// Tests partial responses whose body has another length than the server declares.
@Suite(.timeLimit(.minutes(2)))
struct PartTests {
    private static func part(_ range: String, _ body: String) -> Reply {
        let fields = [("Content-Range", "bytes " + range), ("ETag", "\"a\""), ("Cache-Control", "max-age=60")]
        return .status(206, headerFields: fields, body: body)
    }

    /// The last range ends near the largest 64-bit position.
    @Test(
        arguments: Place.allCases,
        ["2-7/100", "2-8/100", "2-5/100", "9223372036854775800-9223372036854775805/9223372036854775806"])
    func partIsStoredUnlessItIsLongerThanItsRange(_ place: Place, _ range: String) async throws {
        // The short body is as long as the first range, and shorter than the second. The long body is longer than the
        // last two ranges.
        let isStored = ["2-7/100", "2-8/100"].contains(range)
        let world = try CacheWorld(place) { _, _ in Self.part(range, isStored ? "012345" : "01234567890123456789") }
        let isUsual = range.hasPrefix("2-")
        _ = try await world.get { $0.header("Range", isUsual ? "bytes=2-8" : "bytes=9223372036854775800-") }
        try #require(world.cache.statistics.entryCount == (isStored ? 1 : 0))
        // Without a stored part, the server answers with another range than the requested one, which fails.
        _ = try? await world.get { $0.header("Range", "bytes=3-4") }
        #expect(world.cache.statistics.hits == (isStored ? 1 : 0))
    }

    /// Without a length, the end of the connection ends the body, so the part may be cut off.
    @Test(arguments: Place.allCases, [("2-7/100", true), ("2-8/100", false)])
    func cutPartIsNotServedForItsRange(_ place: Place, _ range: (text: String, isWhole: Bool)) async throws {
        let head = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes \(range.text)\r\nETag: \"a\"\r\n"
        let world = try CacheWorld(place) { _, _ in
            .raw(Data((head + "Cache-Control: max-age=60\r\nConnection: close\r\n\r\n012345").utf8))
        }
        for _ in 1...2 { _ = try await world.get { $0.header("Range", "bytes=2-8") } }
        #expect(world.sent.count == (range.isWhole ? 1 : 2))
        // The stored bytes satisfy a request for a part of them.
        #expect(try await world.text { $0.header("Range", "bytes=3-4") } == "12")
        #expect(world.sent.count == (range.isWhole ? 1 : 2))
    }

    /// `Content-Length` shows that the part is complete, so its length determines the stored range.
    @Test(arguments: Place.allCases)
    func partThatIsShorterThanItSaysHasThePositionsOfItsBytes(_ place: Place) async throws {
        let world = try CacheWorld(place) { _, _ in Self.part("2-8/100", "012345") }
        _ = try await world.get { $0.header("Range", "bytes=2-8") }
        let second = try await world.get { $0.header("Range", "bytes=2-8") }
        #expect(second.isHit && second.text == "012345")
        #expect(second.headerFields["Content-Range"] == "bytes 2-7/100")
    }

    /// The status depends on the request's range or condition, which the key of the response does not name.
    @Test(arguments: Place.allCases, [(416, "Range", "bytes=200-"), (412, "If-Match", "\"other\"")])
    func refusalOfARangeOrConditionAnswersNoOtherRequest(
        _ place: Place, _ refusal: (status: Int, name: String, value: String)
    ) async throws {
        let world = try CacheWorld(place) { request, number in
            let control = request.value(of: "X") ?? "max-age=60"
            return request.value(of: refusal.name) == nil
                ? .fresh("body \(number)")
                : .status(refusal.status, headerFields: [("Cache-Control", control)], body: "refused")
        }
        func refused(_ control: String) async throws {
            let response = try await world.get {
                $0.header(refusal.name, refusal.value).header("X", control).cachePolicy(.reload)
                    .acceptableStatusCodes(.any)
            }
            #expect(response.statusCode == refusal.status)
        }
        try await refused("max-age=60")
        #expect(world.cache.statistics.entryCount == 0)
        #expect(try await world.text() == "body 2")
        // An error response does not remove a stored response.
        for control in ["max-age=60", "no-store", "x"] { try await refused(control) }
        #expect(try await world.text() == "body 2")
        #expect(world.sent.count == 5)
    }
}
