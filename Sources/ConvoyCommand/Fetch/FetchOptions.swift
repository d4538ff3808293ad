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

    var urls: [URL] = []
    var input: Input?
    var directory = "."
    var discards = false
    var jobs = defaultJobs
    var perHost = defaultPerHost
    var retries = defaultRetries
    /// For each request, everything included; nil for as long as it takes.
    var deadline: Duration?
    /// Marked as secret where they must not go to another origin and the library cannot know.
    var headerFields = HeaderFields()
    var isQuiet = false
    var isJSON = false
    var transport = TransportChoice.automatic
}

extension FetchOptions {
    private static let inputOption = Option(name: "input", short: "i", takesValue: true)
    private static let directoryOption = Option(name: "output-dir", short: "o", takesValue: true)
    private static let discardOption = Option(name: "discard", short: nil, takesValue: false)
    private static let jobsOption = Option(name: "jobs", short: "j", takesValue: true)
    private static let perHostOption = Option(name: "per-host", short: nil, takesValue: true)
    private static let retriesOption = Option(name: "retries", short: nil, takesValue: true)
    private static let deadlineOption = Option(name: "deadline", short: nil, takesValue: true)
    private static let headerOption = Option(name: "header", short: nil, takesValue: true)
    private static let transportOption = Option(name: "transport", short: nil, takesValue: true)
    private static let quietOption = Option(name: "quiet", short: nil, takesValue: false)
    private static let jsonOption = Option(name: "json", short: nil, takesValue: false)
    /// What a redirect takes along to another origin, except for `Host`, which stays and is no secret.
    ///
    /// All others may be keys: X-Api-Key, Private-Token and their like have nothing in common.
    private static let openFields: Set = [
        "accept", "accept-charset", "accept-encoding", "accept-language", "cache-control", "host", "pragma", "range",
        "user-agent",
    ]
    /// Known, so that they can be refused with the true reason.
    private static let laterOptions = [Option(name: "sha256", short: nil, takesValue: true)]

    /// Reads a command line; nil when it asks for help.
    init?(parsing arguments: [String]) throws(UsageError) {
        let options: [Option] = [
            Self.inputOption, Self.directoryOption, Self.discardOption, Self.jobsOption, Self.perHostOption,
            Self.retriesOption, Self.deadlineOption, Self.headerOption, Self.transportOption, Self.quietOption,
            Self.jsonOption, .help,
        ]
        let scanned = try OptionScanner(options: options + Self.laterOptions, command: "fetch").scan(arguments)
        if scanned.has(.help) { return nil }
        if let later = Self.laterOptions.first(where: { scanned.has($0) }) {
            throw Self.error("the option --\(later.name) is not in this version")
        }
        transport = try Self.transport(named: scanned.value(of: Self.transportOption))
        input = scanned.value(of: Self.inputOption).map { $0 == "-" ? .standardInput : .file($0) }
        directory = scanned.value(of: Self.directoryOption) ?? directory
        discards = scanned.has(Self.discardOption)
        jobs = try Self.number(Self.jobsOption, in: Self.jobsRange, of: scanned) ?? jobs
        perHost = try Self.number(Self.perHostOption, in: Self.jobsRange, of: scanned) ?? perHost
        retries = try Self.number(Self.retriesOption, in: Self.retriesRange, of: scanned) ?? retries
        deadline = try Self.seconds(Self.deadlineOption, of: scanned)
        isQuiet = scanned.has(Self.quietOption)
        isJSON = scanned.has(Self.jsonOption)
        if isQuiet, isJSON { throw Self.error("--quiet and --json exclude each other") }
        for field in scanned.values(of: Self.headerOption) { try addHeaderField(field) }
        for (index, operand) in scanned.operands.enumerated() {
            switch InputLine(url: operand) {
            case .request(let url, _): urls.append(url)
            case .broken(let reason):
                let why = operand.contains("://") ? reason : "it does not begin with http:// or https://"
                // What has an at sign may hold a password.
                let text = operand.contains("@") ? "" : " \(operand.debugDescription)"
                throw Self.error("URL \(index + 1)\(text): \(why)")
            case .blank: throw Self.error("URL \(index + 1) is empty")
            }
        }
        if urls.isEmpty, input == nil { throw Self.error("there is no URL, and no list of them (--input)") }
    }

    private static func error(_ message: String) -> UsageError { UsageError(message, command: "fetch") }

    private static func transport(named name: String?) throws(UsageError) -> TransportChoice {
        switch name {
        case nil: return .automatic
        case "urlsession": return .urlSession
        case "curl":
            #if os(Linux)
                return .custom(CurlTransport.shared)
            #else
                throw error("the transport curl is there on Linux only")
            #endif
        case let name?: throw error("there is no transport \(name.debugDescription); there are curl and urlsession")
        }
    }

    private static func number(
        _ option: Option, in range: ClosedRange<Int>, of scanned: ScannedArguments
    ) throws(UsageError) -> Int? {
        guard let text = scanned.value(of: option) else { return nil }
        guard let number = Int(text), range.contains(number) else {
            let range = "\(range.lowerBound) to \(range.upperBound)"
            throw error("--\(option.name) takes a number from \(range), not \(text.debugDescription)")
        }
        return number
    }

    private static func seconds(_ option: Option, of scanned: ScannedArguments) throws(UsageError) -> Duration? {
        guard let text = scanned.value(of: option) else { return nil }
        // Not everything that Double reads: no exponents, no hexadecimal digits, no infinity.
        let isPlain = text.utf8.allSatisfy { (0x30...0x39).contains($0) || $0 == 0x2E }
        guard isPlain, let seconds = Double(text), seconds > 0 else {
            let wanted = "a number of seconds above 0, such as 30 or 2.5"
            throw error("--\(option.name) takes \(wanted), not \(text.debugDescription)")
        }
        // Thirty years are for ever, and a duration holds no more than some billions of them.
        return .seconds(min(seconds, 1e9))
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
