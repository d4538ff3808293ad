// The value of `--newer`.
import Convoy
import Foundation

/// A date, or a file whose modification time is the date.
enum NewerThan: Sendable, Equatable {
    case date(Date)
    case file(String)

    /// Parses the name of an existing file, or a date in the formats of HTTP, ISO 8601 and date(1).
    ///
    /// Other text with a digit and with a space, colon or comma is an error, and so are three numbers, such as
    /// `31.1.2026`. All other text is the name of a file, which need not exist yet.
    init(_ text: String) throws(UsageError) {
        if access(text, F_OK) == 0 {
            self = .file(text)
        } else if let date = Self.date(text) {
            self = .date(date)
        } else if Self.isLikeDate(text) {
            throw OptionValues.refusal(text, "a file, or a date such as 2026-01-31 or 'Sat, 31 Jan 2026 12:00:00 GMT'")
        } else {
            self = .file(text)
        }
    }

    private static func isLikeDate(_ text: String) -> Bool {
        let hasMark = text.contains { " :,".contains($0) }
        return hasMark && text.contains(where: \.isNumber)
            || text.wholeMatch(of: #/\d+[-.\/]\d+[-.\/]\d+/#) != nil
    }

    /// The value to send as `If-Modified-Since`; nil if the field is not sent.
    ///
    /// With `--newer FILE`, the value is nil if FILE does not exist. The value is also nil if the output has a version
    /// file, because the library then sends the condition itself.
    ///
    /// - Parameter version: the path of the output's version file, `.NAME.convoy-version`.
    func fieldValue(version: String) -> String? {
        switch self {
        case .date(let date): return Self.fieldValue(date)
        case .file(let path):
            let file = URL(filePath: path).resolvingSymlinksInPath().path
            guard access(version, F_OK) != 0,
                let date = try? FileManager.default.attributesOfItem(atPath: file)[.modificationDate] as? Date
            else { return nil }
            return Self.fieldValue(Date(timeIntervalSince1970: date.timeIntervalSince1970.rounded(.down)))
        }
    }

    private static let formats = [
        "EEE, dd MMM yyyy HH:mm:ss zzz", "yyyy-MM-dd'T'HH:mm:ssZZZZZ", "yyyy-MM-dd HH:mm:ss ZZZZZ",
        "yyyy-MM-dd'T'HH:mm:ss", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd HH:mm", "yyyy-MM-dd", "yyyyMMdd", "dd MMM yyyy",
        "EEE MMM d HH:mm:ss zzz yyyy",
    ]

    static func date(_ text: String) -> Date? {
        HTTPDate(text, now: Date())?.date ?? formats.lazy.compactMap { formatter($0).date(from: text) }.first
    }

    private static func fieldValue(_ date: Date) -> String {
        formatter("EEE, dd MMM yyyy HH:mm:ss 'GMT'").string(from: date)
    }

    private static func formatter(_ format: String) -> DateFormatter {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(secondsFromGMT: 0)
        formatter.isLenient = false
        formatter.dateFormat = format
        return formatter
    }
}
