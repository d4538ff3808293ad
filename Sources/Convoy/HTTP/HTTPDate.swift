// Dates in header fields: RFC 9110, section 5.6.7.
import Foundation

// The parser is lenient, as RFC 9110 encourages: either case, a day of one digit, GMT as `UTC`, `UT`, `+0000` or
// `-0000`. Other zones, other orders and missing parts are rejected, because such a text could mean another moment. The
// day name must be valid but is not compared with the date.
package struct HTTPDate: Hashable {
    package let secondsSince1970: Int64

    package var date: Date { Date(timeIntervalSince1970: Double(secondsSince1970)) }

    /// `now` decides the century of the two-digit years of the RFC 850 form.
    package init?(_ text: String, now: Date) {
        // The longest accepted text has 35 bytes. A text of more than 40 bytes is not parsed, to save time.
        guard text.utf8.count <= 40, let parts = Self.forms.lazy.compactMap({ Self.parts(of: text, in: $0) }).first,
            let month = parts["M"], let day = parts["d"] ?? parts["p"], let hour = parts["h"], let minute = parts["m"],
            let second = parts["s"], let year = parts["Y"] ?? parts["y"].map({ Self.year($0, now: now) }),
            let days = Self.daysSince1970(year, month + 1, day), hour < 24, minute < 60,
            // A leap second, only at midnight, is read as the first second of the next minute.
            second < 60 || (hour, minute, second) == (23, 59, 60)
        else { return nil }
        secondsSince1970 = ((Int64(days) * 24 + Int64(hour)) * 60 + Int64(minute)) * 60 + Int64(second)
    }

    /// `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT` and `Sun Nov  6 08:49:37 1994`.
    private static let forms = ["D, d M Y h:m:sZ", "L, d-M-y h:m:sZ", "D M p h:m:s Y"]
    private static let longDays = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
    private static let days = longDays.map { String($0.prefix(3)) }
    static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    private static let zones = [" GMT", " UTC", " UT", " +0000", " -0000"]

    private static func parts(of text: String, in form: String) -> [Character: Int]? {
        var (scanner, parts) = (FieldScanner(text.utf8), [Character: Int]())
        for part in form {
            let value =
                switch part {
                case "D": scanner.one(of: days)
                case "L": scanner.one(of: longDays)
                case "M": scanner.one(of: months)
                case "Z": scanner.one(of: zones)
                case "Y": scanner.number(4)
                case "y", "h", "m", "s": scanner.number(2)
                case "p" where scanner.one(of: [" "]) != nil: scanner.number(1)
                case "d", "p": scanner.number(2) ?? scanner.number(1)
                default: scanner.one(of: [String(part)])
                }
            guard let value else { return nil }
            parts[part] = value
        }
        return scanner.peek == nil ? parts : nil
    }

    // RFC 9110, section 5.6.7: a year more than 50 years in the future means the past. Likewise, a year 50 or more
    // years in the past means the future.
    private static func year(_ digits: Int, now: Date) -> Int {
        // Within a day of New Year, the current year may be computed as its neighbour.
        let years = now.timeIntervalSince1970 / (365.2425 * 86_400)
        let current = 1970 + (years > -1970 && years < 8029 ? Int(years.rounded(.down)) : 0)
        let year = current - current % 100 + digits
        return year > current + 50 ? year - 100 : year <= current - 50 ? year + 100 : year
    }

    /// Nil for a day that does not exist in the Gregorian calendar, which also covers days before its introduction.
    static func daysSince1970(_ year: Int, _ month: Int, _ day: Int) -> Int? {
        var date = tm()
        (date.tm_year, date.tm_mon, date.tm_mday) = (Int32(year) - 1900, Int32(month) - 1, Int32(day))
        let seconds = timegm(&date)
        // `timegm` takes the 31st of a short month for the 1st of the next one.
        return date.tm_mday == Int32(day) && date.tm_mon == Int32(month) - 1 ? seconds / 86_400 : nil
    }
}

extension FieldScanner {
    fileprivate mutating func number(_ count: Int) -> Int? {
        let digits = bytes[position...].prefix(count)
        guard digits.count == count, digits.allSatisfy(\.isDigit) else { return nil }
        position += count
        return digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
    }

    fileprivate mutating func one(of names: [String]) -> Int? {
        let rest = bytes[position...]
        let index = names.firstIndex { rest.starts(with: $0.utf8) { $0.lowercasedASCII == $1.lowercasedASCII } }
        if let index { position += names[index].utf8.count }
        return index
    }
}
