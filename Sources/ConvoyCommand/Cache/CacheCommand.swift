import Convoy
import ConvoyCache
import ConvoyHTTPFile
import Foundation

struct CacheCommand {
    let lookup: CacheLookup
    private let console = Console(allowsLive: false)
    private let directory: URL
    private let cache: HTTPCache

    private init(_ lookup: CacheLookup, _ directory: URL) {
        (self.lookup, self.directory) = (lookup, directory)
        // The capacity is unlimited, so that the command evicts nothing.
        cache = HTTPCache(directory: directory, capacity: 1 << 60)
    }

    // The command creates no directory, because the name may be misspelt.
    static func run(_ lookup: CacheLookup) throws(UsageError) -> ExitStatus {
        let directory = URL(filePath: lookup.directory, directoryHint: .isDirectory).absoluteURL
        var defect: String?
        if !HTTPCache.isThere(in: directory) {
            defect =
                "no cache exists in \(directory.path); convoy fetch --cache URL creates one, "
                + "--cache=DIR in another directory"
        } else if HTTPCache.isLocked(in: directory) {
            defect = "another process has locked the cache in \(directory.path); try again when it has ended"
        }
        if let defect {
            Console(allowsLive: false).printError("convoy: \(defect)", isFailure: true)
            return .failure
        }
        let command = CacheCommand(lookup, directory)
        return command.console.status(after: try command.run())
    }

    private func run() throws(UsageError) -> ExitStatus {
        switch lookup.verb {
        case .status: printStatus()
        case .list:
            let entries = entries
            guard !entries.isEmpty || lookup.pattern == nil else { return failUnmatched() }
            tell(entries) { $0.line }
        case .show:
            let entries = entries
            guard !entries.isEmpty else { return fail("the cache has no response for \(url)") }
            tell(entries, isWhole: true) { $0.text }
        case .why: try explain()
        case .remove, .clear: return remove()
        }
        return .success
    }

    private var entries: [CacheEntry] {
        let isMeant = lookup.pattern?.matcher(in: cache) ?? { _ in true }
        return cache.entries(matching: isMeant).sorted { ($0.key, $1.received) < ($1.key, $0.received) }
    }

    private var url: String { lookup.fetch.urls.first?.redactedString ?? "it" }

    private func fail(_ message: String) -> ExitStatus {
        console.printError("convoy: \(message)", isFailure: true)
        return .failure
    }

    private func failUnmatched() -> ExitStatus { fail("no stored response has a matching URL") }

    private func tell(_ entries: [CacheEntry], isWhole: Bool = false, _ text: (CacheEntry) -> String) {
        for entry in entries {
            console.printLine(lookup.fetch.isJSON ? entry.json(isWhole: isWhole).json : text(entry))
        }
    }

    private func printStatus() {
        let (entries, statistics) = (entries, cache.statistics)
        let freshCount = entries.count { $0.freshUntil > Date() }
        guard !lookup.fetch.isJSON else {
            let status: JSONValue = [
                "directory": .string(directory.path), "entries": JSONValue(entries.count),
                "fresh": JSONValue(freshCount), "bytes": .integer(statistics.storedBytes),
            ]
            return console.printLine(status.json)
        }
        console.printLine("directory  \(directory.path)")
        console.printLine("responses  \(entries.count), \(freshCount) of them fresh")
        console.printLine("bytes      \(Figures.bytes(statistics.storedBytes))")
    }

    private func explain() throws(UsageError) {
        guard let url = lookup.fetch.urls.first else { return }
        let request = Request<Data>(lookup.fetch.sending, for: url).limited(by: lookup.fetch)
        let explanation: CacheExplanation
        do throws(RequestError) { explanation = try cache.explanation(of: request) } catch {
            throw UsageError(error.message)
        }
        console.printLine(lookup.fetch.isJSON ? explanation.json(for: url).json : explanation.text)
    }

    private func remove() -> ExitStatus {
        let before = entries
        guard !before.isEmpty || lookup.verb == .clear else { return failUnmatched() }
        let isMeant = lookup.pattern?.matcher(in: cache)
        if let isMeant { cache.remove(matching: isMeant) } else { cache.removeAll() }
        let left = Set(entries)
        let removed = before.filter { !left.contains($0) }
        let bytes = removed.reduce(0) { $0 + $1.bodyBytes }
        if lookup.fetch.isJSON {
            let json: JSONValue = ["removed": JSONValue(removed.count), "bytes": .integer(bytes)]
            console.printLine(json.json)
        } else {
            console.printLine(
                "removed \(Figures.count(removed.count, "response")), \(Figures.bytes(bytes)), from \(directory.path)")
        }
        let rest = before.count - removed.count
        return rest == 0
            ? .success
            : fail(
                "\(Figures.count(rest, "response")) could not be removed; make \(directory.path) writable, or try again "
                    + "when no other process changes the cache")
    }
}

