// From a command line to the options of a fetch.
import Convoy
import Foundation

extension FetchOptions {
    /// Reads a command line; nil when it asks for help.
    ///
    /// - Parameter environment: names a configuration file, and certificates; empty for neither.
    init?(parsing arguments: [String], environment: [String: String] = [:]) throws(UsageError) {
        let scanner = OptionScanner(options: Self.table, command: "fetch", habits: Self.habits)
        let scanned = try scanner.scan(arguments)
        if scanned.has(.help) { return nil }
        try trustCertificates(of: environment)
        // What stands on the command line overrides what stands in files.
        let configured = try ConfigFile.read(scanned, environment, scanner)
        for (option, value) in configured.given + scanned.given { try apply(option, value) }
        for (index, operand) in (configured.operands + scanned.operands).enumerated() {
            try add(operand, number: index + 1)
        }
        if urls.isEmpty, input == nil { throw Self.error("there is no URL: write one, or -i FILE for a list of them") }
        try place(output)
        try checkTogether()
    }

    private mutating func apply(_ option: Option, _ value: String) throws(UsageError) {
        do {
            try option.apply(&self, value)
        } catch {
            let joint = error.message.hasPrefix(":") ? "" : " "
            throw Self.error("--\(option.name)\(joint)\(error.message)")
        }
    }

    private mutating func add(_ operand: String, number: Int) throws(UsageError) {
        // What has an at sign may hold a password.
        let text = operand.contains("@") ? "" : " \(operand.debugDescription)"
        if !operand.contains("://"), operand != "-", access(operand, F_OK) == 0 {
            throw Self.error(
                "URL \(number)\(text): a file of that name is here; to read URLs from it write -i \(operand), to fetch from a "
                    + "host of that name https://\(operand)")
        }
        switch InputLine(url: operand) {
        case .request(let url, _, _, _): urls.append(url)
        case .broken(let reason): throw Self.error("URL \(number)\(text): \(reason)")
        case .blank: throw Self.error("URL \(number) is empty; is a variable of the shell not set?")
        }
    }

    /// Whether `-o` names standard output, a directory or the file of the only URL.
    private mutating func place(_ output: String?) throws(UsageError) {
        guard let output else { return }
        guard destination == .files else {
            if output != "-" { setDirectory(output) }
            return
        }
        let isOnlyURL = input == nil && urls.count == 1
        if output == "-" {
            guard isOnlyURL else {
                throw Self.error(
                    "-o - writes one body to standard output, and there are more URLs; leave it out for files")
            }
            destination = .standardOutput
            return
        }
        let path = output.hasPrefix("/") || directory == "." ? output : directory + "/" + output
        var status = stat()
        let isDirectory = stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
        guard isOnlyURL, !isDirectory, !path.hasSuffix("/") else { return setDirectory(path) }
        let slash = path.lastIndex(of: "/")
        let name = slash.map { String(path[path.index(after: $0)...]) } ?? path
        guard ![".", ".."].contains(name), name.utf8.count <= 255 else {
            throw Self.error(
                "-o takes a file name of at most 255 bytes, and \(name.prefix(20).debugDescription) is none")
        }
        outputName = name
        if let slash { setDirectory(slash == path.startIndex ? "/" : String(path[..<slash])) }
    }

    /// Options that exclude or need each other.
    private func checkTogether() throws(UsageError) {
        if isQuiet, isJSON { throw Self.error("--quiet and --json exclude each other; give one of them") }
        if isJSON, ownsOutput {
            let other = destination == .head ? "--head" : writeOut == nil ? "-o -" : "--write-out"
            throw Self.error("--json and \(other) both want standard output; leave one of them out")
        }
        if let digest { try check(digest) }
        if sending.isHead, sending.body != nil {
            throw Self.error("--head asks for no body and sends none; leave --data, --json-body and --form out")
        }
        if base != nil, input == nil { throw Self.error("--base is for the names in a list; give the list with -i") }
        if sending.readsStandardInput, input == .standardInput {
            throw Self.error("standard input cannot be both a body and the list; put one of them into a file")
        }
        if !mirrors.isEmpty, digest == nil || urls.count != 1 || input != nil {
            throw Self.error(
                "--mirror is for one URL whose digest is known, so that the parts fit together: give one URL, and --sha256"
            )
        }
        if usesSegments { try checkSegments() }
    }

    private func checkSegments() throws(UsageError) {
        let what = segments > 1 ? "--segments" : "--mirror"
        if isCompressed {
            throw Self.error("\(what) and --compressed exclude each other: parts of a coded body cannot be decoded")
        }
        if discards || takesProposedNames {
            let other =
                switch destination {
                case .files: "--content-disposition"
                case .nowhere: "--discard"
                case .standardOutput: "-o -"
                case .head: "--head"
                }
            throw Self.error("\(what) writes into files whose names are known before: leave out \(other)")
        }
        let others: [(String, Bool)] = [
            ("--request", sending.method.map { $0 != .get } ?? false), ("--range", sending.range != nil),
            ("--newer", sending.newer != nil),
            ("--data, --json-body and --form", sending.body != nil), ("--write-out", writeOut != nil),
        ]
        if let other = others.first(where: \.1) {
            throw Self.error("\(what) asks for ranges of a file by GET: leave out \(other.0)")
        }
    }

    private func check(_ digest: FileDigest) throws(UsageError) {
        let name = digest.algorithm.rawValue
        guard input == nil, urls.count == 1 else {
            throw Self.error(
                "--\(name) is the digest of one file, and there are more URLs; put it into a list (--input), as the third column \(name):HEX"
            )
        }
        guard !discards else {
            let other = destination == .nowhere ? "--discard" : destination == .head ? "--head" : "-o -"
            throw Self.error("--\(name) and \(other) exclude each other: what is not kept is not verified")
        }
    }

    static func error(_ message: String) -> UsageError { UsageError(message, command: "fetch") }
}
