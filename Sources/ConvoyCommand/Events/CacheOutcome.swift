// The cache's part in a request, as one word.
import Convoy

/// The word in `%{cache}`, events and reports.
enum CacheOutcome: String, Sendable {
    case hit
    case stale
    case revalidated
    case miss
    case bypass

    /// The text that follows a file's line; empty if the cache did not help.
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
