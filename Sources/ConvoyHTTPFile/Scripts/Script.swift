import Convoy

/// There is no script engine: a handler can only loop over the elements of arrays, so every handler ends.
package struct Script: Sendable {
    indirect enum Expression: Sendable {
        case literal(JSONValue?)
        case list([Expression])
        case text([Expression])
        /// A constant of the script, or a part of the response, whose name has a dot.
        case constant(String)
        case global(String)
        case header(Expression)
        case member(Expression, Expression)
        case path(Expression, JSONPath)
        case call(Method, Expression, [Expression])
        case each(Each, Expression, [String], Expression)
        /// A function of one value or an operator before it, one of ``conversions``.
        case convert(String, Expression)
        /// An operator between two values, one of ``strengths``.
        case binary(String, Expression, Expression)
        case choice(Expression, Expression, Expression)
    }

    enum Method: String {
        case toString, valueOf, includes, startsWith, endsWith, hasOwnProperty, toLowerCase, toUpperCase, trim, join, at
    }

    enum Each: String {
        case filter, find, some, every, map
    }

    static let conversions: Set = [
        "Number", "String", "Boolean", "parseInt", "parseFloat", "JSON.stringify", "JSON.parse", "Array.isArray",
        "encodeURIComponent", "typeof", "!", "-",
    ]

    static let strengths = [
        "||": 1, "??": 1, "&&": 2, "===": 3, "!==": 3, "==": 3, "!=": 3, "<=": 4, ">=": 4, "<": 4, ">": 4, "+": 5,
        "-": 5, "*": 6, "/": 6,
    ]

    indirect enum Action: Sendable {
        case set(String, Expression)
        case clear(String?)
        case constant(String, Expression)
        case test(Expression, [Statement])
        case assert(Expression, message: Expression?, source: String)
        case log([Expression])
        case choice(Expression, [Statement], [Statement])
        case each(Expression, [String], [Statement])
    }

    struct Statement: Sendable {
        var action: Action
        var line: Int
    }

    var statements: [Statement] = []
    /// A nil `name` means all variables; `sets` is false if the change clears the variable.
    var changes: [(name: String?, sets: Bool)] = []
    /// The variables that the script reads.
    var globals: Set<String> = []
    package var readsStatus = false
}
