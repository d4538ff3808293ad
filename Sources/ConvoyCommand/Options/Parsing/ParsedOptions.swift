// Parses the command line of a verb with the table of options.

/// The values of all options; each subcommand reads the ones that it needs.
struct ParsedOptions: Sendable {
    let verb: Verb
    /// The options that several verbs share: requests, connections, limits, output.
    var fetch = FetchOptions()
    var run = RunOptions()
    var report = ReportOptions()
    var `import` = ImportOptions()
    var queue = QueueOptions()
    private(set) var operands: [String] = []
    /// The files that the options name; an option that may not be repeated has only its last file.
    private(set) var files: [NamedFile] = []

    /// Parses a command line; nil for `--help`.
    ///
    /// - Parameter environment: the variables that may name a configuration file and certificates.
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
    /// The scanner of a verb, with advice about options of other programs and other verbs.
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
    /// The words for verbs in advice: those of this subcommand or, if there are none, the subcommands of the verbs.
    fileprivate func names(of verbs: Set<Verb>) -> [String] {
        let near = subcommand.verbs.filter(verbs.contains).map(\.words)
        guard let first = near.first else {
            return Subcommand.allCases.filter { !verbs.isDisjoint(with: $0.verbs) }.map(\.rawValue)
        }
        return [first] + near.dropFirst().map { $0.split(separator: " ").last.map(String.init) ?? "" }
    }
}
