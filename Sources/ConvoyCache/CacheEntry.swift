// What is stored, to look at.
import Convoy
import Foundation

/// A stored response, to look at.
public struct CacheEntry: Sendable, Hashable {
    /// The URL of its request, or what `cacheKey` of a request has put in its place.
    public let key: String
    /// Its status code.
    public let statusCode: Int
    /// Its header fields, as they are stored.
    public let headerFields: HeaderFields
    /// How many bytes of body are stored, behind the content coding unless the request wanted them as they were sent.
    public let bodyBytes: Int64
    /// Whether the body is complete; else a part of it is stored.
    public let isComplete: Bool
    /// The names of the request's fields that it varies by, in lower case.
    public let varyingFields: [String]
    /// When it arrived, or was last confirmed.
    public let received: Date
    /// Until when it is fresh; in the past for a stale one, and for one that has to be validated each time.
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
    /// What is stored, in no order.
    ///
    /// - Parameter isMeant: picks entries; called on this thread.
    /// - Thread: any; it may wait for the disk.
    /// - Complexity: O(*n*) for *n* entries.
    public func entries(matching isMeant: (CacheEntry) -> Bool = { _ in true }) -> [CacheEntry] {
        store.summaries().map { CacheEntry($0, configuration.sharing) }.filter(isMeant)
    }

    /// Removes what a predicate picks, with all variants of its URL.
    ///
    /// - Returns: how many URLs have gone.
    /// - Thread: any; it may wait for the disk.
    /// - Complexity: O(*n*) for *n* entries.
    @discardableResult
    public func remove(matching isMeant: (CacheEntry) -> Bool) -> Int {
        let keys = Set(entries(matching: isMeant).map(\.key))
        for key in keys { store.removeAll(key: key) }
        return keys.count
    }
}
