import Convoy

// When the response is stored, a waiting request searches the cache again (RFC 9111, section 4). If the registered
// request fails, or is cancelled or suspended, the request that has waited longest takes its place. If the response
// cannot be shared, each waiting request is sent.
// One lock protects the state; no other lock is acquired under it. The callbacks of waiting requests run outside the
// lock.
final class Fetches: Sendable {
    struct Selection: Sendable, Equatable {
        let credentials: String?
        let keepsCoding: Bool
    }

    private struct Waiter {
        let owner: ObjectIdentifier
        let then: @Sendable (_ takesOver: Bool) -> Void
    }

    private struct Fetch {
        var owner: ObjectIdentifier
        let selection: Selection
        var waiting: [Waiter] = []
    }

    private let state = Locked([String: Fetch]())

    static let mostBytes: Int64 = 1 << 20

    // A request is neither registered nor waits if a different request with its key is registered. The argument of the
    // callback says whether the request is now registered itself. Returns whether the request waits.
    func awaitEqual(
        _ key: String, _ selection: Selection, by owner: AnyObject, registers: Bool,
        _ makeThen: () -> @Sendable (Bool) -> Void
    ) -> Bool {
        let fetch = Fetch(owner: ObjectIdentifier(owner), selection: selection)
        @Sendable func begins(_ fetches: inout [String: Fetch]) -> Bool {
            guard registers else { return false }
            // If no request is registered, this hashes the key only once. That is the common case.
            guard let earlier = fetches.updateValue(fetch, forKey: key) else { return true }
            fetches[key] = earlier
            return false
        }
        if state.withLock(begins) { return false }
        let then = makeThen()
        return state.withLock { fetches in
            // The earlier request may have ended meanwhile.
            guard !begins(&fetches), fetches[key]?.selection == selection else { return false }
            fetches[key]?.waiting.append(Waiter(owner: fetch.owner, then: then))
            return true
        }
    }

    func has(_ key: String) -> Bool { state.withLock { !$0.isEmpty && $0[key] != nil } }

    // A second call has no effect. If `handsOver` is false, all waiting requests continue.
    func end(_ key: String, by owner: AnyObject, handsOver: Bool) {
        let owner = ObjectIdentifier(owner)
        let continuing = state.withLock { fetches -> [Waiter] in
            guard let fetch = fetches[key] else { return [] }
            guard fetch.owner == owner else {
                fetches[key]?.waiting.removeAll { $0.owner == owner }
                return []
            }
            guard handsOver, let next = fetch.waiting.first else {
                return fetches.removeValue(forKey: key)?.waiting ?? []
            }
            fetches[key]?.owner = next.owner
            fetches[key]?.waiting.removeFirst()
            return [next]
        }
        for waiter in continuing { waiter.then(handsOver) }
    }
}

extension CacheQuestion {
    var isShareable: Bool {
        method == .get && !hasBody && !hasCondition && !headerFields.contains("Range") && !isOffline
            && (options.policy == .standard || options.policy == .preferCache) && !control.contains("no-cache")
    }
}
