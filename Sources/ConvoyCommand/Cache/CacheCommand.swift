// `convoy cache`: shows and removes stored responses, and explains the cache's decisions.
import Convoy
import ConvoyCache
import ConvoyHTTPFile
import Foundation

/// Runs `convoy cache`.
struct CacheCommand {
    let lookup: CacheLookup
    private let console = Console(allowsLive: false)
    private let directory: URL
    private let cache: HTTPCache

    init(_ lookup: CacheLookup) {
        self.lookup = lookup
        directory = URL(filePath: lookup.directory, directoryHint: .isDirectory).absoluteURL
        // The capacity is unlimited, so that the command evicts nothing.
        cache = HTTPCache(directory: directory, capacity: 1 << 60)
    }

    /// Runs the command if the directory contains a cache that no other process has locked.
    ///
    /// The command creates no directory, because the name may be misspelt.
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
        let command = CacheCommand(lookup)
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

    /// Removes the selected responses, and reports how many were removed and how many could not be.
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
