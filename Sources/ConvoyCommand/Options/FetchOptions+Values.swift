// Values of options of `convoy fetch`.
import Convoy
import Foundation

extension FetchOptions {
    /// The default directory of the cache, as text for the help.
    static let cacheDefault = "convoy/http in $XDG_CACHE_HOME or ~/.cache"

    /// The choices of `--cache-policy`, in the order of the help.
    static let policies: KeyValuePairs<String, CachePolicy> = [
        "standard": .standard, "reload": .reload, "revalidate": .revalidate, "prefer-cache": .preferCache,
        "only-cache": .onlyCache, "no-store": .noStore,
    ]

    /// The directory of the cache.
    ///
    /// - Parameter value: a directory; empty for the default.
    static func cacheDirectory(_ value: String, _ environment: [String: String]) throws(UsageError) -> String {
        let home = environment["HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil }
        // A shell does not expand a tilde after an equals sign, so it is expanded here.
        if value.hasPrefix("~/"), let home { return home + value.dropFirst() }
        guard value.isEmpty else { return value }
        if let caches = environment["XDG_CACHE_HOME"], caches.hasPrefix("/") { return caches + "/convoy/http" }
        guard let home else {
            throw UsageError(
                "has no default directory, because neither HOME nor XDG_CACHE_HOME is set; write --cache=DIR")
        }
        return home + "/.cache/convoy/http"
    }

    static func transport(named name: String) throws(UsageError) -> TransportChoice {
        guard name == "curl" else { return .urlSession }
        #if os(Linux)
            return .custom(CurlTransport.shared)
        #else
            throw UsageError("takes only urlsession on this platform: the curl transport is available on Linux")
        #endif
    }
}
