// How old a response is, and how long it is fresh: RFC 9111, section 4.2.
import Convoy
import Foundation

/// Which kind of cache it is.
public enum CacheSharing: Sendable, Hashable {
    /// For one user, as a browser's.
    case `private`
    /// For several: nothing of one user is stored (RFC 9111, section 3).
    ///
    /// - Parameter targets: the names of the fields that mean this cache, of which the first that a response has counts in
    ///   place of `Cache-Control` (RFC 9213); `CDN-Cache-Control` for example.
    case shared(targets: [String] = [])

    var isShared: Bool { self != .private }
}

/// What of a response decides on its freshness, worked out once.
struct Freshness: Sendable, Equatable {
    /// The field of RFC 9213 or `Cache-Control`.
    var control: CacheControl
    /// How long it is fresh, in seconds.
    var lifetime: Int64
    /// Whether nothing but its `Last-Modified` says so.
    var isHeuristic = false
    /// Its age when it arrived: `corrected_initial_age`.
    var initialAge: Int64
    /// When it arrived.
    var responseTime: Int64

    /// How far a clock may be set back before ages are not believed any more.
    static let clockTolerance: Int64 = 5
    /// The longest lifetime that is guessed.
    static let mostHeuristic: Int64 = 86_400

    /// - Parameters:
    ///   - requestTime: when the request was sent, in seconds since 1970.
    ///   - responseTime: when the response arrived.
    init(
        statusCode: Int, headerFields: HeaderFields, requestTime: Int64, responseTime: Int64, sharing: CacheSharing
    ) {
        self.responseTime = responseTime
        control = Self.control(headerFields, sharing)
        let now = Date(timeIntervalSince1970: Double(responseTime))
        let date = headerFields.values(of: "Date").first.flatMap { HTTPDate($0.trimmingBlanks, now: now) }
        let dateValue = date?.secondsSince1970 ?? responseTime
        // Section 4.2.3.
        let apparentAge = max(0, responseTime - dateValue)
        let correctedAge = Self.age(headerFields) + max(0, responseTime - requestTime)
        initialAge = min(DeltaSeconds.most, max(apparentAge, correctedAge))
        (lifetime, isHeuristic) = Self.lifetime(
            control, statusCode: statusCode, headerFields, dateValue: dateValue, now: now, sharing)
    }

    /// The first valid target field, else `Cache-Control`.
    static func control(_ headerFields: HeaderFields, _ sharing: CacheSharing) -> CacheControl {
        if case .shared(let targets) = sharing {
            for target in targets {
                if let control = CacheControl(targeted: headerFields, field: target) { return control }
            }
        }
        return CacheControl(headerFields)
    }

    /// The value of `Age`, of several the first; 0 for what is no number (section 5.1).
    static func age(_ headerFields: HeaderFields) -> Int64 {
        headerFields.listMembers(of: "Age").first.flatMap(DeltaSeconds.number) ?? 0
    }

    /// Section 4.2.1.
    private static func lifetime(
        _ control: CacheControl, statusCode: Int, _ headerFields: HeaderFields, dateValue: Int64, now: Date,
        _ sharing: CacheSharing
    ) -> (Int64, isHeuristic: Bool) {
        for name in sharing.isShared ? ["s-maxage", "max-age"] : ["max-age"] {
            switch control.seconds(name) {
            case .value(let seconds): return (seconds, false)
            case .invalid: return (0, false)
            case .absent: break
            }
        }
        let expires = headerFields.values(of: "Expires").map(\.trimmingBlanks)
        if let first = expires.first {
            // Several that differ, and what is no date, is in the past (section 5.3).
            guard expires.allSatisfy({ $0 == first }), let date = strictDate(first, now: now) else { return (0, false) }
            return (max(0, date - dateValue), false)
        }
        guard CacheRules.isHeuristicallyCacheable(statusCode) || control.contains("public"),
            let modified = headerFields.values(of: "Last-Modified").first.flatMap({
                HTTPDate($0.trimmingBlanks, now: now)
            })
        else { return (0, false) }
        return (min(mostHeuristic, max(0, dateValue - modified.secondsSince1970) / 10), true)
    }

    /// A date in one of the forms of RFC 9110, and no other zone's name than GMT.
    private static func strictDate(_ text: String, now: Date) -> Int64? {
        let upper = text.uppercased()
        guard !["UTC", "UT", "+0000", "-0000"].contains(where: upper.hasSuffix),
            hasTwoDigitDay(text), let date = HTTPDate(text, now: now)
        else { return nil }
        return date.secondsSince1970
    }

    private static func hasTwoDigitDay(_ text: String) -> Bool {
        guard let comma = text.firstIndex(of: ",") else { return true }
        return text[text.index(after: comma)...].drop { $0 == " " }.prefix { $0.isNumber }.count == 2
    }

    /// The age at a moment (section 4.2.3); nil where a clock was set back so far that it cannot be known.
    func age(at now: Int64) -> Int64? {
        let resident = now - responseTime
        guard resident >= -Self.clockTolerance else { return nil }
        return min(DeltaSeconds.most, initialAge + max(0, resident))
    }

    /// How long it is still fresh at a moment, in seconds: negative for how long it has been stale; nil where that cannot be
    /// known.
    func timeToLive(at now: Int64) -> Int64? { age(at: now).map { lifetime - $0 } }
}

extension Date {
    /// Seconds since 1970, rounded down and bounded: a clock may say anything.
    var cacheSeconds: Int64 {
        let seconds = timeIntervalSince1970
        return seconds.isFinite ? Int64(min(max(seconds, -1e11), 1e11).rounded(.down)) : 0
    }
}
