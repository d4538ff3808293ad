// A stored response, all but its body.
import Convoy
import Foundation

/// What is known of a stored response: all that decides whether it answers a request.
struct StoredHead: Sendable, Equatable {
    /// What the body's bytes are.
    enum Coding: Int, Sendable {
        /// The response had no content coding.
        case none
        /// The bytes behind the content coding that the fields name.
        case decoded
        /// The bytes as they were sent, in the coding that the fields name.
        case raw
    }

    var url: String
    var statusCode: Int { didSet { known = KnownFreshness() } }
    var headerFields: HeaderFields { didSet { known = KnownFreshness() } }
    /// In seconds since 1970, as ``Freshness`` counts.
    var requestTime: Int64 { didSet { known = KnownFreshness() } }
    var responseTime: Int64 { didSet { known = KnownFreshness() } }
    var vary: VaryKey
    /// A digest of the `Authorization` of its request; nil for none.
    var authorization: String?
    var coding = Coding.none
    /// How many bytes of body are stored.
    var bodyBytes: Int64 = 0
    /// Where in the representation they begin.
    var offset: Int64 = 0
    /// The length of the representation; nil where the server did not know it.
    var totalBytes: Int64?
    /// The `Range` of its request, for a part.
    var requestedRange: String?
    /// Whether it has to be validated before it is used: it was invalidated, or a HEAD told that it is not the latest.
    var isInvalid = false
    private var known = KnownFreshness()

    init(
        url: String, statusCode: Int, headerFields: HeaderFields, requestTime: Int64, responseTime: Int64,
        vary: VaryKey, authorization: String?
    ) {
        (self.url, self.statusCode, self.headerFields) = (url, statusCode, headerFields)
        (self.requestTime, self.responseTime) = (requestTime, responseTime)
        (self.vary, self.authorization) = (vary, authorization)
    }

    /// Whether all of the representation is stored.
    var isComplete: Bool { offset == 0 && totalBytes == bodyBytes }

    /// The positions of the representation that are stored.
    var positions: Range<Int64> { offset..<offset + bodyBytes }

    func freshness(_ sharing: CacheSharing) -> Freshness {
        known.value(sharing) {
            Freshness(
                statusCode: statusCode, headerFields: headerFields, requestTime: requestTime,
                responseTime: responseTime, sharing: sharing)
        }
    }

    // MARK: Validators

    /// The entity tag; nil when there is none that can be sent back.
    var entityTag: EntityTag? { EntityTag(headerFields) }

    /// The date of the last change, as the server wrote it.
    var lastModified: String? {
        headerFields.values(of: "Last-Modified").first.map(\.trimmingBlanks).flatMap { text in
            HTTPDate(text, now: Date(timeIntervalSince1970: Double(responseTime))) == nil ? nil : text
        }
    }

    var hasValidator: Bool { entityTag != nil || lastModified != nil }

    /// The strong validator: two parts with the same one belong to the same bytes (RFC 9110, section 8.8.1).
    var strongValidator: String? {
        if let entityTag { return entityTag.isWeak ? nil : entityTag.text }
        guard let lastModified, let date = headerFields.values(of: "Date").first else { return nil }
        let now = Date(timeIntervalSince1970: Double(responseTime))
        guard let changed = HTTPDate(lastModified, now: now), let sent = HTTPDate(date.trimmingBlanks, now: now),
            // Within a second of the change there may be another (section 8.8.2.2).
            changed.secondsSince1970 + 1 < sent.secondsSince1970
        else { return nil }
        return lastModified
    }
}

/// The freshness of a head, worked out once: one hit needs it several times.
///
/// Copies of a head have it in common until one of them changes.
private final class KnownFreshness: Sendable, Equatable {
    private let state = Locked<(sharing: CacheSharing, freshness: Freshness)?>(nil)

    /// It follows from the rest of a head.
    static func == (_: KnownFreshness, _: KnownFreshness) -> Bool { true }

    func value(_ sharing: CacheSharing, _ make: () -> Freshness) -> Freshness {
        if let known = state.withLock({ $0 }), known.sharing == sharing { return known.freshness }
        let freshness = make()
        state.withLock { $0 = (sharing, freshness) }
        return freshness
    }
}

/// An entity tag: RFC 9110, section 8.8.3.
struct EntityTag: Sendable, Equatable {
    /// With its quotes, and with `W/` if it is weak.
    let text: String

    var isWeak: Bool { text.hasPrefix("W/") }
    /// Without `W/`.
    var opaque: Substring { isWeak ? text.dropFirst(2) : text[...] }

    /// The tag of a message; nil when it has none, or several.
    init?(_ headerFields: HeaderFields) {
        let values = headerFields.values(of: "ETag").map(\.trimmingBlanks)
        guard let first = values.first, !first.isEmpty, values.allSatisfy({ $0 == first }) else { return nil }
        self.init(first)
    }

    /// A server's tag without quotes is taken as it is: it goes back to the same server.
    init(_ text: String) { self.text = text }

    /// The weak comparison of section 8.8.3.2.
    func matchesWeakly(_ other: EntityTag) -> Bool { opaque == other.opaque }
    /// The strong comparison.
    func matchesStrongly(_ other: EntityTag) -> Bool { !isWeak && !other.isWeak && text == other.text }
}