extension CacheEntry {
    private var shownURL: String { SecretWords.standard.redacted(reference: String(key.prefix { $0 != "#" })) }

    private var host: String? { key.range(of: CacheKey.hostMark).map { String(key[$0.upperBound...]) } }

    private var freshness: String {
        let seconds = freshUntil.timeIntervalSinceNow
        return seconds > 0 ? "fresh for \(Figures.time(.seconds(seconds)))" : "stale"
    }

    private var size: String { Figures.bytes(bodyBytes) + (isComplete ? "" : " of it") }

    var line: String {
        let vary = varyingFields.isEmpty ? "" : "  varies by \(varyingFields.joined(separator: ", "))"
        return "\(statusCode)  \(size)  \(freshness)  \(shownURL)\(host.map { "  host \($0)" } ?? "")\(vary)"
    }

    var text: String {
        var lines = [
            shownURL, "  status       \(statusCode)", "  body         \(size)",
            "  received     \(received.formatted(.iso8601))",
            "  fresh until  \(freshUntil.formatted(.iso8601)), \(freshness)",
        ]
        if let host { lines.append("  host         \(host)") }
        if !varyingFields.isEmpty { lines.append("  varies by    \(varyingFields.joined(separator: ", "))") }
        return (lines + headerFields.map { "  " + $0.shown }).joined(separator: "\n")
    }

    func json(isWhole: Bool) -> JSONValue {
        var json: JSONValue = [
            "url": .string(shownURL), "status": JSONValue(statusCode), "bytes": .integer(bodyBytes),
            "complete": .bool(isComplete), "received": JSONValue(received),
            "fresh_until": JSONValue(freshUntil), "fresh": .bool(freshUntil > Date()),
            "vary": JSONValue(varyingFields),
        ]
        if let host { json.append("host", .string(host)) }
        if isWhole { json.append("header_fields", .array(headerFields.map { .string($0.shown) })) }
        return json
    }
}

extension CacheExplanation {
    private var outcome: String {
        switch (isAnswered, status.forward) {
        case (true, .miss): "not sent: the cache has no usable response, so the status would be 504"
        case (true, _): "served from the cache: no request would be sent"
        case (false, .bypass): "sent to the server: the cache is not used"
        case (false, let reason): "sent to the server (\(reason?.rawValue ?? "miss"))"
        }
    }

    var text: String {
        let width = (rules.map(\.section.count).max() ?? 0) + 2
        let lines = rules.map { "  \($0.section.padding(toLength: width, withPad: " ", startingAt: 0))\($0.text)" }
        let added = addedFields.map { "  sent with: \($0.shown)" }
        return ([outcome] + lines + added).joined(separator: "\n")
    }

    func json(for url: URL) -> JSONValue {
        [
            "url": .string(url.redactedString), "answered": .bool(isAnswered),
            "cache_status": .string(status.description),
            "entry": entry.map { $0.json(isWhole: false) } ?? .null,
            "sent_with": .array(addedFields.map { .string($0.shown) }),
            "rules": .array(rules.map { ["section": .string($0.section), "text": .string($0.text)] }),
        ]
    }
}

extension StoredURLPattern {
    func matcher(in cache: HTTPCache) -> @Sendable (CacheEntry) -> Bool {
        switch self {
        case .urls(let urls):
            let keys = urls.map { cache.key(of: $0) }
            // For a request with a `Host` field, the key continues with `hostMark` and the host. The prefix selects it.
            return { entry in keys.contains { entry.key == $0 || entry.key.hasPrefix($0 + CacheKey.hostMark) } }
        case .glob(let pattern):
            return { entry in
                // In the key, `#` ends the URL. A digest of user and password, or a host, may follow.
                let url = String(entry.key.prefix { $0 != "#" })
                let scheme = url.range(of: "://")?.upperBound ?? url.startIndex
                return String(pattern.contains("://") ? url[...] : url[scheme...]).matches(pattern: pattern)
            }
        }
    }
}
