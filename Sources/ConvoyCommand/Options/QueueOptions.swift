import Convoy
import ConvoyQueue
import Foundation

struct QueueOptions: Sendable {
    struct JobWishes: Sendable {
        var id: String?
        var kind = "request"
        var dependencies: [String] = []
        var priority = Operation.QueuePriority.normal
        var notBefore: Date?
        var expires: Date?
        var group: String?
        var tags: Set<String> = []
        var key: String?
        var policy = Job.Uniqueness.Policy.keep
        var followsRedirectsAsGet = false
    }

    private(set) var verb = QueueVerb.status
    /// A file, or the address of a PostgreSQL database, which may contain a password.
    var database = ""
    var wishes = JobWishes()
    var selection = JobSelection()
    var meansAll = false
    var limit = Int.max
    var watches = false
    var fetch = FetchOptions()
    var hasRetries = false
}

extension QueueOptions {
    init?(parsing arguments: [String], environment: [String: String] = [:]) throws(UsageError) {
        let words = "convoy queue " + QueueVerb.allCases.map(\.rawValue).joined(separator: "|") + " --db FILE"
        guard let verb = try QueueVerb(beginning: arguments, usage: words),
            let parsed = try ParsedOptions(.queue(verb), Array(arguments.dropFirst()), environment: environment)
        else { return nil }
        self = parsed.queue
        (self.verb, fetch) = (verb, parsed.fetch)
        guard !database.isEmpty else {
            throw UsageError(
                "the queue is missing; name its file with --db FILE, or --db postgres://user@host/database")
        }
        try parsed.checkFiles()
        try take(parsed.operands)
        try checkTogether()
    }

    private mutating func take(_ operands: [String]) throws(UsageError) {
        if verb == .add {
            for (index, operand) in operands.enumerated() {
                fetch.urls.append(try InputLine.url(operand, called: "URL \(index + 1)"))
            }
        } else if verb.selects {
            if !operands.isEmpty { selection.ids = Set(operands) }
        } else if let operand = operands.first {
            throw UsageError("\(verb.rawValue) takes only options, not \(operand.debugDescription)")
        }
    }

    private mutating func checkTogether() throws(UsageError) {
        if fetch.isQuiet, fetch.isJSON { throw .exclusion("--quiet", "--json") }
        let others = ["accept", "accept-encoding", "host", "user-agent"].filter(fetch.sending.omits)
        if let name = others.first {
            throw UsageError("a job cannot omit the \(name) field, which its worker adds: give the field a value")
        }
        switch verb {
        case .add: try checkAdding()
        case .retry, .cancel, .delete:
            guard meansAll != (selection != .all) else {
                throw UsageError(
                    meansAll
                        ? "--all selects every job: remove the ids, --kind, --state, --tag and --group"
                        : "the jobs are missing: write their ids, --kind, --state, --tag or --group; --all selects every job"
                )
            }
        case .run, .status, .list, .why, .export: break
        }
        if verb == .retry, let states = selection.states, states != [.dead] {
            throw UsageError("only dead letters are sent again; remove --state")
        }
        if verb == .delete, let state = selection.states?.first(where: { !$0.isFinished }) {
            throw UsageError("only done, dead and cancelled jobs are deleted; remove --state \(state.rawValue)")
        }
    }

    private mutating func checkAdding() throws(UsageError) {
        try fetch.checkSources()
        guard let output = fetch.paths.last else { return }
        guard output != "-" else {
            throw UsageError("-o - is for convoy fetch: the response to a job is written to a file")
        }
        guard !FetchOptions.isDirectory(output), !output.hasSuffix("/") else {
            throw UsageError("-o \(output): a job needs the name of a file; for a directory, write -P \(output)")
        }
        guard fetch.urls.count == 1, fetch.input == nil else {
            throw UsageError("-o names the file of a single URL; for several, write -P DIR")
        }
        var status = stat()
        guard stat(output, &status) != 0 || status.st_mode & S_IFMT == S_IFREG else {
            throw UsageError("-o \(output): the response to a job needs a regular file")
        }
    }
}

enum DatabaseAddress {
    // The command does not use such a text as a file name.
    static func mayHoldPassword(_ text: String) -> Bool {
        let lower = text.lowercased()
        let user = lower.prefix { $0 != "/" }.split(separator: "@", omittingEmptySubsequences: false)
        return lower.contains("password=") || lower.hasPrefix("postgres:") || lower.hasPrefix("postgresql:")
            || user.count > 1 && user[0].contains(":")
    }

    /// Overwrites database addresses in the arguments of the process, which other users can read (`ps`).
    static func hide(in arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>, _ count: Int32) {
        for index in 1..<max(1, Int(count)) {
            guard let argument = arguments[index] else { continue }
            let text = String(cString: argument)
            let isValue = text.hasPrefix("--db=") || arguments[index - 1].map { String(cString: $0) } == "--db"
            guard isValue, text.contains("://") || mayHoldPassword(String(text.trimmingPrefix("--db="))) else {
                continue
            }
            let start = text.hasPrefix("--db=") ? 5 : 0
            for place in start..<max(start, strlen(argument)) { argument[place] = CChar(UInt8(ascii: "*")) }
        }
    }
}
