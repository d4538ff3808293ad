// Parses a command line into options.
import Convoy
import Foundation

extension FetchOptions {
    /// Parses a command line; nil for `--help`.
    ///
    /// - Parameter environment: the variables that may name a configuration file and certificates.
    init?(parsing arguments: [String], environment: [String: String] = [:]) throws(UsageError) {
        guard let parsed = try ParsedOptions(.fetch, arguments, environment: environment) else { return nil }
        self = parsed.fetch
        let operands = parsed.operands
        var matches: [[URLGlob.Match]] = []
        for (index, operand) in operands.enumerated() {
            do throws(UsageError) { matches.append(try add(operand.trimmed)) } catch {
                // A text with an at sign may contain a password, so it is not quoted.
                let text = operand.contains("@") || operand.isEmpty ? "" : " \(operand.debugDescription)"
                throw UsageError("URL \(index + 1)\(text)\(error.message)")
            }
        }
        try checkSources()
        try place(matches)
        try sending.moveToQuery(&urls, hasList: input != nil)
        try sending.nameUploads(&urls, hasList: input != nil)
        try parsed.checkFiles(outputs: outputFiles)
        try checkTogether()
    }

    /// Adds the URLs of an operand.
    ///
    /// - Returns: the URLs of the operand, each with the values of its patterns.
    private mutating func add(_ operand: String) throws(UsageError) -> [URLGlob.Match] {
        if !operand.contains("://"), operand != "-", access(operand, F_OK) == 0 {
            let advice =
                Self.isDirectory(operand)
                ? "a directory of that name exists; to save files in it write -P \(operand)"
                : "a file of that name exists; to read URLs from it write -i \(operand)"
            throw UsageError(
                ": \(advice), to fetch from a host of that name https://\(operand)\(hint(for: operand))")
        }
        let matches: [URLGlob.Match]
        do throws(UsageError) {
            matches = expandsURLs ? try URLGlob(operand).matches : [URLGlob.Match(url: operand, choices: [])]
        } catch { throw UsageError(": \(error.message)") }
        for match in matches {
            switch InputLine(url: match.url) {
            case .request(let entry): urls.append(entry.url)
            case .broken(let reason): throw UsageError(": \(reason)\(hint(for: operand))")
            case .blank where operand.isEmpty: throw UsageError(" is empty; perhaps a shell variable is not set")
            case .blank: throw UsageError(": it is not a URL\(hint(for: operand))")
            }
        }
        return matches
    }

    /// A hint for an operand that was probably meant as the value of an option, as in another program.
    private func hint(for operand: String) -> String {
        if Int(operand) != nil, isQuiet { return "; aria2's -s \(operand) is --segments \(operand)" }
        if outputs.contains(.named), !operand.contains("/") { return "; wget's -O NAME is -o NAME" }
        if cacheDirectory != nil {
            return "; a cache directory needs an equals sign: --cache=\(operand)"
        }
        if isJSON, let first = operand.first, "{[@".contains(first) {
            return "; curl's --json DATA is --json-body DATA"
        }
        return ""
    }

    /// Checks the URLs, the list and its options.
    func checkSources() throws(UsageError) {
        if urls.isEmpty, input == nil { throw UsageError("a URL is missing: write one, or -i FILE for a list") }
        if base != nil, input == nil {
            throw UsageError("--base is for the names in a list; add the list with -i FILE")
        }
        if sending.readsStandardInput, input == "-" {
            throw UsageError("standard input cannot be both the body and the list; put one of them into a file")
        }
    }

    /// Checks for options that exclude or require each other.
    private func checkTogether() throws(UsageError) {
        if isQuiet, isJSON { throw .exclusion("--quiet", "--json") }
        if isJSON, ownsOutput {
            let other =
                destination == .head ? "--head" : writeOut != nil ? "--write-out" : headFile == "-" ? "-D -" : "-o -"
            throw UsageError("--json and \(other) both write to standard output; remove one of them")
        }
        if shard != nil, let input, let failedList, NamedFile.isSame(input, failedList) {
            throw UsageError(
                "--input and --save-failed name the same file, \(input), which the other shards need: name another file "
                    + "with --save-failed")
        }
        if let digest { try check(digest) }
        if needsHTTPS, input != nil {
            throw UsageError("--proto checks only URLs of the command line, not those of a list: remove --proto")
        }
        if needsHTTPS, let url = (urls + mirrors).first(where: { $0.scheme != "https" }) {
            throw UsageError("--proto allows only https, but \(url.redactedString) is not an https URL: remove --proto")
        }
        if sending.isHead, sending.body != nil {
            throw UsageError("--head sends a request without a body; remove --data, --json-body and --form")
        }
        if includesHeads, destination != .standardOutput {
            throw UsageError("--include prints header fields before a body on standard output; with files use -D FILE")
        }
        if let noProxy, noProxy != "*", case .server = connection.proxy {
            throw UsageError("--noproxy and --proxy exclude each other: set https_proxy instead of --proxy")
        }
        if !mirrors.isEmpty, digest == nil || urls.count != 1 || input != nil {
            throw UsageError("--mirror needs one URL and its digest, which verifies the joined parts: add --sha256 HEX")
        }
        if usesSegments { try checkSegments() }
        try checkCache()
    }

    func checkCache() throws(UsageError) {
        guard cachePolicy != nil, cacheDirectory == nil else { return }
        throw UsageError("--cache-policy needs a cache: add --cache")
    }

    private func checkSegments() throws(UsageError) {
        let what = segments > 1 ? "--segments" : "--mirror"
        if isCompressed {
            throw UsageError(
                "\(what) and --compressed exclude each other: parts of a compressed body cannot be decoded")
        }
        if discards || takesProposedNames {
            let other =
                switch destination {
                case .files: "--content-disposition"
                case .nowhere: "--discard"
                case .standardOutput, .device: "-o -"
                case .head: "--head"
                }
            throw UsageError("\(what) needs file names that are known before the transfer: remove \(other)")
        }
        let others: [(String, Bool)] = [
            ("--request", sending.method.map { $0 != .get } ?? false), ("--range", sending.range != nil),
            ("--newer", sending.newer != nil),
            ("--data, --json-body and --form", sending.body != nil), ("--write-out", writeOut != nil),
        ]
        if let other = others.first(where: \.1) {
            throw UsageError("\(what) requests ranges of a file by GET: remove \(other.0)")
        }
    }

    private func check(_ digest: FileDigest) throws(UsageError) {
        let name = digest.algorithm.rawValue
        guard input == nil, urls.count == 1 else {
            throw UsageError(
                "--\(name) is the digest of one file, but several URLs were given; use a list (--input) with \(name):HEX in its third column"
            )
        }
        guard !discards else {
            let other = destination == .nowhere ? "--discard" : destination == .head ? "--head" : "-o -"
            throw UsageError("--\(name) and \(other) exclude each other: only a file can be verified")
        }
    }
}
