// The wait a server asks for: RFC 9110, section 10.2.3.
import Foundation

extension ResponseHead {
    /// How long the server asks to be left alone, from now; nil when it does not ask, or asks for nonsense.
    ///
    /// Nonsense is: anything but seconds or a date, a negative number, a date that has passed, more than a year,
    /// several fields that differ. Zero is a request to come at once.
    ///
    /// A date is compared with the answer's own `Date`: that the two clocks differ does not matter then (section
    /// 6.6.1).
    ///
    /// - Parameter now: stands in for the `Date` of an answer without one.
    func retryAfter(now: Date) -> Duration? {
        guard let value = headerFields.soleValue(of: "Retry-After") else { return nil }
        if !value.isEmpty, value.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) {
            // Too many digits for an Int are too many seconds.
            guard let seconds = Int64(value), seconds <= Self.longestRetryAfter else { return nil }
            return .seconds(seconds)
        }
        guard let until = HTTPDate(value, now: now)?.date else { return nil }
        let sent = headerFields.soleValue(of: "Date").flatMap { HTTPDate($0, now: now)?.date } ?? now
        let seconds = until.timeIntervalSince(sent)
        // Written so that what is no number is out.
        guard seconds >= 0, seconds <= Double(Self.longestRetryAfter) else { return nil }
        return .seconds(seconds)
    }

    /// A year, in seconds.
    private static let longestRetryAfter: Int64 = 365 * 86_400
}

/// Why there is a wait that no policy made, for people: put into words only when it is read.
struct RetryAfterReason: Sendable {
    /// What was answered.
    let request: RequestSummary
    let statusCode: Int

    /// For the request itself.
    var wordsForItself: String { "as Retry-After of its \(statusCode) asked" }
    /// For the others of its host.
    var words: String { "\(request) was answered \(statusCode) with Retry-After" }
}
