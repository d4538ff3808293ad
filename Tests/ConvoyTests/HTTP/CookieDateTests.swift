import Foundation
import Testing

@testable import Convoy

@Suite struct CookieDateTests {
    /// Dates that servers send: in the formats of RFC 1123, RFC 850 and asctime, and in formats that no RFC defines.
    @Test(arguments: [
        "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
        "06 Nov 1994 8:49:37", "08:49:37 6 november 94", "Sun, 06-NOV-1994 08:49:37 UTC", "6.Nov.1994+08:49:37",
        "\tnov/6/1994@08:49:37;", "06th Nov 1994 08:49:37", "6 Novembre 1994x 8:49:37.5", "08:49:37z 06 Nov 1994AD",
        "Sun, 06 Nov 1994 08:49:37 GMT+0100", "06 08:49:37 Nov 1994 07 Dec 2000 09:00:00",
    ])
    func manySpellingsAreOneDate(text: String) {
        #expect(CookieDate.parse(text[...]) == Date(timeIntervalSince1970: 784_111_777))
    }

    /// The first number is the day, and `06` is the year.
    @Test func eachPartComesFromTheFirstTokenThatCanBeIt() {
        let date = CookieDate.parse("1 2 3 6:0:0x 06 Nov 1994 Dec 07:00:00")
        #expect(date == Date(timeIntervalSince1970: 1_162_360_800))
    }

    @Test(arguments: [
        ("1 Jan 1970 00:00:00", 0), ("1 Jan 70 0:0:0", 0), ("31 Dec 69 23:59:59", 3_155_759_999),
        ("29 Feb 2000 12:00:00", 951_825_600), ("29 Feb 2024 00:00:00", 1_709_164_800),
        ("1 Mar 2023 00:00:00", 1_677_628_800), ("31 Dec 1999 23:59:59", 946_684_799),
        ("1 Jan 00 00:00:00", 946_684_800),
        ("1 Jan 1601 00:00:00", -11_644_473_600), ("31 Dec 9999 23:59:59", 253_402_300_799),
        ("1 Jan 99 00:00:00", 915_148_800), ("19 Jan 2038 03:14:08", 2_147_483_648),
    ])
    func daysAreThoseOfTheCalendar(text: String, seconds: TimeInterval) {
        #expect(CookieDate.parse(text[...]) == Date(timeIntervalSince1970: seconds))
    }

    @Test func everyDayOfACenturyFollowsTheOneBefore() {
        let names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        var (days, jumps) = (0, 0)
        var last: Date?
        for year in 2000...2100 {
            for name in names {
                for day in 1...31 {
                    guard let date = CookieDate.parse("\(day) \(name) \(year) 00:00:00"[...]) else { continue }
                    days += 1
                    if let last, date.timeIntervalSince(last) != 86_400 { jumps += 1 }
                    last = date
                }
            }
        }
        #expect(days == 36_890)
        #expect(jumps == 0)
    }

    @Test(arguments: [
        "", " ", "garbage", "06 Nov 1994", "Nov 1994 08:49:37", "06 1994 08:49:37", "06 Nov 08:49:37",
        "0 Nov 1994 08:49:37", "32 Jan 1994 08:49:37", "31 Nov 1994 08:49:37", "29 Feb 2023 00:00:00",
        "29 Feb 1900 00:00:00", "30 Feb 2024 00:00:00", "06 Nov 1600 08:49:37", "06 Nov 100 08:49:37",
        "06 Nov 1994 24:00:00", "06 Nov 1994 08:60:00", "06 Nov 1994 08:49:60", "06 Nov 1994 99:99:99 08:49:37",
        "006 Nov 1994 08:49:37", "06 Nov 19945 08:49:37", "06 No 1994 08:49:37", "06 Nov 1994 008:49:37",
        "06 Nov 1994 08:49", "06 Nov 1994 08:49:", "06 Nov 1994 ::", "06 Nov 1994 08:49:037", "06 Nov 1994 8x:49:37",
        "99999999999999999999 Nov 1994 08:49:37", "06 Nov -1994 08:49", "06 ñov 1994 08:49:37",
        "06 Nov １９９４ 08:49:37",
    ])
    func anInvalidDateIsRefused(text: String) {
        #expect(CookieDate.parse(text[...]) == nil)
    }
}
