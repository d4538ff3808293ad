// The verbs of `convoy queue`.

/// The word after `convoy queue`.
enum QueueVerb: String, CaseIterable, Sendable {
    case add
    case run
    case status
    case list
    case retry
    case cancel
    case export

    /// A short text for the help.
    var summary: String {
        switch self {
        case .add: "keep requests until they have been answered"
        case .run: "send stored jobs until none waits; with --watch forever"
        case .status: "how many jobs are in which state"
        case .list: "the jobs, a line each"
        case .retry: "send dead letters again"
        case .cancel: "take jobs out that have not been sent"
        case .export: "all that is known of the jobs, as JSON lines"
        }
    }

    /// Its usage line.
    var usage: String {
        switch self {
        case .add: "convoy queue add --db DB [options] URL..."
        case .run: "convoy queue run --db DB [options]"
        case .status: "convoy queue status --db DB [--json]"
        case .list: "convoy queue list --db DB [which jobs] [--json]"
        case .retry: "convoy queue retry --db DB ID...|which jobs|--all"
        case .cancel: "convoy queue cancel --db DB ID...|which jobs|--all"
        case .export: "convoy queue export --db DB [which jobs]"
        }
    }

    /// Whether it selects jobs by id, kind, state, tag or group.
    var selects: Bool { [.list, .retry, .cancel, .export].contains(self) }
}
