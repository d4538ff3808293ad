// The delay that a server requests: RFC 9110, section 10.2.3.
import Foundation

extension ResponseHead {
    // A number of seconds or a date, at most a year; nil if invalid, negative or past, and for several different
    // values. Zero means to retry at once. A date is compared with the response's own `Date`, so a difference of the
    // clocks does not matter (RFC 9110, section 6.6.1); without one, with `now`.
    func retryAfter(now: Date) -> Duration? {
        guard let value = headerFields.soleValue(of: "Retry-After") else { return nil }
        if !value.isEmpty, value.utf8.allSatisfy(\.isDigit) {
            // A number too large for `Int64` is also above the limit of one year.
            return .seconds(min(Int64(value) ?? .max, Self.longestRetryAfter))
        }
        guard let until = HTTPDate(value, now: now)?.date else { return nil }
        let sent = headerFields.soleValue(of: "Date").flatMap { HTTPDate($0, now: now)?.date } ?? now
        let seconds = until.timeIntervalSince(sent)
        // NaN fails the first comparison.
        guard seconds >= 0, seconds < .infinity else { return nil }
        return .seconds(min(seconds, Double(Self.longestRetryAfter)))
    }

    private static let longestRetryAfter: Int64 = 365 * 86_400
}

/// The text is made only when it is read.
struct RetryAfterReason: Sendable {
    let request: RequestSummary
    let statusCode: Int

    var wordsForItself: String { "as Retry-After of its \(statusCode) asked" }
    var words: String { "\(request) was answered \(statusCode) with Retry-After" }
}
