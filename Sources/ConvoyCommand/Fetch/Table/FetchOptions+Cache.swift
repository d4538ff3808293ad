// The cache options, and the directory of the cache.
import Convoy
import ConvoyCache
import Foundation

extension FetchOptions {
    /// The default directory of the cache, as text for the help.
    static let cacheDefault = "convoy/http in $XDG_CACHE_HOME or ~/.cache"

    private static let policies: [(word: String, policy: CachePolicy)] = [
        ("standard", .standard), ("reload", .reload), ("revalidate", .revalidate), ("prefer-cache", .preferCache),
        ("only-cache", .onlyCache), ("no-store", .noStore),
    ]

    static let cacheOptions: [Option] = [
        Option(
            "cache", value: .optionalDirectory("DIR"), .cache, summary: "answer from stored responses",
            detail: "answer from stored responses where HTTP allows it, and store what comes, in DIR (default: "
                + "\(cacheDefault)); see convoy help cache. Not for --segments and --mirror"
        ) { options, value throws(UsageError) in
            options.cacheDirectory = try cacheDirectory(value, ProcessInfo.processInfo.environment)
        },
        Option(
            "cache-policy", value: .choice("NAME", among: policies.map(\.word)), .cache,
            summary: "how stored responses are used",
            detail:
                "how stored responses are used: standard (the default), reload, revalidate, prefer-cache, "
                + "only-cache or no-store; see convoy help cache"
        ) { options, value throws(UsageError) in
            let word = try OptionValues.choice(value, among: policies.map(\.word))
            options.cachePolicy = policies.first { $0.word == word }?.policy
        },
        Option(
            "cache-size", value: .text("BYTES"), .cache, summary: "bytes that may be stored",
            detail: "bytes that may be stored, such as 500M (default: 1GiB)"
        ) { options, value throws(UsageError) in options.cacheBytes = try OptionValues.bytes(value, "bytes") },
    ]

    /// - Parameter value: a directory; empty for the default.
    static func cacheDirectory(_ value: String, _ environment: [String: String]) throws(UsageError) -> String {
        let home = environment["HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil }
        // A shell does not expand a tilde after an equals sign.
        if value.hasPrefix("~/"), let home { return home + value.dropFirst() }
        guard value.isEmpty else { return value }
        if let caches = environment["XDG_CACHE_HOME"], caches.hasPrefix("/") { return caches + "/convoy/http" }
        guard let home else {
            throw UsageError("has no default: neither HOME nor XDG_CACHE_HOME is set; write --cache=DIR")
        }
        return home + "/.cache/convoy/http"
    }

    /// The cache; nil without one.
    func makeCache(_ warn: (String) -> Void) -> HTTPCache? {
        guard let path = cacheDirectory else { return nil }
        let directory = URL(filePath: path, directoryHint: .isDirectory).absoluteURL
        try? FileManager.default.createDirectory(
            at: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        var status = stat()
        var problem = stat(path, &status) == 0 ? 0 : errno
        if problem == 0, status.st_mode & S_IFMT != S_IFDIR { problem = ENOTDIR }
        if problem == 0, access(path, W_OK | X_OK) != 0 { problem = errno }
        if problem != 0 { warn("nothing is stored in \(path): \(String(cString: strerror(problem)))") }
        return HTTPCache(directory: directory, capacity: cacheBytes)
    }
}

extension HTTPCache {
    /// Waits at most ten seconds until the cache has written all responses.
    func finishStoring() {
        let isOver = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            _ = self.statistics
            isOver.signal()
        }
        _ = isOver.wait(timeout: .now() + 10)
    }
}
