import Convoy
import ConvoyHTTPFile
import Foundation

struct RunOptions: Sendable {
    // A dash means standard input.
    var file = ""
    var wishes = RunPlan.Wishes()
    var environment: String?
    var variables: [String: String] = [:]
    var directory: String?
    var skipsScripts = false
    var isDryRun = false
    // A dash means standard input.
    var each: String?
    var repeats: Int?
    var done: String?
    var show: Show?
    var printed: [String] = []
    var junit: String?
    var fetch = FetchOptions()

    enum Show: String, CaseIterable, Sendable {
        case head, body, both
    }

    // The lines about requests and the summary are then written to standard error.
    var showsAnswers: Bool { show != nil || !printed.isEmpty }

    // A terminal that shows responses has no live lines.
    var allowsLive: Bool {
        !fetch.isQuiet && !fetch.isJSON && !isDryRun && !(showsAnswers && Terminal.output.isTerminal)
    }

    func showsBody(of request: PlannedRequest) -> Bool { [.body, .both].contains(show) || prints(request) }

    func prints(_ request: PlannedRequest) -> Bool {
        printed.contains { $0 == request.request.name?.text || $0 == request.request.title?.text }
    }
}

extension RunOptions {
    init?(parsing arguments: [String], environment: [String: String] = [:]) throws(UsageError) {
        guard let parsed = try ParsedOptions(.run, arguments, environment: environment) else { return nil }
        self = parsed.run
        fetch = parsed.fetch
        guard let file = parsed.operands.first else {
            throw UsageError("a file is missing; write convoy run FILE.http")
        }
        self.file = file
        if each == nil, [".csv", ".tsv", ".jsonl"].contains(where: file.lowercased().hasSuffix) {
            throw UsageError("\(file) has rows instead of requests; write convoy run FILE.http --each \(file)")
        }
        try parsed.checkFiles([NamedFile(name: "the .http file", path: file, use: .input)])
        wishes.names = Array(parsed.operands.dropFirst())
        if wishes.isSerial, wishes.mixesUnsafe { throw .exclusion("--serial", "--parallel-unsafe") }
        try checkRows()
        try fetch.checkCache()
        if fetch.isJSON, fetch.isQuiet { throw .exclusion("--json", "--quiet") }
        if fetch.isJSON, isDryRun { throw .exclusion("--json", "--dry-run") }
        if fetch.isJSON, showsAnswers {
            let other = show == nil ? "-o NAME=-" : "--show"
            throw UsageError("--json and \(other) both write to standard output; remove one of them")
        }
    }

    private func checkRows() throws(UsageError) {
        if each != nil, repeats != nil { throw .exclusion("--each", "--repeat") }
        if each == nil, fetch.shard != nil || done != nil {
            throw UsageError("--\(fetch.shard == nil ? "done" : "shard") applies to the rows of --each FILE: add it")
        }
        if each == "-", file == "-" {
            throw UsageError("the file and the rows cannot both be standard input; put one of them into a file")
        }
    }

    // Errors do not quote the value, which may be a secret.
    mutating func setVariable(_ text: String) throws(UsageError) {
        guard let equals = text.firstIndex(of: "="), equals > text.startIndex else {
            throw UsageError("takes NAME=VALUE; the name or the = is missing")
        }
        variables[String(text[..<equals])] = String(text[text.index(after: equals)...])
    }

    mutating func setPrinted(_ text: String) throws(UsageError) {
        guard text.hasSuffix("=-"), text.count > 2 else {
            throw UsageError(
                "takes NAME=-, which prints the body of that request on standard output; for a file write >> FILE below the request"
            )
        }
        printed.append(String(text.dropLast(2)))
    }
}
