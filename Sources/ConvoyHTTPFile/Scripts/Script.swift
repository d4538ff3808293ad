import Convoy

/// There is no script engine: a handler can only loop over the elements of arrays, so every handler ends.
package struct Script: Sendable {
    indirect enum Expression: Sendable {
        case literal(JSONValue)
        case undefined
        case list([Expression])
        case text([Expression])
        case constant(String)
        case global(String)
        case answer(AnswerPart)
        case header(Expression)
        case member(Expression, Expression)
        case path(Expression, JSONPath)
        case call(Method, Expression, [Expression])
        case each(Each, Expression, [String], Expression)
        case convert(Conversion, Expression)
        case binary(Operator, Expression, Expression)
        case choice(Expression, Expression, Expression)
    }

    enum AnswerPart: String {
        case status, body, mimeType, charset
    }

    enum Method: String {
        case toString, valueOf, includes, startsWith, endsWith, hasOwnProperty, toLowerCase, toUpperCase, trim, join, at
    }

    enum Each: String {
        case filter, find, some, every, map
    }

    enum Conversion: String {
        case number = "Number"
        case text = "String"
        case bool = "Boolean"
        case integer = "parseInt"
        case decimal = "parseFloat"
        case json = "JSON.stringify"
        case parsed = "JSON.parse"
        case isArray = "Array.isArray"
        case type = "typeof"
        case not = "!"
        case minus = "-"
        case escaped = "encodeURIComponent"
    }

    enum Operator: String {
        case or = "||"
        case orNull = "??"
        case and = "&&"
        case same = "==="
        case notSame = "!=="
        case equal = "=="
        case unequal = "!="
        case atMost = "<="
        case atLeast = ">="
        case less = "<"
        case more = ">"
        case plus = "+"
        case minus = "-"
        case times = "*"
        case over = "/"

        var strength: Int {
            switch self {
            case .or, .orNull: 1
            case .and: 2
            case .same, .notSame, .equal, .unequal: 3
            case .atMost, .atLeast, .less, .more: 4
            case .plus, .minus: 5
            case .times, .over: 6
            }
        }
    }

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
