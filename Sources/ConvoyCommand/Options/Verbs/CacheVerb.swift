// The verbs of `convoy cache`.

/// The word after `convoy cache`.
enum CacheVerb: String, CaseIterable, Sendable {
    case status, list, show, why, remove, clear

    /// A short description for the help.
    var summary: String {
        switch self {
        case .status: "the directory, and the number and size of its responses"
        case .list: "the stored responses, one a line"
        case .show: "the header fields of a stored response"
        case .why: "how a request would be served now, with the rule of each step"
        case .remove: "remove the responses of matching URLs; also: delete"
        case .clear: "remove everything"
        }
    }

    /// The syntax of the verb.
    var usage: String {
        let operands: [CacheVerb: String] = [
            .list: " [PATTERN]", .show: " URL", .why: " [options] URL", .remove: " PATTERN",
        ]
        return "convoy cache \(rawValue)\(operands[self] ?? "")"
    }

    var operandCount: ClosedRange<Int> {
        switch self {
        case .status, .clear: 0...0
        case .list: 0...1
        case .remove, .show, .why: 1...1
        }
    }
}
