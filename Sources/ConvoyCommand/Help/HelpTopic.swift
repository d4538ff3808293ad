// `convoy help`: its topics.

/// A command or a topic with a text.
enum HelpTopic: String, CaseIterable, Sendable {
    case fetch
    case run
    case report
    case `import`
    case queue
    case cache
    case demo
    case completions
    case lists
    case names
    case retries
    case json
    case signals
    case man

    var summary: String {
        switch self {
        case .fetch: "downloads, and all their options"
        case .run: "files of requests, .http, and what is read in them"
        case .report: "the events of several runs on one page"
        case .import: "HAR, Postman collections and curl lines as a file of requests"
        case .queue: "requests that outlive the process"
        case .cache: "stored responses: what is there, and what would become of a request"
        case .demo: "a batch, a chain and a continued download"
        case .completions: "scripts that complete this command in a shell"
        case .lists: "what lists of URLs may look like"
        case .names: "how files are named, and what happens when they exist"
        case .retries: "what is sent again, and where redirects lead"
        case .json: "the events of --json"
        case .signals: "what stops a run, and what is left then"
        case .man: "the manual page, for man(1): convoy help man > convoy.1"
        }
    }

    var text: String {
        switch self {
        case .fetch: HelpText.fetch
        case .run: HelpText.run
        case .report: HelpText.report
        case .import: HelpText.importing
        case .queue: HelpText.queue
        case .cache: HelpText.cache
        case .demo: HelpText.demo
        case .completions: HelpText.completions
        case .lists: HelpText.lists
        case .names: HelpText.names
        case .retries: HelpText.retries
        case .json: HelpText.json
        case .signals: HelpText.signals
        case .man: ManPage.text
        }
    }

    /// The text for the operands; without operands that of the command.
    static func text(for operands: [String]) throws(UsageError) -> String {
        guard let word = operands.first else { return HelpText.tool }
        if operands.count == 1, let topic = HelpTopic(rawValue: word) { return topic.text }
        let words = allCases.map(\.rawValue)
        let near =
            words.nearest(to: word).map { "; did you mean \($0)?" } ?? ": there is for \(words.joined(separator: ", "))"
        throw UsageError(
            "there is no help for \(operands.joined(separator: " ").debugDescription)\(near)", command: "help")
    }
}
