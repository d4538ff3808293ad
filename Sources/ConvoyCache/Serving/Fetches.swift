import Convoy

// When the response is stored, a waiting request searches the cache again (RFC 9111, section 4). If the registered
// request fails, or is cancelled or suspended, the request that has waited longest takes its place. If the response
// cannot be shared, each waiting request is sent.
// One lock protects the state; no other lock is acquired under it. The callbacks of waiting requests run outside the
// lock.
final class Fetches: Sendable {
    private struct Fetch {
        var owner: ObjectIdentifier
        let credentials: String?
        let keepsCoding: Bool
        var waiting: [CacheTransfer] = []
    }

    private let state = Locked([String: Fetch]())

    static let mostBytes: Int64 = 1 << 20

    // Returns whether the request waits. If a different request with its key is registered, it neither waits nor is it
    // registered; nor is one with an uncertain lookup.
    func awaitEqual(_ exchange: StoredExchange, by transfer: CacheTransfer) -> Bool {
        let question = exchange.question
        let fetch = Fetch(
            owner: ObjectIdentifier(transfer), credentials: question.credentials, keepsCoding: question.keepsCoding)
        return state.withLock { fetches in
            // If no request is registered, this hashes the key only once. That is the common case.
            let known =
                exchange.isCertain
                ? fetches.updateValue(fetch, forKey: question.key) : fetches.removeValue(forKey: question.key)
            guard var earlier = known else { return false }
            let isEqual = earlier.credentials == fetch.credentials && earlier.keepsCoding == fetch.keepsCoding
            if isEqual { earlier.waiting.append(transfer) }
            fetches[question.key] = earlier
            return isEqual
        }
    }

    func has(_ key: String) -> Bool { state.withLock { !$0.isEmpty && $0[key] != nil } }

    // A second call has no effect. If `handsOver` is false, all waiting requests continue.
    func end(_ exchange: StoredExchange, by owner: ObjectIdentifier, handsOver: Bool) {
        let key = exchange.question.key
        let continuing = state.withLock { fetches -> [CacheTransfer] in
            guard let fetch = fetches[key] else { return [] }
            guard fetch.owner == owner else {
                fetches[key]?.waiting.removeAll { ObjectIdentifier($0) == owner }
                return []
            }
            guard handsOver, let next = fetch.waiting.first else {
                return fetches.removeValue(forKey: key)?.waiting ?? []
            }
            fetches[key]?.owner = ObjectIdentifier(next)
            fetches[key]?.waiting.removeFirst()
            return [next]
        }
        for transfer in continuing { transfer.waitEnded(takesOver: handsOver) }
    }
}

extension StoredExchange {
    var isShareable: Bool {
        switch decision {
        case .forward(.uriMiss), .complete: break
        case .serve, .validate, .forward, .bypass, .unavailable: return false
        }
        return question.method == .get && !question.hasBody && !question.hasCondition && !question.isOffline
            && (question.options.policy == .standard || question.options.policy == .preferCache)
            && !question.headerFields.contains("Range") && !question.control.contains("no-cache")
    }
}
