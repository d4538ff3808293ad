import Convoy
import Foundation

/// A description of a stored response.
///
/// ```swift
/// for entry in cache.entries(matching: { $0.freshUntil < .now }) { print(entry.key, entry.bodyBytes) }
/// ```
public struct CacheEntry: Sendable, Hashable {
    /// The URL of the request, or its `cacheKey` if the request has one.
    public let key: String
    /// The status code of the response.
    public let statusCode: Int
    /// The stored header fields of the response.
    public let headerFields: HeaderFields
    /// The number of stored body bytes.
    ///
    /// The bytes have no content coding, unless the request asked for the coded body.
    public let bodyBytes: Int64
    /// Whether the body is complete.
    ///
    /// If false, only a part of the body is stored.
    public let isComplete: Bool
    /// The names of the request fields that `Vary` lists, in lower case.
    public let varyingFields: [String]
    /// When the response was received or last validated.
    public let received: Date
    /// When the response becomes stale.
    ///
    /// The date is in the past if the response is stale or must be validated before each use.
    public let freshUntil: Date

    init(_ head: StoredHead, _ sharing: CacheSharing) {
        (key, statusCode, headerFields) = (head.key, head.statusCode, head.headerFields)
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
    /// Lists the stored responses, in no particular order.
    ///
    /// - Parameter isMeant: selects responses. It runs on the calling thread.
    /// - Thread: any; it may wait for the disk.
    /// - Complexity: O(*n*) for *n* entries.
    public func entries(matching isMeant: (CacheEntry) -> Bool = { _ in true }) -> [CacheEntry] {
        store.heads().map { CacheEntry($0, configuration.sharing) }.filter(isMeant)
    }

    /// Removes the selected responses, together with all variants of their URLs.
    ///
    /// - Returns: the number of keys whose responses were removed, each a URL or a `cacheKey`.
    /// - Thread: any; it may wait for the disk.
    /// - Complexity: O(*n*) for *n* entries.
    @discardableResult
    public func remove(matching isMeant: (CacheEntry) -> Bool) -> Int {
        let keys = Set(entries(matching: isMeant).map(\.key))
        for key in keys { store.removeAll(key: key) }
        return keys.count
    }

    // MARK: What the command uses

    /// Creates no file.
    package static func isThere(in directory: URL) -> Bool { CacheDirectory(path: directory.path).indexNumber != 0 }

    // Tries for two seconds. A lookup that must open the index finds nothing while another process holds the lock.
    package static func isLocked(in directory: URL) -> Bool {
        let directory = CacheDirectory(path: directory.path)
        // A cache of another user is not used, so its lock does not matter.
        return !directory.isForeign && (try? directory.locked {}) == nil
    }

    package func key(of url: URL) -> String { CacheKey.key(url, store.digest) }
}
