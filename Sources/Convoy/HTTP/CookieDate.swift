// The dates of cookies: RFC 6265bis, section 5.1.1.
import Foundation

/// Reads the date of an Expires attribute, which servers write in many ways.
///
/// The parser uses the algorithm of RFC 6265bis. A `DateFormatter` reads fewer spellings and costs more than reading
/// the rest of the cookie.
enum CookieDate {
    /// The date in a text; nil when a part is missing or out of range, or when the day does not exist.
    ///
    /// - Complexity: O(*n*) for *n* bytes.
    static func parse(_ text: Substring) -> Date? {
        var time: Int?
        var day: Int?
        var month: Int?
        var year: Int?
        // RFC 6265bis, section 5.1.1, step 2: the first token in the form of a time supplies the time. Day, month and
        // year are found in the same way.
        for token in text.utf8.split(whereSeparator: isDelimiter) {
            if time == nil, let found = seconds(token) {
                time = found
            } else if day == nil, let found = number(token, digits: 1...2) {
                day = found
            } else if month == nil, let found = self.month(token) {
                month = found
            } else if year == nil, let found = number(token, digits: 2...4) {
                year = found
            }
        }
        guard let time, let day, let month, var year, time >= 0 else { return nil }
        if (70...99).contains(year) { year += 1900 }
        if (0...69).contains(year) { year += 2000 }
        guard year >= 1601, let days = CivilDate(year: year, month: month, day: day).daysSince1970 else { return nil }
        return Date(timeIntervalSince1970: Double(days) * 86_400 + Double(time))
    }

    private static func isDelimiter(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x09, 0x20...0x2F, 0x3B...0x40, 0x5B...0x60, 0x7B...0x7E: true
        default: false
        }
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

    /// The number at the start of a token, if its count of digits is in the range.
    ///
    /// Text after the number is ignored.
    private static func number(_ token: Substring.UTF8View, digits: ClosedRange<Int>) -> Int? {
        let run = token.prefix(while: isDigit).prefix(digits.upperBound + 1)
        guard digits.contains(run.count) else { return nil }
        return run.reduce(0) { $0 * 10 + Int($1 - 0x30) }
    }

    /// The seconds since midnight of a token such as `08:49:37`.
    ///
    /// Nil if the token does not have the form of a time, -1 if the time does not exist.
    ///
    /// With nil for a time that does not exist, the parser would read `25:00:00` as the day 25.
    private static func seconds(_ token: Substring.UTF8View) -> Int? {
        let fields = token.split(separator: UInt8(ascii: ":"), maxSplits: 2, omittingEmptySubsequences: false)
        guard fields.count == 3, fields[0].allSatisfy(isDigit), fields[1].allSatisfy(isDigit),
            let hour = number(fields[0], digits: 1...2), let minute = number(fields[1], digits: 1...2),
            let second = number(fields[2], digits: 1...2)
        else { return nil }
        return hour <= 23 && minute <= 59 && second <= 59 ? (hour * 60 + minute) * 60 + second : -1
    }

    private static let months: [[UInt8]] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ].map { Array($0.utf8) }

    private static func month(_ token: Substring.UTF8View) -> Int? {
        let start = token.prefix(3).map { $0 | 0x20 }
        return months.firstIndex(of: start).map { $0 + 1 }
    }
}
