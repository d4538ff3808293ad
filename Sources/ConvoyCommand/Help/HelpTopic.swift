enum HelpTopic: String, CaseIterable, Sendable {
    case fetch, run, report, `import`, queue, cache, demo, completions, lists, names, retries, json, signals, man

    var summary: String { entry.summary }
    var text: String { entry.text() }

    private var entry: (summary: String, text: () -> String) {
        switch self {
        case .fetch: ("downloads, and all their options", { HelpText.fetch })
        case .run: ("files of requests, .http, and their format", { HelpText.run })
        case .report: ("the events of several runs on one page", { HelpText.report })
        case .import: ("HAR, Postman collections and curl commands as an .http file", { HelpText.importing })
        case .queue: ("requests that outlive the process", { HelpText.queue })
        case .cache: ("stored responses, and how the cache would serve a request", { HelpText.cache })
        case .demo: ("a batch, a chain and a continued download", { HelpText.demo })
        case .completions: ("scripts that complete this command in a shell", { HelpText.completions })
        case .lists: ("the formats of lists of URLs", { HelpText.lists })
        case .names: ("how files are named, and what happens when they exist", { HelpText.names })
        case .retries: ("retries, and how redirects are followed", { HelpText.retries })
        case .json: ("the events of --json", { HelpText.json })
        case .signals: ("signals that stop a run, and the exit status", { HelpText.signals })
        case .man: ("the manual page, for man(1): convoy help man > convoy.1", { ManPage.text })
        }
    }

    static func text(for operands: [String]) throws(UsageError) -> String {
        guard let word = operands.first else { return HelpText.tool }
        if operands.count == 1, let topic = HelpTopic(rawValue: word) { return topic.text }
        let words = allCases.map(\.rawValue)
        let near =
            words.nearest(to: word).map { "; did you mean \($0)?" }
            ?? "; the topics are \(words.joined(separator: ", "))"
        throw UsageError("no help for \(operands.joined(separator: " ").debugDescription)\(near)")
    }
}

extension Subcommand {
    enum Operands: Equatable, Sendable {
        case none, urls
        case files
        case document
        case manyFiles
        case choice([String])

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

enum TextLayout {
    static let width = 79
    static let column = 25

    static func entry(_ term: String, _ text: String, column: Int = TextLayout.column) -> String {
        let fits = term.count < column - 1
        let blanks = String(repeating: " ", count: fits ? column - term.count : column)
        return (term + (fits ? "" : "\n") + blanks + text).wrapped(toColumns: width, indentation: column)
    }

    static func terms(_ terms: [(String, String)], column: Int = 11) -> String {
        terms.map { entry("  " + $0, $1, column: column) }.joined(separator: "\n")
    }
}

extension Option {
    var helpEntry: String {
        let names = (short.map { "-\($0), " } ?? "    ") + "--\(name)" + valueUsage
        return TextLayout.entry("  " + names, detail)
    }
}

extension [Option] {
    var helpByGroup: String {
        Option.Group.allCases.compactMap { group in
            let members = filter { $0.group == group }
            return members.isEmpty ? nil : ([group.rawValue + ":"] + members.map(\.helpEntry)).joined(separator: "\n")
        }.joined(separator: "\n\n")
    }
}
