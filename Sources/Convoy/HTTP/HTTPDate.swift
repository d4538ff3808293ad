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
        guard text.utf8.count <= 40 else { return nil }
        var scanner = HTTPDateScanner(text)
        guard
            let moment = scanner.scanned({ $0.fixdate() })
                ?? scanner.scanned({ $0.rfc850Date(currentYear: Self.year(of: now)) })
                ?? scanner.scanned({ $0.asctimeDate() }),
            let seconds = moment.secondsSince1970
        else { return nil }
        secondsSince1970 = seconds
    }

    /// The approximate year of a date: within a day of New Year it may be the neighbouring year.
    private static func year(of date: Date) -> Int {
        let years = date.timeIntervalSince1970 / (365.2425 * 86_400)
        return 1970 + (years > -1970 && years < 8029 ? Int(years.rounded(.down)) : 0)
    }
}

private struct Moment {
    let year: Int
    let month: Int
    let day: Int
    let time: (hour: Int, minute: Int, second: Int)

    var secondsSince1970: Int64? {
        // A leap second is read as the first second of the next minute, as by clocks that do not count leap seconds.
        // Leap seconds occur only at midnight.
        let isLeapSecond = time == (23, 59, 60)
        guard let days = CivilDate(year: year, month: month, day: day).daysSince1970, time.hour < 24, time.minute < 60,
            time.second < 60 || isLeapSecond
        else { return nil }
        return ((Int64(days) * 24 + Int64(time.hour)) * 60 + Int64(time.minute)) * 60 + Int64(time.second)
    }
}

private struct HTTPDateScanner {
    private let bytes: [UInt8]
    private var index = 0

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
    private static let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let longDays = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]

    init(_ text: String) { bytes = Array(text.utf8) }

    mutating func scanned(_ form: (inout HTTPDateScanner) -> Moment?) -> Moment? {
        index = 0
        return form(&self).flatMap { index == bytes.count ? $0 : nil }
    }

    /// Reads `Sun, 06 Nov 1994 08:49:37 GMT`.
    mutating func fixdate() -> Moment? {
        guard one(of: Self.days) != nil, skip(", "), let day = day(), skip(" "), let month = one(of: Self.months),
            skip(" "), let year = number(4), skip(" "), let time = time(), zone()
        else { return nil }
        return Moment(year: year, month: month + 1, day: day, time: time)
    }

    /// Reads `Sunday, 06-Nov-94 08:49:37 GMT`.
    mutating func rfc850Date(currentYear: Int) -> Moment? {
        guard one(of: Self.longDays) != nil, skip(", "), let day = day(), skip("-"),
            let month = one(of: Self.months), skip("-"), let digits = number(2), skip(" "), let time = time(), zone()
        else { return nil }
        // RFC 9110, section 5.6.7: a year more than 50 years in the future means the past. Likewise, a year 50 or more
        // years in the past means the future.
        var year = currentYear - currentYear % 100 + digits
        if year > currentYear + 50 { year -= 100 } else if year <= currentYear - 50 { year += 100 }
        return Moment(year: year, month: month + 1, day: day, time: time)
    }

    /// Reads `Sun Nov  6 08:49:37 1994`.
    mutating func asctimeDate() -> Moment? {
        guard one(of: Self.days) != nil, skip(" "), let month = one(of: Self.months), skip(" "),
            let day = skip(" ") ? number(1) : day(), skip(" "), let time = time(), skip(" "), let year = number(4)
        else { return nil }
        return Moment(year: year, month: month + 1, day: day, time: time)
    }

    private mutating func time() -> (hour: Int, minute: Int, second: Int)? {
        guard let hour = number(2), skip(":"), let minute = number(2), skip(":"), let second = number(2) else {
            return nil
        }
        return (hour, minute, second)
    }

    private mutating func day() -> Int? { number(2) ?? number(1) }

    private mutating func zone() -> Bool { one(of: [" GMT", " UTC", " UT", " +0000", " -0000"]) != nil }

    private mutating func number(_ count: Int) -> Int? {
        guard index + count <= bytes.count else { return nil }
        var value = 0
        for byte in bytes[index..<index + count] {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
            value = value * 10 + Int(byte - UInt8(ascii: "0"))
        }
        index += count
        return value
    }

    private mutating func one(of names: [String]) -> Int? {
        for (position, name) in names.enumerated() where skip(name) { return position }
        return nil
    }

    private mutating func skip(_ text: String) -> Bool {
        guard bytes[index...].starts(with: text.utf8, by: { $0.lowercasedASCII == $1.lowercasedASCII }) else {
            return false
        }
        index += text.utf8.count
        return true
    }
}

extension UInt8 {
    fileprivate var lowercasedASCII: UInt8 { (0x41...0x5A).contains(self) ? self | 0x20 : self }
}

/// A day of the proleptic Gregorian calendar, which also covers days before the calendar's introduction.
struct CivilDate {
    let year: Int
    let month: Int
    let day: Int

    var daysSince1970: Int? {
        guard (1...12).contains(month), (1...daysOfMonth).contains(day) else { return nil }
        // The years are counted from March. The leap day is then the last day, and the lengths of the months before
        // it follow a formula.
        let years = year - (month <= 2 ? 1 : 0) + 400
        let months = (month + 9) % 12
        let leapDays = years / 4 - years / 100 + years / 400
        // 719468 days lie between 1 March of the year 0 and 1 January 1970. `years` has 400 years more, so that it is
        // never negative. The 400 years have 146097 days.
        return years * 365 + leapDays + (months * 153 + 2) / 5 + day - 1 - 719_468 - 146_097
    }

    private var isLeapYear: Bool { year.isMultiple(of: 4) && (!year.isMultiple(of: 100) || year.isMultiple(of: 400)) }

    private var daysOfMonth: Int {
        switch month {
        case 2: isLeapYear ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }
}
