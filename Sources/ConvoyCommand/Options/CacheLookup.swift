import Convoy
import Foundation

struct CacheLookup: Sendable {
    let verb: CacheVerb
    let directory: String
    private(set) var pattern: StoredURLPattern?
    private(set) var fetch = FetchOptions()

    init?(parsing arguments: [String], environment: [String: String]) throws(UsageError) {
        var arguments = arguments
        if arguments.first == "delete" { arguments[0] = CacheVerb.remove.rawValue }
        let words = "convoy cache " + CacheVerb.allCases.map(\.rawValue).joined(separator: "|")
        guard let verb = try CacheVerb(beginning: arguments, usage: words),
            let parsed = try ParsedOptions(.cache(verb), Array(arguments.dropFirst()))
        else { return nil }
        (self.verb, fetch) = (verb, parsed.fetch)
        do throws(UsageError) {
            directory = try FetchOptions.cacheDirectory(fetch.cacheDirectory ?? "", environment)
        } catch { throw UsageError("--cache \(error.message)") }
        try take(parsed.operands)
    }

    private mutating func take(_ operands: [String]) throws(UsageError) {
        guard verb.operandCount.contains(operands.count) else {
            let number = operands.isEmpty ? "a URL is missing" : "\(operands.count) operands are too many"
            throw UsageError("\(number); write \(verb.usage)")
        }
        guard let operand = operands.first else { return }
        guard [.list, .remove].contains(verb) else {
            fetch.urls = [try InputLine.url(operand, called: "the URL")]
            pattern = .urls(fetch.urls)
            return
        }
        if operand.contains("*") {
            pattern = .glob(operand)
        } else {
            let spellings = operand.contains("://") ? [operand] : ["http://" + operand, "https://" + operand]
            pattern = .urls(
                try spellings.map { (text) throws(UsageError) in try InputLine.url(text, called: "the PATTERN") })
        }
    }
}

enum StoredURLPattern: Sendable {
    case urls([URL])
    /// A URL, optionally without its scheme, in which `*` matches any characters.
    case glob(String)
}
