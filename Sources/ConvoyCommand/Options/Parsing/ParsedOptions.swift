import Convoy

struct ParsedOptions: Sendable {
    let verb: Verb
    var fetch = FetchOptions()
    var run = RunOptions()
    var report = ReportOptions()
    var `import` = ImportOptions()
    var queue = QueueOptions()
    private(set) var operands: [String] = []
    private(set) var files: [NamedFile] = []

    init?(_ verb: Verb, _ arguments: [String], environment: [String: String] = [:]) throws(UsageError) {
        self.verb = verb
        let scanner = OptionScanner(verb)
        let scanned = try scanner.scan(arguments)
        if scanned.has(.help) { return nil }
        if Set.sending.contains(verb) { try fetch.trustCertificates(of: environment) }
        // Options on the command line override those in files.
        let configured = verb == .fetch ? try ConfigFile.read(scanned, environment, scanner) : ScannedArguments()
        for (option, value) in configured.given + scanned.given { try store(value, of: option) }
        operands = configured.operands + scanned.operands
        fetch.commandLine = ShownCommandLine.text(verb, scanned)
    }

    private mutating func store(_ value: String, of option: Option) throws(UsageError) {
        do {
            if case .choice(let words) = option.value { _ = try OptionValues.choice(value, among: words) }
            try option.store(&self, value)
        } catch {
            let message = (error as? UsageError)?.message ?? "\(error)"
            throw UsageError("--\(option.name)\(message.hasPrefix(":") ? "" : " ")\(message)")
        }
        if let use = option.use {
            let name = "--\(option.name)"
            if !option.isRepeatable { files.removeAll { $0.name == name } }
            if let path = option.path.find(value) { files.append(NamedFile(name: name, path: path, use: use)) }
        }
        if option.printsAnswers { fetch.printsAnswers = true }
    }
}

extension OptionScanner {
    init(_ verb: Verb) {
        var habits = verb == .fetch ? FetchOptions.habits : [:]
        let own = Set(verb.options)
        // Several entries of the table may have the same spelling, such as -o. The advice names the verbs of all.
        var owners: [String: Set<Verb>] = [:]
        for option in Option.table where !own.contains(option) && !option.isHidden {
            for spelling in option.spellings { owners[spelling, default: []].formUnion(option.verbs) }
        }
        for (spelling, verbs) in owners where habits[spelling] == nil {
            habits[spelling] = "it is an option of convoy \(verb.names(of: verbs).joined(separator: ", "))"
        }
        self.init(options: verb.options, habits: habits)
    }
}

extension Verb {
    fileprivate func names(of verbs: Set<Verb>) -> [String] {
        let near = subcommand.verbs.filter(verbs.contains).map(\.words)
        guard let first = near.first else {
            return Subcommand.allCases.filter { !verbs.isDisjoint(with: $0.verbs) }.map(\.rawValue)
        }
        return [first] + near.dropFirst().map { $0.split(separator: " ").last.map(String.init) ?? "" }
    }
}

struct ScannedArguments {
    var given: [(option: Option, value: String)] = []
    var operands: [String] = []

    mutating func add(_ option: Option, _ value: String) {
        if option == .url { operands.append(value) } else { given.append((option, value)) }
    }

    func has(_ option: Option) -> Bool { given.contains { $0.option == option } }
    func values(of option: Option) -> [String] { given.filter { $0.option == option }.map(\.value) }
    func value(of option: Option) -> String? { values(of: option).last }
}

// Options and operands may be mixed. A value may start with a dash.
struct OptionScanner {
    let options: [Option]
    var habits: [String: String] = [:]

