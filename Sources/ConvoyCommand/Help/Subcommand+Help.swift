// The help of a subcommand, and the kind of its operands for the completions.

extension Subcommand {
    /// The kinds of operands that may follow the options.
    enum Operands: Equatable, Sendable {
        case none, urls
        /// A `.http` file, then the names of requests in the file.
        case files
        /// One file of any kind.
        case document
        case manyFiles
        case choice([String])

        /// Whether shells complete file names.
        var areFiles: Bool { [.files, .document, .manyFiles].contains(self) }
    }

    var operands: Operands {
        switch self {
        case .fetch: .urls
        case .run: .files
        case .report: .manyFiles
        case .import: .document
        case .queue: .choice(QueueVerb.allCases.map(\.rawValue))
        case .cache: .choice(CacheVerb.allCases.map(\.rawValue))
        case .demo: .none
        case .completions: .choice(Shell.allCases.map(\.rawValue))
        case .help: .choice(HelpTopic.allCases.map(\.rawValue))
        }
    }

    var help: String { HelpTopic(rawValue: rawValue)?.text ?? HelpText.help }
}
