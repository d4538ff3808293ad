import Convoy
import Foundation

struct FetchOptions: Sendable {
    enum Output: Equatable, Sendable {
        case file(String)
        case named
    }

    enum Destination: Equatable, Sendable {
        case files, nowhere, standardOutput
        case device(String)
        case head
    }

    static let defaultJobs = 8
    static let defaultPerHost = 6
    // Each request needs a socket and a file. More requests could reach the usual limit of 1,024 descriptors.
    static let jobsRange = 1...256
    static let defaultRetries = 3
    static let retriesRange = 0...1_000
    static let segmentsRange = 1...16

    var commandLine: String?
    var urls: [URL] = []
    var digest: FileDigest?
    var mirrors: [URL] = []
    var input: String?
    var shard: Shard?
    var base: URL?
    var destination = Destination.files
    var outputs: [Output] = []
    /// Nil means the name from the URL; empty if `-o` names no files.
    var outputNames: [String?] = []
    private(set) var directory = "."
    private(set) var hasDirectory = false
    var makesDirectories = false
    var isFlat = false
    var printsAnswers = false
    var isRawOutput = false
    var keepsRefusals = false
    var includesHeads = false
    var headFile: String?
    var takesServerTime = false
    var expandsURLs = true
    var maxRedirects: Int?
    var retryDelay: Duration?
    var needsHTTPS = false
    var noProxy: String?
    // The URL is stored, because making a URL from a relative path reads the working directory.
    private(set) var directoryURL = URL(filePath: ".", directoryHint: .isDirectory).absoluteURL
    var takesProposedNames = false
    var existing: ExistingFile?
    var jobs = defaultJobs
    var perHost = defaultPerHost
    var segments = 1
    var mostRequests = jobsRange.upperBound
    var retries = defaultRetries
    var deadline: Duration?
    var maxTime: Duration?
    var cacheDirectory: String?
    var cachePolicy: CachePolicy?
    var cacheBytes: Int64 = 1 << 30
    var maxBytes: Int64?
    var maxRate: Int64?
    var minimumSpeed: Int64?
    var minimumSpeedWindow = Duration.seconds(30)
    var sending = SendingOptions()
    var credentials = CredentialOptions()
    var connection = ConnectionOptions()
    var environmentTrust: ConnectionOptions.Trust?
    var isCompressed = false
    var transport = TransportChoice.automatic
    var isQuiet = false
    var isJSON = false
    var isVerbose = false
    var writeOut: WriteOut?
    var archive: String?
    var report: String?
    var failedList: String?

    var discards: Bool { destination != .files }
    var ownsOutput: Bool {
        [.standardOutput, .head].contains(destination) || writeOut != nil || headFile == "-"
    }
    var isOneStream: Bool { if case .device = destination { true } else { destination == .standardOutput } }
    var paths: [String] { outputs.compactMap { if case .file(let path) = $0 { path } else { nil } } }
    var headerFields: HeaderFields { sending.headerFields }
    var usesSegments: Bool { segments > 1 || !mirrors.isEmpty }

    mutating func setDirectory(_ path: String) {
        hasDirectory = true
        directory = path
        directoryURL = URL(filePath: path, directoryHint: .isDirectory).absoluteURL
    }

    static let cacheDefault = "convoy/http in $XDG_CACHE_HOME or ~/.cache"

    static let policies: KeyValuePairs<String, CachePolicy> = [
        "standard": .standard, "reload": .reload, "revalidate": .revalidate, "prefer-cache": .preferCache,
        "only-cache": .onlyCache, "no-store": .noStore,
    ]

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

    mutating func place(_ matches: [[URLGlob.Match]]) throws(UsageError) {
        let paths = paths
        guard let path = paths.last else {
            if printsByHabit {
                destination = .standardOutput
            } else if sending.isUpload, destination == .files, outputs.isEmpty, !hasDirectory {
                // The name from the URL is often that of the uploaded file, which the response must not replace.
                destination = .nowhere
            }
            return
        }
        let isSame = paths.count == outputs.count && paths.allSatisfy { $0 == path }
        if try placeOutside(path, isSame: isSame || urls.count == 1) { return }
        let isOnlyURL = input == nil && urls.count == 1
        if !isOnlyURL, outputs.count > 1 || matches.contains(where: { $0.count > 1 }) {
            return try placeEach(matches)
        }
        try placeOne(path, isOnlyURL: isOnlyURL)
    }

    private var printsByHabit: Bool {
        let namesFiles =
            !outputs.isEmpty || hasDirectory || takesProposedNames || input != nil || existing != nil || usesSegments
            || digest != nil || failedList != nil || takesServerTime
        return destination == .files && !namesFiles && !isJSON && (printsAnswers || sending.sentMethod != .get)
    }

