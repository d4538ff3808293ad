// The verbs of `convoy queue`.

/// The word after `convoy queue`.
enum QueueVerb: String, CaseIterable, Sendable {
    case add, run, status, list, why, retry, cancel, delete, export

    /// A short text for the help.
    var summary: String {
        switch self {
        case .add: "store requests until they are done"
        case .run: "send the stored jobs; with --watch, also jobs added later"
        case .status: "the number of jobs in each state"
        case .list: "the jobs, one a line"
        case .why: "what jobs wait for, or how they ended"
        case .retry: "send dead letters again"
        case .cancel: "cancel jobs that are not done"
        case .delete: "delete done, dead and cancelled jobs"
        case .export: "all data of the jobs, as JSON lines"
        }
    }

    /// The usage line of the verb.
    var usage: String {
        switch self {
        case .add: "convoy queue add --db DB [options] URL..."
        case .run: "convoy queue run --db DB [options]"
        case .status: "convoy queue status --db DB [--json]"
        case .list: "convoy queue list --db DB [selection] [--json]"
        case .why: "convoy queue why --db DB ID...|selection [--json]"
        case .retry: "convoy queue retry --db DB ID...|selection|--all"
        case .cancel: "convoy queue cancel --db DB ID...|selection|--all"
        case .delete: "convoy queue delete --db DB ID...|selection|--all"
        case .export: "convoy queue export --db DB [selection]"
        }
    }

    /// Whether the verb selects jobs by id, kind, state, tag or group.
    var selects: Bool { [.list, .why, .retry, .cancel, .delete, .export].contains(self) }
}
