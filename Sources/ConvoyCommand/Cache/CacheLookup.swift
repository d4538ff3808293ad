// The options of `convoy cache`.
import Convoy
import ConvoyCache
import Foundation

/// The checked options of `convoy cache`.
struct CacheLookup: Sendable {
    let verb: CacheVerb
    let directory: String
    /// Selects responses; nil for all.
    private(set) var pattern: StoredURLPattern?
    /// The options shared with `convoy fetch`, for the request of `why`.
    private(set) var fetch = FetchOptions()

    static let table: [Option] =
        [directoryOption]
        + FetchOptions.table.filter { option in CacheVerb.allCases.contains { $0.shared.contains(option.name) } }

    private static let directoryOption = Option(
        "cache", value: .directory("DIR"), .cache, summary: "the directory of the cache",
        detail: "the directory of the cache (default: \(FetchOptions.cacheDefault))")

    /// Parses the arguments after `convoy cache`; nil when they ask for help.
    init?(parsing arguments: [String], environment: [String: String]) throws(UsageError) {
        let words = CacheVerb.allCases.map(\.rawValue)
        guard let word = arguments.first else {
            throw Self.error("there is no command; write convoy cache \(words.joined(separator: "|"))")
        }
        guard let verb = CacheVerb(rawValue: word) else {
            if ["--help", "-h"].contains(word) { return nil }
            let near = words.nearest(to: word).map { "did you mean \($0)?" }
            throw Self.error(
                "there is no command \(word.debugDescription); \(near ?? "write \(words.joined(separator: ", "))")")
        }
        self.verb = verb
        let options = Self.table.filter { $0 == Self.directoryOption || verb.shared.contains($0.name) }
        let scanned = try OptionScanner(options: options, command: "cache").scan(Array(arguments.dropFirst()))
        if scanned.has(.help) { return nil }
        do throws(UsageError) {
            let place = scanned.value(of: Self.directoryOption) ?? ""
            directory = try FetchOptions.cacheDirectory(place, environment)
        } catch { throw Self.error("--cache \(error.message)") }
        for (option, value) in scanned.given where option != Self.directoryOption {
            do throws(UsageError) { try option.apply(&fetch, value) } catch {
                throw Self.error("--\(option.name)\(error.message.hasPrefix(":") ? "" : " ")\(error.message)")
            }
        }
        try take(scanned.operands)
    }

    private mutating func take(_ operands: [String]) throws(UsageError) {
        let needed =
            switch verb.operand {
            case .none: 0...0
            case .pattern(let isNeeded): (isNeeded ? 1 : 0)...1
            case .url: 1...1
            }
        guard needed.contains(operands.count) else {
            let number = operands.isEmpty ? "there is no URL" : "\(operands.count) are too many operands"
            throw Self.error("\(number); write \(verb.usage)")
        }
        guard let operand = operands.first else { return }
        if case .pattern = verb.operand, operand.contains("*") {
            pattern = .glob(operand)
            return
        }
        switch InputLine(url: operand) {
        case .request(let url, _, _, _):
            fetch.urls = [url]
            pattern = .url(url)
        case .broken(let reason): throw Self.error("the URL: \(reason)")
        case .blank: throw Self.error("the URL is empty; is a variable of the shell not set?")
        }
    }

    static func error(_ message: String) -> UsageError { UsageError(message, command: "cache") }
}

/// Selects stored responses by URL.
enum StoredURLPattern: Sendable {
    case url(URL)
    /// A URL, optionally without its scheme, in which `*` matches any characters.
    case glob(String)

    /// Makes a predicate for the entries of a cache.
    func matcher(in cache: HTTPCache) -> @Sendable (CacheEntry) -> Bool {
        switch self {
        case .url(let url):
            let key = cache.key(of: url)
            return { $0.key == key }
        case .glob(let pattern):
            return { entry in
                // The digest of the request's credentials follows the URL in the key.
                let url = String(entry.key.prefix { $0 != "#" })
                let scheme = url.range(of: "://")?.upperBound ?? url.startIndex
                return Self.matches(pattern, pattern.contains("://") ? url[...] : url[scheme...])
            }
        }
    }

    private static func matches(_ pattern: String, _ text: Substring) -> Bool {
        let parts = pattern.split(separator: "*", omittingEmptySubsequences: false)
        guard let first = parts.first, let last = parts.last, text.hasPrefix(first) else { return false }
        var rest = text.dropFirst(first.count)
        for part in parts.dropFirst().dropLast() where !part.isEmpty {
            guard let place = rest.range(of: part) else { return false }
            rest = rest[place.upperBound...]
        }
        return rest.hasSuffix(last)
    }
}
