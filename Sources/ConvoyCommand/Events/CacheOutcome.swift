// How the cache handled a request, as one word.
import Convoy

/// The word in `%{cache}`, events and reports.
enum CacheOutcome: String, Sendable {
    case hit, stale, revalidated, miss, bypass

    /// The text after a file's line in the output; empty if no stored response was used.
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
    /// The outcome of the last attempt; nil without a cache.
    var cacheOutcome: CacheOutcome? { last?.metrics?.cache?.outcome }
}