    func scan(_ arguments: [String]) throws(UsageError) -> ScannedArguments {
        var scanned = ScannedArguments()
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            if argument == "--" {
                scanned.operands += rest
                break
            } else if argument.hasPrefix("--") {
                try scanLong(argument.dropFirst(2), &rest, &scanned)
            } else if argument.hasPrefix("-"), argument != "-" {
                try scanShort(argument.dropFirst(), &rest, &scanned)
            } else {
                scanned.operands.append(argument)
            }
        }
        return scanned
    }

    private func scanLong(
        _ argument: Substring, _ rest: inout ArraySlice<String>, _ scanned: inout ScannedArguments
    ) throws(UsageError) {
        let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let name = parts[0]
        guard let option = options.first(where: { $0.name == name || $0.aliases.contains(String(name)) }) else {
            throw unknown("--\(name)")
        }
        if option.takesValue {
            guard parts.count == 2 || !option.isValueOptional else { return scanned.given.append((option, "")) }
            let value = parts.count == 2 ? String(parts[1]) : rest.popFirst()
            try scanned.add(option, checked(value, of: option, "--\(name)"))
        } else {
            guard parts.count == 1 else {
                throw UsageError("the option --\(name) takes no value: remove the = and the text after it")
            }
            scanned.given.append((option, ""))
        }
    }

    private func scanShort(
        _ argument: Substring, _ rest: inout ArraySlice<String>, _ scanned: inout ScannedArguments
    ) throws(UsageError) {
        // wget has short options of two letters, such as `-nc`.
        guard argument.count != 2 || habits["-\(argument)"] == nil else { throw unknown("-\(argument)") }
        var letters = argument
        while let letter = letters.popFirst() {
            guard let option = options.first(where: { $0.short == letter }) else {
                // aria2 has numbers directly after `-s`; the advice about them has the key `-sN`.
                let numbered = argument.first.map { "-\($0)N" } ?? ""
                throw unknown(letter.isNumber && habits[numbered] != nil ? numbered : "-\(letter)")
            }
            guard option.takesValue else {
                scanned.given.append((option, ""))
                continue
            }
            let value = letters.isEmpty ? rest.popFirst() : String(letters)
            try scanned.add(option, checked(value, of: option, "-\(letter)"))
            return
        }
    }

    private func unknown(_ spelling: String) -> UsageError {
        var message = "unknown option \(spelling)"
        if let habit = habits[spelling] {
            message += ": \(habit)"
        } else if spelling.hasPrefix("--"), let name = options.map(\.name).nearest(to: spelling.dropFirst(2)) {
            message += "; did you mean --\(name)?"
        }
        return UsageError(message)
    }

    private func checked(_ value: String?, of option: Option, _ name: String) throws(UsageError) -> String {
        guard let value, option.mayBeEmpty || !value.isEmpty else {
            throw UsageError("the option \(name) needs a value: \(name) \(option.valueWord)")
        }
        return value
    }
}

// Texts about requests, connections, credentials and output are omitted, and names of files about connections.
enum ShownCommandLine {
    private static let operandLimit = 3
    private static let valueColumns = 160

    static func text(_ verb: Verb, _ scanned: ScannedArguments) -> String {
        var words = ["convoy", verb.words]
        for (option, value) in scanned.given {
            words.append("--\(option.name)")
            guard option.takesValue, !(option.isValueOptional && value.isEmpty) else { continue }
            let text = isShown(option) ? shown(value) : "…"
            if option.isValueOptional { words[words.count - 1] += "=" + text } else { words.append(text) }
        }
        words += scanned.operands.prefix(operandLimit).map(shown)
        let rest = scanned.operands.count - operandLimit
        return words.joined(separator: " ") + (rest > 0 ? " … and \(rest) more" : "")
    }

    private static func isShown(_ option: Option) -> Bool {
        switch option.value {
        case .none, .directory, .choice: true
        // The value of --cert may contain a password after the file name.
        case .file: option.group != .connections
        case .text, .textOrFile: [.files, .lists, .cache, .limits].contains(option.group)
        }
    }

    private static func shown(_ value: String) -> String {
        let text = withoutUser(SecretWords.standard.redacted(reference: value)).clipped(toColumns: valueColumns)
        let isPlain = text.unicodeScalars.allSatisfy { scalar in
            scalar.properties.isAlphabetic || "0123456789-_./:=@%+,".unicodeScalars.contains(scalar)
        }
        return isPlain && !text.isEmpty ? text : "'" + text.replacing("'", with: #"'\''"#) + "'"
    }

    private static func withoutUser(_ value: String) -> String {
        guard !value.contains("://"), value.contains(":") else { return value }
        let end = value.firstIndex { "/?#".contains($0) } ?? value.endIndex
        guard let at = value[..<end].lastIndex(of: "@") else { return value }
        return String(value[value.index(after: at)...])
    }
}