    private mutating func placeOutside(_ path: String, isSame: Bool) throws(UsageError) -> Bool {
        let isStandard = path == "-" || path == "/dev/stdout" || path == "/dev/fd/1"
        guard destination == .files else {
            if isStandard { return true }
            if Self.isDevice(path) {
                if destination == .head { destination = .nowhere }
            } else if destination == .head, urls.count == 1, input == nil, !Self.isDirectory(path) {
                (headFile, destination) = (headFile ?? path, .nowhere)
            } else {
                setDirectory(path)
            }
            return true
        }
        guard isStandard || Self.isDevice(path) else { return false }
        guard isSame, input == nil || path == "/dev/null" else {
            throw UsageError(
                "-o \(path) applies to all URLs of a command line; use it without other -o, and not with a list")
        }
        destination = isStandard ? .standardOutput : path == "/dev/null" ? .nowhere : .device(path)
        return true
    }

    private mutating func placeOne(_ output: String, isOnlyURL: Bool) throws(UsageError) {
        let path = output.hasPrefix("/") || directory == "." ? output : directory + "/" + output
        guard isOnlyURL else { return try setDirectory(ofSeveral: path) }
        guard !Self.isDirectory(path), !path.hasSuffix("/") else { return setDirectory(path) }
        let target = FileType.target(ofLink: path)
        let slash = target.lastIndex(of: "/")
        let name = slash.map { String(target[target.index(after: $0)...]) } ?? target
        try Self.check(name)
        outputNames = [name]
        if let slash { setDirectory(slash == target.startIndex ? "/" : String(target[..<slash])) }
    }

    private mutating func setDirectory(ofSeveral path: String) throws(UsageError) {
        guard makesDirectories || path.hasSuffix("/") || FileType.of(path) != nil else {
            let advice = input == nil ? "write -o once for each URL, or " : ""
            throw UsageError(
                "-o \(path) is not a directory, and is one name for several URLs; \(advice)make the directory: "
                    + "mkdir -p \(path)")
        }
        setDirectory(path)
    }

    // A single `-o` for several operands, or one that names a directory, sets the directory.
    private mutating func placeEach(_ matches: [[URLGlob.Match]]) throws(UsageError) {
        guard input == nil else {
            throw UsageError(
                "several -o name the URLs of a command line; write the names of a list into its second column")
        }
        if case .file(let path)? = outputs.first, outputs.count == 1, matches.count > 1 || Self.isDirectory(path) {
            return try setDirectory(ofSeveral: path)
        }
        for (index, operand) in matches.enumerated() {
            guard index < outputs.count, case .file(let template) = outputs[index] else {
                outputNames += operand.map { _ in nil }
                continue
            }
            let names = operand.map { $0.name(template) }
            guard Set(names.prefix(2)).count == min(2, names.count) else {
                throw UsageError(
                    "-o \(template) is one file, but the URL pattern matches \(operand.count): write #1 where the names "
                        + "differ")
            }
            for name in names {
                try Self.check(name.split(separator: "/", omittingEmptySubsequences: false).last.map(String.init) ?? "")
                let place = name.hasPrefix("/") || directory == "." ? "" : directory + "/"
                let target = FileType.target(ofLink: place + name)
                outputNames.append(target.hasPrefix(place) ? String(target.dropFirst(place.count)) : target)
            }
        }
    }

    // A file that its URL names and that replaces no file counts as an input, which no other output may replace.
    var outputFiles: [NamedFile]? {
        guard destination == .files else { return nil }
        let replaces = ![.fail, .rename, .skip].contains(existing)
        return urls.enumerated().compactMap { index, url in
            let given = outputNames.indices.contains(index) ? outputNames[index] : nil
            guard given != nil || !takesProposedNames else { return nil }
            let name = given ?? FileName.proposed(by: url)
            return NamedFile(
                name: "--output", path: name.hasPrefix("/") ? name : directory + "/" + name,
                use: given != nil || replaces ? .output : .input,
                origin: given == nil ? "the file of URL \(index + 1)" : nil)
        }
    }

    private static func check(_ name: String) throws(UsageError) {
        guard !name.isEmpty, ![".", ".."].contains(name), name.utf8.count <= 255 else {
            throw UsageError("-o needs a file name of 1 to 255 bytes, not \(name.prefix(20).debugDescription)")
        }
    }

    static func isDirectory(_ path: String) -> Bool { FileType.of(path) == S_IFDIR }

    private static func isDevice(_ path: String) -> Bool {
        // These paths name open descriptors of the process, so they count as devices.
        if path == "/dev/stderr" || path.hasPrefix("/dev/fd/") { return true }
        return FileType.of(path).map([S_IFCHR, S_IFBLK, S_IFIFO].contains) ?? false
    }
}

extension FetchOptions {
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

    func checkSources() throws(UsageError) {
        if urls.isEmpty, input == nil { throw UsageError("a URL is missing: write one, or -i FILE for a list") }
        if base != nil, input == nil {
            throw UsageError("--base is for the names in a list; add the list with -i FILE")
        }
        if sending.readsStandardInput, input == "-" {
            throw UsageError("standard input cannot be both the body and the list; put one of them into a file")
        }
    }

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
