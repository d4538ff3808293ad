// The table of options. The parser, the help, the man page and the completions use it.

extension Option {
    /// All options, in the order of the help.
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

    /// The options of `convoy report`, `convoy import` and `convoy cache` alone.
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

extension ClosedRange<Int> {
    /// The range as the help shows it, such as `1 to 256`.
    var text: String { "\(lowerBound) to \(upperBound)" }
}
