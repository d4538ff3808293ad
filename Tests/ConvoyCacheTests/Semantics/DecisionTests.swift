import Convoy
import ConvoyCache
import Foundation
import Testing

/// Tests which stored responses answer: RFC 9111, sections 4 and 5.2, and RFC 5861.
struct DecisionTests {
    private static let start = Date(timeIntervalSince1970: 1_700_000_000)
    private let cache = HTTPCache.memory(capacity: 1 << 20)
    private let request = Request<Data>.get("http://host/a")

    private func explanation(
        _ stored: String, _ age: Double, _ change: (Request<Data>) -> Request<Data>
    ) throws -> CacheExplanation {
        try cache.store(Data("x".utf8), headerFields: ["Cache-Control": stored], for: request, at: Self.start)
        return try cache.explanation(of: change(request), at: Self.start + age)
    }

    private static let cases: [(String, Double, String?, CacheStatus.Forward?)] = [
        ("max-age=60", 59, nil, nil), ("max-age=60", 60, nil, .stale), ("max-age=60, no-cache", 0, nil, .stale),
        ("max-age=60", 10, "max-age=10", nil), ("max-age=60", 11, "max-age=10", .request),
        ("max-age=60", 0, "max-age=0", .request), ("max-age=60", 0, "max-age=x", .request),
        ("max-age=60", 10, "min-fresh=50", nil), ("max-age=60", 11, "min-fresh=50", .request),
        ("max-age=60", 0, "no-cache", .request), ("max-age=60", 0, "no-store", .bypass),
        ("max-age=60", 70, "max-stale=10", nil), ("max-age=60", 71, "max-stale=10", .stale),
        ("max-age=60", 99_999, "max-stale", nil), ("max-age=60, must-revalidate", 70, "max-stale", .stale),
        ("max-age=60, stale-while-revalidate=10", 69, nil, nil),
        ("max-age=60, stale-while-revalidate=10", 70, nil, .stale),
        ("max-age=60, stale-while-revalidate=10", 65, "max-age=99", .stale),
        ("max-age=60, stale-while-revalidate=10, must-revalidate", 65, nil, .stale),
        ("max-age=60", -5, nil, nil), ("max-age=60", -6, nil, .stale),
    ]

    @Test(arguments: cases)
    func directivesDecide(_ stored: String, _ age: Double, _ asked: String?, _ forward: CacheStatus.Forward?) throws {
        let explanation = try explanation(stored, age) { request in
            asked.map { request.header("Cache-Control", $0) } ?? request
        }
        #expect(explanation.isAnswered == (forward == nil) && explanation.status.forward == forward)
    }

    @Test(arguments: [
        ("max-age=60, immutable", 10.0, true), ("max-age=60, immutable", 70, false), ("max-age=60", 10, false),
    ])
    func freshImmutableResponseIsNotValidated(_ stored: String, _ age: Double, _ isAnswered: Bool) throws {
        #expect(try explanation(stored, age) { $0.cachePolicy(.revalidate) }.isAnswered == isAnswered)
    }

    @Test(arguments: [
        ("max-age=1, stale-if-error=60", "", 503, true), ("max-age=1", "stale-if-error=60", 500, true),
        ("max-age=1", "", 503, false), ("max-age=1, stale-if-error=60, must-revalidate", "", 503, false),
        ("max-age=1, stale-if-error=60", "max-age=99", 503, false), ("max-age=1, stale-if-error=60", "", 404, false),
        ("max-age=1, stale-if-error=3", "", 503, false),
    ])
    func staleResponseReplacesAnErrorOfTheServer(
        _ stored: String, _ asked: String, _ status: Int, _ isServed: Bool
    ) async throws {
        let world = try CacheWorld { _, number in
            number == 1 ? .status(200, headerFields: [("Cache-Control", stored)], body: "body") : .status(status)
        }
        _ = try await world.get()
        world.clock.advance(by: .seconds(5))
        let response = try await world.get { request in
            (asked.isEmpty ? request : request.header("Cache-Control", asked)).acceptableStatusCodes(.any)
                .retries(.never)
        }
        #expect(response.statusCode == (isServed ? 200 : status))
        #expect((response.metrics?.cache?.detail == "stale-if-error") == isServed)
    }

    @Test func aResponseToHeadOfAnotherVersionCausesAValidation() async throws {
        let world = try CacheWorld { _, number in
            let fields = [("Cache-Control", "max-age=60"), ("ETag", number == 1 ? "\"v\"" : "\"w\"")]
            return .status(200, headerFields: fields, body: "body \(number)")
        }
        _ = try await world.get()
        _ = try await world.manager.send(Request<Data>(method: .head, url: world.server.url("/a")).cachePolicy(.reload))
        #expect(try await world.text() == "body 3")
        #expect(world.sent.events.last?.value(of: "If-None-Match") == "\"v\"")
    }
}
