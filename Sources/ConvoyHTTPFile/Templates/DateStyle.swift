// How a date is written.
import Foundation

/// A date format.
package enum DateStyle: Hashable, Sendable {
    case iso8601
    case rfc1123
    /// A format in the notation of Day.js, such as `YYYY-MM-DD`.
    case custom(String)
}

extension DateStyle {
    private static let months = [
        "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
        "December",
    ]
    private static let days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
    /// The tokens of a format, the longest first, so that a token is not read as two shorter tokens.
    private static let tokens = [
        "YYYY", "MMMM", "dddd", "MMM", "ddd", "SSS", "YY", "MM", "DD", "dd", "HH", "hh", "mm", "ss", "ZZ", "M", "D",
        "d",
        "H", "h", "m", "s", "Z", "A", "a",
    ]

    /// The date as text, in a time zone.
    func text(of date: Date, in zone: TimeZone) -> String {
        switch self {
        case .iso8601:
            let isUTC = zone.secondsFromGMT(for: date) == 0
            return Self.text(of: date, isUTC ? "YYYY-MM-DDTHH:mm:ss.SSS[Z]" : "YYYY-MM-DDTHH:mm:ssZ", zone)
        case .rfc1123:
            let isUTC = zone.secondsFromGMT(for: date) == 0
            return Self.text(of: date, "ddd, DD MMM YYYY HH:mm:ss " + (isUTC ? "[GMT]" : "ZZ"), zone)
        case .custom(let format): return Self.text(of: date, format, zone)
        }
    }

    private static func text(of date: Date, _ format: String, _ zone: TimeZone) -> String {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = zone
        let parts = calendar.dateComponents(
            [.year, .month, .day, .hour, .minute, .second, .nanosecond, .weekday], from: date)
        var (result, rest) = ("", format[...])
        while let first = rest.first {
            if first == "[", let end = rest.firstIndex(of: "]") {
                result += rest[rest.index(after: rest.startIndex)..<end]
                rest = rest[rest.index(after: end)...]
            } else if let token = tokens.first(where: { rest.hasPrefix($0) }) {
                result += value(of: token, parts, zone.secondsFromGMT(for: date))
                rest = rest.dropFirst(token.count)
            } else {
                result.append(first)
                rest = rest.dropFirst()
            }
        }
        return result
    }

    private static func value(of token: String, _ parts: DateComponents, _ offset: Int) -> String {
        func digits(_ number: Int?, _ count: Int) -> String {
            let text = String(number ?? 0)
            return String(repeating: "0", count: max(0, count - text.count)) + text
        }
        func name(_ names: [String], _ number: Int?, _ count: Int) -> String {
            guard let number, names.indices.contains(number - 1) else { return "" }
            return String(names[number - 1].prefix(count))
        }
        let hour = parts.hour ?? 0
        let sign = offset < 0 ? "-" : "+"
        let (hours, minutes) = (digits(abs(offset) / 3_600, 2), digits(abs(offset) / 60 % 60, 2))
        switch token {
        case "YYYY": return digits(parts.year, 4)
        case "YY": return digits((parts.year ?? 0) % 100, 2)
        case "MMMM": return name(months, parts.month, .max)
        case "MMM": return name(months, parts.month, 3)
        case "MM", "M": return digits(parts.month, token.count)
        case "DD", "D": return digits(parts.day, token.count)
        case "dddd": return name(days, parts.weekday, .max)
        case "ddd", "dd": return name(days, parts.weekday, token.count)
        case "d": return digits((parts.weekday ?? 1) - 1, 1)
        case "HH", "H": return digits(hour, token.count)
        case "hh", "h": return digits((hour + 11) % 12 + 1, token.count)
        case "mm", "m": return digits(parts.minute, token.count)
        case "ss", "s": return digits(parts.second, token.count)
        case "SSS": return digits((parts.nanosecond ?? 0) / 1_000_000, 3)
        case "A": return hour < 12 ? "AM" : "PM"
        case "a": return hour < 12 ? "am" : "pm"
        case "Z": return "\(sign)\(hours):\(minutes)"
        default: return "\(sign)\(hours)\(minutes)"
        }
    }
}

extension SystemVariable.Offset {
    /// The date moved by the offset.
    func date(from date: Date) -> Date {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = TimeZone(secondsFromGMT: 0) ?? .current
        let (component, factor): (Calendar.Component, Int) =
            switch unit {
            case "y": (.year, 1)
            case "Q": (.month, 3)
            case "M": (.month, 1)
            case "w": (.day, 7)
            case "d": (.day, 1)
            case "h": (.hour, 1)
            case "m": (.minute, 1)
            default: (.second, 1)
            }
        if unit == "ms" { return date.addingTimeInterval(Double(count) / 1_000) }
        return calendar.date(byAdding: component, value: count * factor, to: date) ?? date
    }
}

extension SystemVariable {
    /// The value of the variable; nil if the value comes from an environment.
    func value(at date: Date, using generator: inout some RandomNumberGenerator) -> String? {
        switch self {
        case .uuid:
            var bytes = (0..<16).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
            bytes[6] = bytes[6] & 0x0F | 0x40
            bytes[8] = bytes[8] & 0x3F | 0x80
            let digits = bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
            return [0..<4, 4..<6, 6..<8, 8..<10, 10..<16].map { digits[$0].joined() }.joined(separator: "-")
        case .timestamp(let offset):
            return String(Int64((offset?.date(from: date) ?? date).timeIntervalSince1970.rounded(.down)))
        case .datetime(let style, let offset, let isLocal):
            let zone = isLocal ? TimeZone.current : TimeZone(secondsFromGMT: 0) ?? .current
            return style.text(of: offset?.date(from: date) ?? date, in: zone)
        case .randomInt(let lower, let upper): return String(Int.random(in: lower..<upper, using: &generator))
        case .randomFloat(let lower, let upper): return String(Double.random(in: lower..<upper, using: &generator))
        case .randomWords(let words): return words.text(using: &generator)
        case .randomText(let alphabet, let count):
            return String((0..<count).compactMap { _ in alphabet.randomElement(using: &generator) })
        case .processEnvironment, .dotEnvironment: return nil
        }
    }
}
