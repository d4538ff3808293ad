// The verbs of `convoy cache`.

/// The word after `convoy cache`.
enum CacheVerb: String, CaseIterable, Sendable {
    case status
    case list
    case show
    case why
    case remove
    case clear

    /// The operand after the verb.
    enum Operand {
        case none
        case pattern(isNeeded: Bool)
        case url
    }

    /// A short description for the help.
    var summary: String {
        switch self {
        case .status: "the directory, and the number and size of its responses"
        case .list: "the stored responses, one a line"
        case .show: "the header fields of a stored response"
        case .why: "how a request would be served now, with the rule of each step"
        case .remove: "remove the responses of matching URLs"
        case .clear: "remove everything"
        }
    }

    /// The syntax of the verb.
    var usage: String {
        let operand =
            switch operand {
            case .none: ""
            case .pattern(isNeeded: false): " [PATTERN]"
            case .pattern(isNeeded: true): " PATTERN"
            case .url: self == .why ? " [options] URL" : " URL"
            }
        return "convoy cache \(rawValue)\(operand)"
    }

    var operand: Operand {
        switch self {
        case .status, .clear: .none
        case .list: .pattern(isNeeded: false)
        case .remove: .pattern(isNeeded: true)
        case .show, .why: .url
        }
    }
}
