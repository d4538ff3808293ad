struct Option: Sendable {
    enum Value: Hashable, Sendable {
        case none, text, directory
        case textOrFile
        case file(FileUse)
        case choice([String])

        static let (input, output) = (Value.file(.input), Value.file(.output))
    }

    enum Group: String, CaseIterable, Sendable {
        case files = "Files"
        case lists = "Lists of URLs"
        case requests = "Requests"
        case credentials = "Credentials and cookies"
        case connections = "Connections"
        case cache = "Cache"
        case limits = "How many, how fast, how long"
        case output = "Output"
        case general = "General"
    }

    // The message of a thrown error follows the option's name. The value of a choice was checked before.
    typealias Store = @Sendable (_ options: inout ParsedOptions, _ value: String) throws -> Void

    let name: String
    let short: Character?
    let value: Value
    let valueUsage: String
    let path: ValuePath
    let group: Group
    let verbs: Set<Verb>
    let summary: String
    let detail: String
    let aliases: [String]
    let isRepeatable: Bool
    let mayBeEmpty: Bool
    let printsAnswers: Bool
    let isHidden: Bool
    let store: Store

    /// `usage` has the spellings and the word for the value: `-m, --max-time SEC`, `--cache[=DIR]`.
    init(
        _ usage: String, takes value: Value = .text, _ group: Group, for verbs: Set<Verb> = [.fetch],
        _ summary: String, detail: String? = nil, more: String = "", aliases: [String] = [],
        isRepeatable: Bool = false, mayBeEmpty: Bool = false, printsAnswers: Bool = false, isHidden: Bool = false,
        path: ValuePath = .value, store: @escaping Store = { _, _ in }
    ) {
        short = usage.hasPrefix("--") ? nil : usage.dropFirst().first
        let long = usage.dropFirst(short == nil ? 2 : "-x, --".count)
        name = String(long.prefix { !" [".contains($0) })
        valueUsage = String(long.dropFirst(name.count))
        (self.value, self.path, self.group, self.verbs) = (value, path, group, verbs)
        (self.summary, self.detail, self.aliases, self.store) = (summary, detail ?? summary + more, aliases, store)
        (self.isRepeatable, self.mayBeEmpty) = (isRepeatable, mayBeEmpty)
        (self.printsAnswers, self.isHidden) = (printsAnswers, isHidden)
    }

    static func flag(
        _ usage: String, _ group: Group, for verbs: Set<Verb> = [.fetch], _ summary: String,
        detail: String? = nil, more: String = "", aliases: [String] = [], isRepeatable: Bool = false,
        printsAnswers: Bool = false, set: @escaping @Sendable (inout ParsedOptions) throws -> Void = { _ in }
    ) -> Option {
        Option(
            usage, takes: .none, group, for: verbs, summary, detail: detail, more: more, aliases: aliases,
            isRepeatable: isRepeatable, printsAnswers: printsAnswers
        ) { options, _ in try set(&options) }
    }

    var takesValue: Bool { value != .none }
    var use: FileUse? {
        switch value {
        case .file(let use): use
        case .textOrFile: .input
        case .none, .text, .directory, .choice: nil
        }
    }

    var isValueOptional: Bool { valueUsage.hasPrefix("[=") }
    var valueWord: Substring { isValueOptional ? valueUsage.dropFirst(2).dropLast() : valueUsage.dropFirst() }

    var spellings: [String] { ["--\(name)"] + (short.map { ["-\($0)"] } ?? []) }

    static let table: [Option] =
        runOptions + queueOptions + otherOptions + fileOptions + listOptions + requestOptions + credentialOptions
        + connectionOptions + cacheOptions + limitOptions + outputOptions + printingOptions + namingOptions
        + sendingOptions + followingOptions + [url, config, noConfig, help] + hiddenOptions

    static let url = Option("--url URL", .general, "a URL, the same as an operand", isRepeatable: true)
    static let config = Option(
        "-K, --config FILE", takes: .input, .general, "read options from a file",
        detail: "read options from FILE, one a line: a name without dashes and its value (default: convoy/config in "
            + "$XDG_CONFIG_HOME or ~/.config)",
        isRepeatable: true)
    static let noConfig = Option.flag("--no-config", .general, "do not read the default configuration file")
    static let help = Option.flag("-h, --help", .general, for: .all, "print the help of the command")

    private static let otherOptions: [Option] = [
        Option(
            "--html FILE", takes: .output, .output, for: [.report], "write a page that shows every request",
            detail: "write a page to FILE, for browsers: a waterfall and a table of the requests of all runs"
        ) { $0.report.page = $1 },
        .flag(
            "--compare", .output, for: [.report], "compare two files side by side",
            more: ": statistics, groups, new failures and slower requests"
        ) { $0.report.compares = true },
        Option(
            "-o, --output FILE", takes: .output, .output, for: [.import], "write the requests to a file",
            detail: "write to FILE, and binary bodies beside it (default: standard output)"
        ) { $0.import.output = $1 },
        Option(
            "--host PATTERN", .requests, for: [.import], "import only requests to these hosts",
            detail: "import only requests to hosts of this name; * matches any characters; repeatable",
            isRepeatable: true
        ) { $0.import.wishes.hosts.append($1) },
        .flag(
            "--all", .requests, for: [.import], "import images, fonts, scripts and styles too",
            detail: "also import images, fonts, scripts, style sheets and preflights of a HAR"
        ) { $0.import.wishes.keepsAssets = true },
        .flag(
            "--keep-secrets", .credentials, for: [.import], "write secrets into the file",
            more: ", as values of its variables"
        ) { $0.import.wishes.keepsSecrets = true },
        Option(
            "--cache DIR", takes: .directory, .cache, for: Set(Subcommand.cache.verbs), "the directory of the cache",
            more: " (default: \(FetchOptions.cacheDefault))"
        ) { $0.fetch.cacheDirectory = $1 },
    ]
}

extension Option: Hashable {
    static func == (left: Option, right: Option) -> Bool { left.name == right.name }
    func hash(into hasher: inout Hasher) { hasher.combine(name) }
}

extension ClosedRange<Int> {
    var text: String { "\(lowerBound) to \(upperBound)" }
}
