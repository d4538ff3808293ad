// The topics of `convoy help`.

/// A command or a topic with a help text.
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

    /// The help for the operands of `convoy help`; without operands, the help of the tool.
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
