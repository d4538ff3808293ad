import Convoy
import Foundation
import Testing

/// A jar and its clock, which only the test moves.
struct CookieFixture {
    let clock = Locked(Self.start)
    let jar: CookieJar

    /// Tuesday, 14 November 2023, 22:13:20 GMT.
    static let start = Date(timeIntervalSince1970: 1_700_000_000)

    init(limits: CookieJar.Limits = .init()) {
        jar = CookieJar(limits: limits, now: { [clock] in clock.withLock { $0 } })
    }

    func advance(by seconds: TimeInterval) { clock.withLock { $0 += seconds } }

    /// Stores the cookies of a response with one Set-Cookie field for each text.
    func receive(_ texts: String..., from url: String = "https://example.com/") throws {
        try receive(texts, from: url)
    }

    func receive(_ texts: [String], from url: String = "https://example.com/") throws {
        jar.store(HeaderFields(texts.map { ("Set-Cookie", $0) }), from: try #require(URL(string: url)))
    }

    /// The Cookie field for a URL; empty if the jar sends none.
    func field(_ url: String = "https://example.com/") throws -> String {
        jar.cookieField(for: try #require(URL(string: url))) ?? ""
    }

    /// The names of the cookies in the jar, in order.
    var names: [String] { jar.cookies.map(\.name) }
}
