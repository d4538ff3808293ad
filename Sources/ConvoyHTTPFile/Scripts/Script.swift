import Convoy

/// There is no script engine: a handler can only loop over the elements of arrays, so every handler ends.
package struct Script: Hashable, Sendable {
    indirect enum Expression: Hashable, Sendable {
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

    enum AnswerPart: String, Hashable, Sendable {
        case status, body, mimeType, charset
    }

    enum Method: String, Hashable, Sendable, CaseIterable {
        case toString, valueOf, includes, startsWith, endsWith, hasOwnProperty, toLowerCase, toUpperCase, trim, join, at
    }

    enum Each: String, Hashable, Sendable {
        case filter, find, some, every, map
    }

    enum Conversion: String, Hashable, Sendable {
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

    enum Operator: String, Hashable, Sendable {
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

    indirect enum Action: Hashable, Sendable {
        case set(String, Expression)
        case clear(String?)
        case constant(String, Expression)
        case test(Expression, [Statement])
        case assert(Expression, message: Expression?, source: String)
        case log([Expression])
        case choice(Expression, [Statement], [Statement])
        case each(Expression, [String], [Statement])
    }

    struct Statement: Hashable, Sendable {
        var action: Action
        var line: Int
    }

    var statements: [Statement] = []

    /// A nil `name` means all variables; `sets` is false if the change clears the variable.
    var changes: [(name: String?, sets: Bool)] { Self.changes(statements) }

    var globals: Set<String> {
        Set(expressions.flatMap(\.all).compactMap { if case .global(let name) = $0 { name } else { nil } })
    }

    package var readsStatus: Bool { expressions.flatMap(\.all).contains(.answer(.status)) }

    private static func changes(_ statements: [Statement]) -> [(name: String?, sets: Bool)] {
        statements.flatMap { statement -> [(name: String?, sets: Bool)] in
            switch statement.action {
            case .set(let name, _): [(name, true)]
            case .clear(let name): [(name, false)]
            case .test(_, let inner): changes(inner)
            case .choice(_, let first, let second): changes(first) + changes(second)
            case .each(_, _, let inner): changes(inner)
            case .constant, .assert, .log: []
            }
        }
    }

    private var expressions: [Expression] { Self.expressions(statements) }

    private static func expressions(_ statements: [Statement]) -> [Expression] {
        statements.flatMap { statement -> [Expression] in
            switch statement.action {
            case .set(_, let value), .constant(_, let value): [value]
            case .clear: []
            case .test(let name, let inner): [name] + expressions(inner)
            case .assert(let condition, let message, _): [condition] + (message.map { [$0] } ?? [])
            case .log(let values): values
            case .choice(let condition, let first, let second): [condition] + expressions(first) + expressions(second)
            case .each(let items, _, let inner): [items] + expressions(inner)
            }
        }
    }
}

extension Script.Expression {
    fileprivate var all: [Self] { [self] + parts.flatMap(\.all) }

    private var parts: [Self] {
        switch self {
        case .literal, .undefined, .constant, .global, .answer: []
        case .list(let parts), .text(let parts): parts
        case .header(let part), .path(let part, _), .convert(_, let part): [part]
        case .member(let base, let name): [base, name]
        case .call(_, let base, let arguments): [base] + arguments
        case .each(_, let base, _, let body): [base, body]
        case .binary(_, let left, let right): [left, right]
        case .choice(let condition, let first, let second): [condition, first, second]
        }
    }
}
