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

    var urls: [URL] = []
    var input: Input?
    var directory = "."
    var discards = false
    var jobs = defaultJobs
    var perHost = defaultPerHost
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
    private static let headerOption = Option(name: "header", short: nil, takesValue: true)
    private static let transportOption = Option(name: "transport", short: nil, takesValue: true)
    private static let quietOption = Option(name: "quiet", short: nil, takesValue: false)
    private static let jsonOption = Option(name: "json", short: nil, takesValue: false)
    /// Known, so that they can be refused with the true reason.
    private static let laterOptions = ["retries", "deadline", "sha256"].map {
        Option(name: $0, short: nil, takesValue: true)
    }

    /// Reads a command line; nil when it asks for help.
    init?(parsing arguments: [String]) throws(UsageError) {
        let options: [Option] = [
            Self.inputOption, Self.directoryOption, Self.discardOption, Self.jobsOption, Self.perHostOption,
            Self.headerOption, Self.transportOption, Self.quietOption, Self.jsonOption, .help,
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
        jobs = try Self.number(Self.jobsOption, of: scanned) ?? jobs
        perHost = try Self.number(Self.perHostOption, of: scanned) ?? perHost
        isQuiet = scanned.has(Self.quietOption)
        isJSON = scanned.has(Self.jsonOption)
        if isQuiet, isJSON { throw Self.error("--quiet and --json exclude each other") }
        for field in scanned.values(of: Self.headerOption) { try addHeaderField(field) }
        for (index, operand) in scanned.operands.enumerated() {
            switch InputLine(url: operand) {
            case .request(let url, _): urls.append(url)
            case .broken(let reason): throw Self.error("URL \(index + 1): \(reason)")
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

    private static func number(_ option: Option, of scanned: ScannedArguments) throws(UsageError) -> Int? {
        guard let text = scanned.value(of: option) else { return nil }
        guard let number = Int(text), jobsRange.contains(number) else {
            let range = "\(jobsRange.lowerBound) to \(jobsRange.upperBound)"
            throw error("--\(option.name) takes a number from \(range), not \(text.debugDescription)")
        }
        return number
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
        headerFields.add(name, value)
    }
}
