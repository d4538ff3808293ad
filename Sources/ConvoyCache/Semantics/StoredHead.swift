import Convoy
import Foundation

struct StoredHead: Sendable, Equatable {
    enum Coding: Int, Sendable {
        case none
        /// The bytes are decoded, although the fields still name the content coding.
        case decoded
        /// The bytes still have the content coding that the fields name.
        case raw
    }

    let key: String
    var statusCode: Int { didSet { derived = DerivedValues() } }
    var headerFields: HeaderFields { didSet { derived = DerivedValues() } }
    var requestTime: Int64 { didSet { derived = DerivedValues() } }
    var responseTime: Int64 { didSet { derived = DerivedValues() } }
    var vary: VaryKey
    var credentials: String?
    var coding = Coding.none
    var bodyBytes: Int64 = 0
    var offset: Int64 = 0
    var totalBytes: Int64?
    var requestedRange: String?
    /// Set when a response to HEAD describes a newer version.
    var isInvalid = false
    private(set) var derived = DerivedValues()

    init(
        key: String, statusCode: Int, headerFields: HeaderFields, requestTime: Int64, responseTime: Int64,
        vary: VaryKey, credentials: String?
    ) {
        (self.key, self.statusCode, self.headerFields) = (key, statusCode, headerFields)
        (self.requestTime, self.responseTime) = (requestTime, responseTime)
        (self.vary, self.credentials) = (vary, credentials)
    }

    var isComplete: Bool { offset == 0 && totalBytes == bodyBytes }

    /// Empty if they exceed 64 bits.
    var positions: Range<Int64> {
        let (end, isTooLarge) = offset.addingReportingOverflow(bodyBytes)
        return offset..<(isTooLarge ? offset : max(offset, end))
    }

    func freshness(_ sharing: CacheSharing) -> Freshness {
        derived.freshness(sharing) {
            Freshness(
                statusCode: statusCode, headerFields: headerFields, requestTime: requestTime,
                responseTime: responseTime, sharing: sharing)
        }
    }

    func timeToLive(at now: Int64, _ sharing: CacheSharing) -> Int? {
        freshness(sharing).timeToLive(at: now).map { Int(clamping: $0) }
    }

    // MARK: Validators

    /// Nil if the response has several different ones.
    var entityTag: EntityTag? { EntityTag(headerFields) }

    /// In the server's own spelling.
    var lastModified: String? {
        headerFields.seconds(of: "Last-Modified", at: responseTime) == nil
            ? nil : headerFields.values(of: "Last-Modified").first?.trimmingBlanks
    }

    /// Byte ranges with the same strong validator belong to the same representation (RFC 9110, section 8.8.1).
    var strongValidator: String? {
        if let entityTag { return entityTag.isWeak ? nil : entityTag.text }
        guard let changed = headerFields.seconds(of: "Last-Modified", at: responseTime),
            let sent = headerFields.seconds(of: "Date", at: responseTime),
            // The resource may change twice within one second. `Last-Modified` must therefore be at least two seconds
            // older than `Date` (RFC 9110, section 8.8.2.2).
            changed + 1 < sent
        else { return nil }
        return lastModified
    }
}

// Copies of a head share these values. A copy gets values of its own when its status code, header fields or times
// change.
final class DerivedValues: Sendable, Equatable {
    private struct State {
        var freshness: (sharing: CacheSharing, value: Freshness)?
        var answer: Answer?
    }

    /// A response prepared for one URL, reused for requests in the same second.
    struct Answer: Sendable {
        let url: URL
        let now: Int64
        let sharing: CacheSharing
        let head: ResponseHead
        let metrics: CopyOnWrite<TransferMetrics>
    }

    private let state = Locked(State())

    /// Always true, because equal heads have equal values.
    static func == (_: DerivedValues, _: DerivedValues) -> Bool { true }

    func freshness(_ sharing: CacheSharing, _ make: () -> Freshness) -> Freshness {
        if let known = state.withLock({ $0.freshness }), known.sharing == sharing { return known.value }
        let freshness = make()
        state.withLock { $0.freshness = (sharing, freshness) }
        return freshness
    }

    func answer(to url: URL, at now: Int64, _ sharing: CacheSharing, _ make: () -> Answer) -> Answer {
        if let known = state.withLock({ $0.answer }), known.now == now, known.sharing == sharing, known.url == url {
            return known
        }
        let answer = make()
        state.withLock { $0.answer = answer }
        return answer
    }
}

/// RFC 9110, section 8.8.3.
struct EntityTag: Sendable, Equatable {
    let text: String

    var isWeak: Bool { text.hasPrefix("W/") }
    var opaque: Substring { isWeak ? text.dropFirst(2) : text[...] }

    init?(_ headerFields: HeaderFields) {
        let values = headerFields.values(of: "ETag").map(\.trimmingBlanks)
        guard let first = values.first, !first.isEmpty, values.allSatisfy({ $0 == first }) else { return nil }
        self.init(first)
    }

    /// Uses a text as the tag, even without quotes, because the cache sends it back only to the same server.
    init(_ text: String) { self.text = text }

    /// The weak comparison of RFC 9110, section 8.8.3.2.
    func matchesWeakly(_ other: EntityTag) -> Bool { opaque == other.opaque }
}
