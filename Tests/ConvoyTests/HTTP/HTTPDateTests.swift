import Convoy
import Foundation
import Testing

@Suite struct HTTPDateTests {
    private static let now = Date(timeIntervalSince1970: 1_700_000_000)  // 2023

    private func seconds(_ text: String, now: Date = now) -> Int64? { HTTPDate(text, now: now)?.secondsSince1970 }

    /// The three formats of RFC 9110, section 5.6.7.
    @Test(arguments: [
        "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
        // Servers send these dates, and each has only one meaning.
        "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 6 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 UT", "Sun, 06 Nov 1994 08:49:37 +0000", "Sun, 06 Nov 1994 08:49:37 -0000",
        "sun, 06 nov 1994 08:49:37 gmt", "SUN, 06 NOV 1994 08:49:37 utc", "Sunday, 6-Nov-94 08:49:37 UTC",
        "Sun Nov 6 08:49:37 1994", "Sun Nov 06 08:49:37 1994",
    ])
    func datesAreTheSameMoment(text: String) {
        #expect(seconds(text) == 784_111_777)
    }

    @Test(
        arguments: [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Wed, 31 Dec 1969 23:59:59 GMT", -1),
            ("Tue, 29 Feb 2000 12:00:00 GMT", 951_825_600), ("Thu, 29 Feb 2024 00:00:00 GMT", 1_709_164_800),
            ("Fri, 01 Mar 2024 00:00:00 GMT", 1_709_251_200), ("Tue, 19 Jan 2038 03:14:08 GMT", 2_147_483_648),
            ("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799), ("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_800),
            ("Sat Dec 31 23:59:60 2016", 1_483_228_800), ("Mon, 01 Jan 0001 00:00:00 GMT", -62_135_596_800),
            ("Sat, 01 Jan 0000 00:00:00 GMT", -62_167_219_200), ("Thu Jan 01 00:00:00 1970", 0),
            // The day of the week is not checked.
            ("Mon, 06 Nov 1994 08:49:37 GMT", 784_111_777),
        ] as [(String, Int64)])
    func momentsAreCounted(text: String, expected: Int64) {
        #expect(seconds(text) == expected)
    }

    @Test(arguments: [
        "", " ", "Sun", "Sun,", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 CET",
        "Sun, 06 Nov 1994 08:49:37 +0100", "Sun, 06 Nov 1994 08:49:37 UTCX", "Sun, 006 Nov 1994 08:49:37 GMT",
        "Sun, Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT ", " Sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT", "Sun, 06 Nov 1994 8:49:37 GMT", "Sun, 06 Nov 1994 08:49 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT", "Sun, 06 Nov 1994 08:60:00 GMT", "Sun, 06 Nov 1994 08:49:60 GMT",
        "Sun, 06 Nov 1994 23:59:61 GMT", "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 32 Dec 1994 08:49:37 GMT", "Wed, 29 Feb 2023 00:00:00 GMT", "Mon, 29 Feb 2100 00:00:00 GMT",
        "Thu, 30 Feb 2024 00:00:00 GMT", "Sun, 06 Foo 1994 08:49:37 GMT", "Foo, 06 Nov 1994 08:49:37 GMT",
        "Sun, -6 Nov 1994 08:49:37 GMT", "Sun, +6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 19941 08:49:37 GMT",
        "Sun, ٠٦ Nov 1994 08:49:37 GMT", "Sun, 06-Nov-94 08:49:37 GMT", "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sunday, 06 Nov 1994 08:49:37 GMT", "Sun Nov  6 08:49:37 1994 GMT", "Sun Nov   08:49:37 1994",
        "Sun Nov  0 08:49:37 1994", "1994-11-06T08:49:37Z", "784111777", "Sun,\u{A0}06 Nov 1994 08:49:37 GMT",
    ])
    func otherTextIsNotADate(text: String) {
        #expect(seconds(text) == nil)
    }

    /// A year of two digits means the nearest year, at most 50 years ahead (RFC 9110, section 5.6.7).
    @Test(arguments: [
        (2023, 23, 2023), (2023, 73, 2073), (2023, 74, 1974), (2023, 99, 1999), (2023, 0, 2000), (1999, 5, 2005),
        (2090, 5, 2105), (2090, 41, 2041), (2090, 40, 2140), (1994, 94, 1994),
    ])
    func twoDigitsMeanTheNearestYear(current: Int, digits: Int, expected: Int) throws {
        let now = Date(timeIntervalSince1970: Double(current - 1970) * 365.2425 * 86_400 + 86_400 * 180)
        let text = "Monday, 01-Mar-\(digits < 10 ? "0" : "")\(digits) 00:00:00 GMT"
        let year = "\(expected)"
        #expect(seconds(text, now: now) == seconds("Mon, 01 Mar \(year) 00:00:00 GMT"))
        #expect(seconds(text, now: now) != nil)
    }

    @Test func everyDayAgreesWithTheCalendar() throws {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = try #require(TimeZone(secondsFromGMT: 0))
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        for day in stride(from: -130_000, through: 180_000, by: 41) {
            let date = Date(timeIntervalSince1970: Double(day) * 86_400 + 3_661)
            let parts = calendar.dateComponents([.year, .month, .day], from: date)
            let (year, month) = (parts.year ?? 0, parts.month ?? 1)
            let numbers = [String(format: "%02d", parts.day ?? 0), months[month - 1], String(format: "%04d", year)]
            let text = "Mon, \(numbers.joined(separator: " ")) 01:01:01 GMT"
            #expect(seconds(text) == Int64(date.timeIntervalSince1970), "\(text)")
        }
    }
}
