// How the cache handled a request, as one word.
import Convoy

/// How the cache handled a request: the word for it in `%{cache}`, events and reports.
enum CacheOutcome: String, Sendable {
    case hit, stale, revalidated, miss, bypass

    /// The text at the end of a file's line in the output; empty if no stored response was used.
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
    /// How the cache handled the last attempt; nil if no cache took part.
    var cacheOutcome: CacheOutcome? { last?.metrics?.cache?.outcome }
}
