// What `convoy fetch` was asked for.
import Convoy
import Foundation

/// The options of a fetch, checked.
struct FetchOptions: Sendable {
    /// Where the list of URLs comes from.
    enum Input: Equatable, Sendable {
        case standardInput
        case file(String)
    }

    static let defaultJobs = 8
    static let defaultPerHost = 6
    /// Each takes a socket and a file: more would meet the usual limit of 1,024 descriptors.
    static let jobsRange = 1...256
    static let defaultRetries = 3
    static let retriesRange = 0...1_000
    static let segmentsRange = 1...16
    /// The time over which ``minimumSpeed`` is measured.
    static let minimumSpeedWindow = Duration.seconds(30)

    var urls: [URL] = []
    /// Of the only URL.
    var digest: FileDigest?
    var input: Input?
    private(set) var directory = "."
    /// Made once: whoever makes a URL of a relative path asks for the working directory.
    private(set) var directoryURL = URL(filePath: ".", directoryHint: .isDirectory).absoluteURL
    /// Whether the server names the files that the list does not name.
    var takesProposedNames = false
    /// What was asked for; see ``existing(for:)``.
    var existing: ExistingFile?
    var discards = false
    var jobs = defaultJobs
    var perHost = defaultPerHost
    var segments = 1
    /// How many requests may be in flight, however many jobs with however many segments there are.
    var mostRequests = jobsRange.upperBound
    var retries = defaultRetries
    /// For each request, everything included; nil for as long as it takes.
    var deadline: Duration?
    /// Bytes per second of all together.
    var maxRate: Int64?
    /// Bytes per second of each, over ``minimumSpeedWindow``.
    var minimumSpeed: Int64?
    /// Marked as secret where they must not go to another origin and the library cannot know.
    var headerFields = HeaderFields()
    var isQuiet = false
    var isJSON = false
    /// Whether codings are asked for and undone; else files are stored as they are sent.
    var isCompressed = false
    var transport = TransportChoice.automatic
}

extension FetchOptions {
    /// What a redirect takes along to another origin, except for `Host`, which stays and is no secret.
    ///
    /// All others may be keys: X-Api-Key, Private-Token and their like have nothing in common.
    private static let openFields: Set = [
        "accept", "accept-charset", "accept-encoding", "accept-language", "cache-control", "host", "pragma", "range",
        "user-agent",
    ]

    /// Reads a command line; nil when it asks for help.
    init?(parsing arguments: [String]) throws(UsageError) {
        let scanned = try OptionScanner(options: Self.table, command: "fetch").scan(arguments)
        if scanned.has(.help) { return nil }
        transport = try Self.transport(named: scanned.choice(.transport))
        input = scanned.value(of: .input).map { $0 == "-" ? .standardInput : .file($0) }
        directory = scanned.value(of: .outputDirectory) ?? directory
        directoryURL = URL(filePath: directory, directoryHint: .isDirectory).absoluteURL
        takesProposedNames = scanned.has(.contentDisposition)
        existing = try scanned.choice(.existing).flatMap(ExistingFile.init)
        discards = scanned.has(.discard)
        isCompressed = scanned.has(.compressed)
        jobs = try scanned.number(.jobs, in: Self.jobsRange) ?? jobs
        perHost = try scanned.number(.perHost, in: Self.jobsRange) ?? perHost
        segments = try scanned.number(.segments, in: Self.segmentsRange) ?? segments
        retries = try scanned.number(.retries, in: Self.retriesRange) ?? retries
        deadline = try scanned.seconds(.deadline)
        maxRate = try scanned.bytes(.rate)
        minimumSpeed = try scanned.bytes(.minSpeed)
        isQuiet = scanned.has(.quiet)
        isJSON = scanned.has(.json)
        if isQuiet, isJSON { throw Self.error("--quiet and --json exclude each other") }
        for field in scanned.values(of: .header) { try addHeaderField(field) }
        for (index, operand) in scanned.operands.enumerated() {
            switch InputLine(url: operand) {
            case .request(let url, _, _): urls.append(url)
            case .broken(let reason):
                let why = operand.contains("://") ? reason : "it does not begin with http:// or https://"
                // What has an at sign may hold a password.
                let text = operand.contains("@") ? "" : " \(operand.debugDescription)"
                throw Self.error("URL \(index + 1)\(text): \(why)")
            case .blank: throw Self.error("URL \(index + 1) is empty")
            }
        }
        if urls.isEmpty, input == nil { throw Self.error("there is no URL, and no list of them (--input)") }
        digest = try FileDigest(scanned, fileCount: input == nil ? urls.count : nil)
        if segments > 1, isCompressed {
            throw Self.error("--segments and --compressed exclude each other: parts of a coded body cannot be decoded")
        }
        if segments > 1, discards || takesProposedNames {
            let other = discards ? "--discard" : "--content-disposition"
            throw Self.error("--segments writes into files whose names are known before: leave out \(other)")
        }
    }

    /// What happens when the file of an item exists.
    ///
    /// Unless asked for, it is replaced: nobody can tell whether it is what the URL leads to. A name that a server chose
    /// replaces nothing.
    func existing(for item: FetchItem) -> ExistingFile {
        existing ?? (takesProposedNames && !item.isNamed ? .rename : .overwrite)
    }

    private static func error(_ message: String) -> UsageError { UsageError(message, command: "fetch") }

    private static func transport(named name: String?) throws(UsageError) -> TransportChoice {
        switch name {
        case "urlsession": return .urlSession
        case "curl":
            #if os(Linux)
                return .custom(CurlTransport.shared)
            #else
                throw error("the transport curl is there on Linux only")
            #endif
        default: return .automatic
        }
    }

    /// Never tells the value: it may be a secret.
    private mutating func addHeaderField(_ text: String) throws(UsageError) {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2 else { throw Self.error("--header takes 'Name: value', and got no colon") }
        let name = parts[0].trimmingCharacters(in: .whitespaces)
        // Line ends are not trimmed away: they make the request invalid, and that is told.
        let value = String(parts[1]).trimmingCharacters(in: .whitespaces)
        if let defect = Request<Data>.get("http://localhost/").header(name, value).defect {
            throw Self.error("--header: \(defect)")
        }
        let isSecretByName = HeaderFields.Field(name: name, value: value).isSecret
        headerFields.add(name, value, isSecret: !isSecretByName && !Self.openFields.contains(name.lowercased()))
    }
}
