// How a request uses the cache of its manager.
import Foundation

extension Request {
    /// Sets how the request uses the cache of its manager; ``CachePolicy/standard`` by default.
    ///
    /// A request with ``maxCacheAge(_:)`` or ``maxCacheStaleness(_:)`` needs ``CachePolicy/standard``. With any other
    /// policy it is invalid.
    public func cachePolicy(_ policy: CachePolicy) -> Self { changedCache { $0.policy = policy } }

    /// Sets the cache key that replaces the URL, for example to omit a signature in the query.
    ///
    /// Requests with the same key share stored responses, so use one key only for requests with the same response. The
    /// key is stored unchanged, so it must not be a secret. An empty key makes the request invalid.
    ///
    /// A request with an unsafe method, such as POST, removes the responses that are stored under its key and its URL.
    /// Without the key it removes only the responses under the URL.
    public func cacheKey(_ key: String) -> Self { changedCache { $0.key = key } }

    /// Sets the maximum age of a stored response that is used without validation; nil for any age.
    public func maxCacheAge(_ age: Duration?) -> Self { changedCache { $0.maxAge = age } }

    /// Sets how long a stored response may be stale and still be used without validation.
    ///
    /// Nil, the default, allows only the staleness that the response itself allows.
    ///
    /// A response that forbids stale use (`must-revalidate`, `no-cache`) is still validated.
    public func maxCacheStaleness(_ staleness: Duration?) -> Self { changedCache { $0.maxStaleness = staleness } }

    package var cacheOptions: CacheOptions? { core.policyBox?.policies.cache }

    private func changedCache(_ change: (inout CacheOptions) -> Void) -> Self {
        changed { core in
            var options = core.policies.cache ?? CacheOptions()
            change(&options)
            core.policies.cache = options
        }
    }
}
