// Collapsed forwarding: equal requests wait for the response to one of them.
import Convoy

/// The requests in progress by cache key, and the equal requests that wait for them.
///
/// After a miss, a request may wait for the response to an equal request. When that response is stored, the waiting
/// request searches the cache again (RFC 9111, section 4). If the response cannot be shared, each waiting request is
/// sent. All requests that wait under one key wait for the same request.
///
/// ## Concurrency
/// One lock protects the state. No other lock is acquired under this lock. The callbacks of waiting requests run
/// outside the lock.
final class Fetches: Sendable {
    /// The properties of a request, besides its cache key, that its response depends on.
    struct Selection: Sendable, Equatable {
        let authorization: String?
        let keepsCoding: Bool

        init(_ question: CacheQuestion) {
            authorization = VaryKey.normalized("authorization", question.headerFields, question.digest)
            keepsCoding = question.keepsCoding
        }
    }

    private struct Fetch {
        let owner: ObjectIdentifier
        let selection: Selection
        var waiting: [@Sendable () -> Void] = []
    }

    private let state = Locked([String: Fetch]())

    /// The maximum length of a response that other requests wait for.
    static let mostBytes: Int64 = 1 << 20

    /// Registers a request that goes to the network, unless a request with the same key is registered.
    func begin(_ key: String, _ selection: Selection, by owner: AnyObject) {
        let owner = ObjectIdentifier(owner)
        state.withLock { fetches in
            // If no request is registered, this hashes the key only once. That is the common case.
            let earlier = fetches.updateValue(Fetch(owner: owner, selection: selection), forKey: key)
            if let earlier { fetches[key] = earlier }
        }
    }

    /// Removes a request, and runs the callbacks that wait for its response.
    ///
    /// A second call has no effect.
    func end(_ key: String, by owner: AnyObject) {
        let owner = ObjectIdentifier(owner)
        let waiting = state.withLock { fetches -> [@Sendable () -> Void] in
            guard let ended = fetches.removeValue(forKey: key) else { return [] }
            if ended.owner == owner { return ended.waiting }
            fetches[key] = ended
            return []
        }
        for then in waiting { then() }
    }

    /// Whether a request with this key is registered.
    func has(_ key: String) -> Bool { state.withLock { !$0.isEmpty && $0[key] != nil } }

    /// Registers a callback for the end of an equal request; false if no such request is registered.
    func await(_ key: String, _ selection: Selection, _ then: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { fetches in
            guard fetches[key]?.selection == selection else { return false }
            fetches[key]?.waiting.append(then)
            return true
        }
    }
}

extension CacheQuestion {
    /// Whether the request may use the response to an equal request.
    var isShareable: Bool {
        method == .get && !hasBody && !hasCondition && !headerFields.contains("Range") && !isOffline
            && (options.policy == .standard || options.policy == .preferCache) && !control.contains("no-cache")
    }
}
