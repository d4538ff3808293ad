// The age and freshness of a response: RFC 9111, section 4.2.
import Convoy
import Foundation

/// Whether a cache is private or shared.
///
/// ```swift
/// var configuration = HTTPCache.Configuration()
/// configuration.sharing = .shared(targets: ["CDN-Cache-Control"])
/// ```
public enum CacheSharing: Sendable, Hashable {
    /// A cache for one user, such as a browser's.
    case `private`
    /// A cache for several users.
    ///
    /// A shared cache stores nothing that is meant for one user (RFC 9111, section 3).
    ///
    /// - Parameter targets: the names of the targeted fields of this cache (RFC 9213), such as `CDN-Cache-Control`.
    ///   The first one that a response has replaces `Cache-Control`.
    case shared(targets: [String] = [])

    var isShared: Bool { self != .private }
}

struct Freshness: Sendable {
    /// The directives of the targeted field (RFC 9213) or of `Cache-Control`.
    var control: CacheControl
    var lifetime: Int64
    var isHeuristic = false
    /// The age when the response was received: `corrected_initial_age` (RFC 9111, section 4.2.3).
    var initialAge: Int64
    var responseTime: Int64

    /// The number of seconds by which a clock may move back before the age is unknown.
    static let clockTolerance: Int64 = 5
    static let mostHeuristic: Int64 = 86_400

    init(
        statusCode: Int, headerFields: HeaderFields, requestTime: Int64, responseTime: Int64, sharing: CacheSharing
    ) {
        self.responseTime = responseTime
        control = Self.control(headerFields, sharing)
        let dateValue = headerFields.seconds(of: "Date", at: responseTime) ?? responseTime
        // The corrected initial age (RFC 9111, section 4.2.3).
        let apparentAge = max(0, responseTime - dateValue)
        let correctedAge = Self.age(headerFields) + max(0, responseTime - requestTime)
        initialAge = min(DeltaSeconds.most, max(apparentAge, correctedAge))
        (lifetime, isHeuristic) = Self.lifetime(
            control, statusCode: statusCode, headerFields, dateValue: dateValue, at: responseTime, sharing)
    }

    static func control(_ headerFields: HeaderFields, _ sharing: CacheSharing) -> CacheControl {
        if case .shared(let targets) = sharing {
            for target in targets {
                if let control = CacheControl(targeted: headerFields, field: target) { return control }
            }
        }
        return CacheControl(headerFields)
    }

    static func isExplicit(_ headerFields: HeaderFields, _ control: CacheControl, _ sharing: CacheSharing) -> Bool {
        control.contains("max-age") || sharing.isShared && control.contains("s-maxage")
            || !control.isTargeted && headerFields.contains("Expires")
    }

    /// The first value of `Age`; 0 if it is not a number (RFC 9111, section 5.1).
    static func age(_ headerFields: HeaderFields) -> Int64 {
        headerFields.listMembers(of: "Age").first.flatMap(DeltaSeconds.number) ?? 0
    }

    /// The freshness lifetime and whether it is heuristic (RFC 9111, section 4.2.1).
    private static func lifetime(
        _ control: CacheControl, statusCode: Int, _ headerFields: HeaderFields, dateValue: Int64,
        at responseTime: Int64, _ sharing: CacheSharing
    ) -> (Int64, isHeuristic: Bool) {
        for name in sharing.isShared ? ["s-maxage", "max-age"] : ["max-age"] {
            switch control.seconds(name) {
            case .value(let seconds): return (seconds, false)
            case .invalid: return (0, false)
            case .absent: break
            }
        }
        let expires = control.isTargeted ? [] : headerFields.values(of: "Expires").map(\.trimmingBlanks)
        if let first = expires.first {
            // Different values of `Expires`, or an invalid date, mean that the response has expired (RFC 9111, section
            // 5.3).
            guard expires.allSatisfy({ $0 == first }), isStrictDate(first),
                let date = headerFields.seconds(of: "Expires", at: responseTime)
            else { return (0, false) }
            return (max(0, date - dateValue), false)
        }
        // Servers of HTTP/1.0 send `Pragma: no-cache` in place of `Cache-Control`.
        guard CacheRules.heuristic.contains(statusCode) || control.contains("public"),
            !CacheControl(headerFields, field: "Pragma").contains("no-cache"),
            let modified = headerFields.seconds(of: "Last-Modified", at: responseTime)
        else { return (0, false) }
        return (min(mostHeuristic, max(0, dateValue - modified) / 10), true)
    }

    // RFC 9110, section 5.6.7. Unlike `HTTPDate`, it accepts no time zone name but GMT, and no day of one digit after
    // a comma.
    private static func isStrictDate(_ text: String) -> Bool {
        if ["UTC", "UT", "+0000", "-0000"].contains(where: text.uppercased().hasSuffix) { return false }
        guard let comma = text.firstIndex(of: ",") else { return true }
        return text[text.index(after: comma)...].drop { $0 == " " }.prefix { $0.isNumber }.count == 2
    }

    /// The age at a given time (RFC 9111, section 4.2.3); nil if the clock was set back too far.
    func age(at now: Int64) -> Int64? {
        let resident = now - responseTime
        guard resident >= -Self.clockTolerance else { return nil }
        return min(DeltaSeconds.most, initialAge + max(0, resident))
    }

    /// Negative for a stale response; nil if the age is unknown.
    func timeToLive(at now: Int64) -> Int64? { age(at: now).map { lifetime - $0 } }
}

extension Date {
    /// Bounded, because a clock may have any value.
    var cacheSeconds: Int64 {
        let seconds = timeIntervalSince1970
        return seconds.isFinite ? Int64(min(max(seconds, -1e11), 1e11).rounded(.down)) : 0
    }
}

extension HeaderFields {
    /// The date in the first field of a response that was received at `responseTime`, in seconds since 1970.
    func seconds(of name: String, at responseTime: Int64) -> Int64? {
        values(of: name).first.flatMap {
            HTTPDate($0.trimmingBlanks, now: Date(timeIntervalSince1970: Double(responseTime)))?.secondsSince1970
        }
    }
}
