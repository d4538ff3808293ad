// How a request uses the cache of its manager.
import Foundation

extension Request {
    /// Sets how the request uses the cache of its manager; ``CachePolicy/standard`` by default.
    ///
    /// A policy that takes no stored response as it is cannot have a maximum age or staleness: the request is invalid.
    public func cachePolicy(_ policy: CachePolicy) -> Self { changedCache { $0.policy = policy } }

    /// Sets what stands for the URL in the cache, without a signature in its query for example.
    ///
    /// Requests with the same key share stored responses, so give it to those only that get the same answer. The key is no
    /// secret: it is stored as it is. An empty one makes the request invalid.
    public func cacheKey(_ key: String) -> Self { changedCache { $0.key = key } }

    /// Sets how old a stored response may be that answers the request without being validated; nil for any age.
    public func maxCacheAge(_ age: Duration?) -> Self { changedCache { $0.maxAge = age } }

    /// Sets how long a stored response may have been stale that answers the request without being validated; nil, the
    /// default, for no time, beyond what the response itself allows.
    ///
    /// A response that forbids it (`must-revalidate`, `no-cache`) is validated all the same.
    public func maxCacheStaleness(_ staleness: Duration?) -> Self { changedCache { $0.maxStaleness = staleness } }

    /// What it asks of the cache; nil for nothing of its own.
    package var cacheOptions: CacheOptions? { core.policyBox?.policies.cache }

    private func changedCache(_ change: (inout CacheOptions) -> Void) -> Self {
        changed { core in
            var options = core.policies.cache ?? CacheOptions()
            change(&options)
            core.policies.cache = options
        }
    }
}
