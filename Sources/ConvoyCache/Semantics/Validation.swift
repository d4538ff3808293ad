// Conditional requests and their responses: RFC 9111, sections 4.3.1, 4.3.3 and 4.3.4.
import Convoy
import Foundation

enum ValidationOutcome: Sendable, Equatable {
    case updated
    /// The cache sends the request again without a condition.
    case mismatch
    case replaced
    case staleOnError
}

extension StoredHead {
    func addConditions(to headerFields: inout HeaderFields) {
        if let entityTag { headerFields["If-None-Match"] = entityTag.text }
        if let lastModified { headerFields["If-Modified-Since"] = lastModified }
    }

    func outcome(of head: ResponseHead, at now: Int64, _ question: CacheQuestion) -> ValidationOutcome {
        if head.statusCode == 304 { return isUpdated(by: head.headerFields) ? .updated : .mismatch }
        guard [500, 502, 503, 504].contains(head.statusCode) else { return .replaced }
        return mayBeUsedOnError(at: now, question, unconfigured: nil) ? .staleOnError : .replaced
    }

    /// Whether the fields of a 304 refer to this stored response (RFC 9111, section 4.3.4).
    func isUpdated(by received: HeaderFields) -> Bool {
        if let tag = EntityTag(received) {
            return entityTag.map(tag.matchesWeakly) ?? false
        }
        guard let changed = received.values(of: "Last-Modified").first?.trimmingBlanks else { return true }
        return changed == lastModified
    }

    // RFC 5861, section 4, covers errors of the server. RFC 9111, section 4.2.4, covers an unreachable server.
    // `unconfigured` is the allowed staleness in seconds without `stale-if-error`.
    func mayBeUsedOnError(at now: Int64, _ question: CacheQuestion, unconfigured: Int64?) -> Bool {
        let freshness = freshness(question.sharing)
        let control = question.control
        guard !isInvalid, freshness.allowsStale(question.sharing), let timeToLive = freshness.timeToLive(at: now),
            question.options.policy == .standard, !control.contains("no-cache"), !control.contains("max-age"),
            !control.contains("min-fresh"), question.options.maxAge == nil
        else { return false }
        let window = [freshness.control, control].compactMap { $0.seconds("stale-if-error").value }.max()
        guard let window = window ?? unconfigured else { return false }
        return -timeToLive <= window
    }

    // RFC 9111, section 3.2. The new fields may forbid storing the response: see ``CacheQuestion/refusal(_:_:)``.
    mutating func update(by head: ResponseHead, to question: CacheQuestion, requestTime: Int64, responseTime: Int64) {
        headerFields = CacheRules.updated(headerFields, with: head.headerFields, sharing: question.sharing)
        if !head.headerFields.contains("Date") { headerFields["Date"] = HTTPDateText.text(responseTime) }
        (self.requestTime, self.responseTime, isInvalid) = (requestTime, responseTime, false)
        // If `Vary` now lists other fields, their values come from this request. The original request is not stored.
        let names = VaryKey.names(headerFields) ?? []
        // The new fields are for this credential, for example `Set-Cookie`.
        credentials = question.credentials
        if names != Set(vary.fields.keys) { vary = VaryKey(names, question.headerFields, question.digest) }
    }

    // RFC 9111, section 4.3.5. If the response describes a newer version, the head is marked as invalid instead.
    mutating func update(
        byHead head: ResponseHead, to question: CacheQuestion, requestTime: Int64, responseTime: Int64
    ) {
        let length = head.headerFields["Content-Length"].flatMap { Int64($0.trimmingBlanks) }
        isInvalid =
            !isUpdated(by: head.headerFields) || length != nil && coding != .decoded && length != totalBytes
            || statusCode != head.statusCode
        if !isInvalid { update(by: head, to: question, requestTime: requestTime, responseTime: responseTime) }
    }
}

/// RFC 9110, section 5.6.7.
enum HTTPDateText {
    private static let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    static func text(_ seconds: Int64) -> String {
        var (time, parts) = (time_t(seconds), tm())
        gmtime_r(&time, &parts)
        return String(
            format: "\(days[Int(parts.tm_wday)]), %02d \(months[Int(parts.tm_mon)]) %04d %02d:%02d:%02d GMT",
            parts.tm_mday, parts.tm_year + 1_900, parts.tm_hour, parts.tm_min, parts.tm_sec)
    }
}
