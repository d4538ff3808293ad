import Foundation
import Testing

@testable import Convoy

@Suite struct RetryAfterTests {
    // Sun, 06 Nov 1994 08:49:37 GMT
    private static let now = Date(timeIntervalSince1970: 784_111_777)

    private func told(_ values: String..., date: String? = nil, now: Date = now) -> Duration? {
        var head = ResponseHead(statusCode: 503)
        for value in values { head.headerFields.add("retry-after", value) }
        if let date { head.headerFields.add("Date", date) }
        return head.retryAfter(now: now)
    }

    @Test(
        arguments: [
            ("120", 120), ("0", 0), ("007", 7), (" 5\t", 5), ("31536000", 31_536_000), ("5, 5", 5),
            ("31536001", 31_536_000), ("1000000000000000000", 31_536_000), ("9223372036854775807", 31_536_000),
            ("9223372036854775808", 31_536_000), ("99999999999999999999999999999999", 31_536_000), ("-1", nil),
            ("+1", nil), ("1.5", nil), ("1e3", nil), ("0x10", nil), ("", nil), (" ", nil), ("soon", nil), ("5 s", nil),
            ("5, 6", nil), ("٥", nil), ("5;q=1", nil),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 0), ("Sun, 06 Nov 1994 08:50:37 GMT", 60),
            ("Sunday, 06-Nov-94 08:50:37 GMT", 60), ("Sun, 06 Nov 1994 08:50:37 UTC", 60),
            ("Sun, 6 Nov 1994 08:50:37 GMT", 60), ("Sun Nov  6 08:50:37 1994", 60),
            ("Mon, 06 Nov 1995 08:49:37 GMT", 31_536_000), ("Mon, 06 Nov 1995 08:49:38 GMT", 31_536_000),
            ("Sun, 06 Nov 1994 08:49:36 GMT", nil), ("Thu, 01 Jan 1970 00:00:00 GMT", nil),
            ("Fri, 31 Dec 9999 23:59:59 GMT", 31_536_000), ("Sun, 06 Nov 1994 08:50:37 CET", nil),
            ("Sun, 06 Nov 1994 08:50:37 GMT, Sun, 06 Nov 1994 08:50:37 GMT", 60),
        ] as [(String, Int?)])
    func secondsAreDigitsAndDatesAreComparedWithNow(value: String, expected: Int?) {
        #expect(told(value) == expected.map { .seconds($0) })
    }

    @Test(arguments: [-100_000_000.0, -3_600, 0, 3_600, 100_000_000])
    func theAnswersOwnDateDecidesWhateverOurClockSays(skew: Double) {
        let sent = "Sun, 06 Nov 1994 08:49:37 GMT"
        let now = Self.now + skew
        #expect(told("Sun, 06 Nov 1994 08:50:37 GMT", date: sent, now: now) == .seconds(60))
        #expect(told("Sun, 06 Nov 1994 08:49:07 GMT", date: sent, now: now) == nil)
        #expect(told("30", date: sent, now: now) == .seconds(30))
        // Without a valid date, the clock decides.
        for date in ["", "yesterday", "Sun, 06 Nov 1994"] {
            #expect(told("Sun, 06 Nov 1994 08:50:37 GMT", date: date) == .seconds(60))
        }
    }

    @Test func fieldsThatDifferSayNothing() {
        #expect(told() == nil)
        #expect(told("5", "6") == nil)
        #expect(told("5", "5") == .seconds(5))
        #expect(told("5", "Sun, 06 Nov 1994 08:50:37 GMT") == nil)
        #expect(told("5", "") == nil)
    }

    @Test(arguments: [Double.nan, .infinity, -.infinity, .greatestFiniteMagnitude, -1e300])
    func noClockTraps(seconds: Double) {
        let now = Date(timeIntervalSince1970: seconds)
        let expected = seconds == -1e300 ? Duration.seconds(31_536_000) : nil
        #expect(told("Sun, 06 Nov 1994 08:50:37 GMT", now: now) == expected)
        #expect(told("Sunday, 06-Nov-94 08:50:37 GMT", now: now) == expected)
        #expect(told("5", now: now) == .seconds(5))
    }

    @Test func fractionsOfOurClockAreKept() throws {
        let wait = try #require(told("Sun, 06 Nov 1994 08:49:38 GMT", now: Self.now + 0.25))
        #expect(wait == .milliseconds(750))
    }
}
