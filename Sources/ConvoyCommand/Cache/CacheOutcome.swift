// What a cache has done with a request, in one word.
import Convoy

/// How `%{cache}`, events and reports call it.
enum CacheOutcome: String, Sendable {
    case hit
    case stale
    case revalidated
    case miss
    case bypass

    /// What a line about a file says of it, behind a comma.
    var words: String {
        switch self {
        case .hit: ", from the cache"
        case .stale: ", from the cache, stale"
        case .revalidated: ", from the cache, validated"
        case .miss, .bypass: ""
        }
    }
}

extension CacheStatus {
    var outcome: CacheOutcome {
        if isHit { return timeToLive.map { $0 > 0 } ?? true ? .hit : .stale }
        if detail == "stale-if-error" { return .stale }
        if forwardStatus == 304 { return .revalidated }
        return forward == .bypass || forward == .method ? .bypass : .miss
    }
}

extension [AttemptRecord] {
    /// Of the last of them; nil where the run has no cache.
    var cacheOutcome: CacheOutcome? { last?.metrics?.cache?.outcome }
}
