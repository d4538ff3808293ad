// Descriptions of stored responses.
import Convoy
import Foundation

/// A description of a stored response.
public struct CacheEntry: Sendable, Hashable {
    /// The URL of its request, or the request's `cacheKey`.
    public let key: String
    /// Its status code.
    public let statusCode: Int
    /// Its stored header fields.
    public let headerFields: HeaderFields
    /// The size of the stored body.
    ///
    /// The body is decoded unless its request asked for the encoded bytes.
    public let bodyBytes: Int64
    /// Whether the complete body is stored.
    public let isComplete: Bool
    /// The names of the request fields by which it varies, in lower case.
    public let varyingFields: [String]
    /// When it was received or last validated.
    public let received: Date
    /// Until when it is fresh.
    ///
    /// In the past for a stale response, and for one that must always be validated.
    public let freshUntil: Date

    init(_ summary: StoredSummary, _ sharing: CacheSharing) {
        let head = summary.head
        (key, statusCode, headerFields) = (summary.key, head.statusCode, head.headerFields)
        (bodyBytes, isComplete) = (head.bodyBytes, head.isComplete)
        varyingFields = head.vary.fields.keys.sorted()
        received = Date(timeIntervalSince1970: Double(head.responseTime))
        let freshness = head.freshness(sharing)
        let isValidated = head.isInvalid || freshness.control.isUnqualified("no-cache")
        let lifetime = isValidated ? 0 : freshness.lifetime - freshness.initialAge
        freshUntil = Date(timeIntervalSince1970: Double(head.responseTime + lifetime))
    }
}

extension HTTPCache {
    /// The stored responses in no particular order.
    ///
    /// - Parameter isMeant: selects entries; called on this thread.
    /// - Thread: any; may block for disk access.
    /// - Complexity: O(*n*) for *n* entries.
    public func entries(matching isMeant: (CacheEntry) -> Bool = { _ in true }) -> [CacheEntry] {
        store.summaries().map { CacheEntry($0, configuration.sharing) }.filter(isMeant)
    }

    /// Removes the entries that a predicate selects, with all variants of their URLs.
    ///
    /// - Returns: the number of removed URLs.
    /// - Thread: any; may block for disk access.
    /// - Complexity: O(*n*) for *n* entries.
    @discardableResult
    public func remove(matching isMeant: (CacheEntry) -> Bool) -> Int {
        let keys = Set(entries(matching: isMeant).map(\.key))
        for key in keys { store.removeAll(key: key) }
        return keys.count
    }
}
