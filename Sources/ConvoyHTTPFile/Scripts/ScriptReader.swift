// Parses the tokens of a handler into statements.

/// Parses a response handler.
///
/// Unsupported syntax is an error at its position.
struct ScriptReader {
    var tokens: [ScriptLexer.Placed]
    var index = 0
    var depth = 0
    /// The number of operators, members and calls in the statement, each of which adds a level to its tree.
    private var linkCount = 0
    /// The names of earlier `const`, `let` and `var`, and of parameters and loop elements around the next token.
    var constants: Set<String> = []
    /// The constants of statements before this text, which were parsed separately.
    private var outerConstants: Set<String> = []
    private let characters: [Character]

    /// The maximum nesting of statements and expressions, because each level needs stack.
    private static let mostLevels = 64
    /// The maximum number of operators, members and calls in a statement.
    private static let mostLinks = 1_000

    private init(_ text: String, at position: Position) throws(Problem) {
        characters = Array(text)
        tokens = try ScriptLexer.tokens(text, at: position)
    }

    /// Parses the text between `{%` and `%}`.
    ///
    /// - Parameters:
    ///   - position: the position of the first character.
    ///   - names: the constants of statements before this text, which were parsed separately.
    static func read(_ text: String, at position: Position, after names: Set<String> = []) throws(Problem) -> Script {
        var reader = try ScriptReader(text, at: position)
        reader.outerConstants = names
        return Script(statements: try reader.statements(until: .end))
    }

    /// Parses an expression inside a template literal, at its position.
    mutating func expression(_ source: String, at position: Position) throws(Problem) -> Script.Expression {
        let (outer, place) = (tokens, index)
        (tokens, index) = (try ScriptLexer.tokens(source, at: position), 0)
        let expression = try expression()
        guard next == .end else { throw refusal() }
        (tokens, index) = (outer, place)
        return expression
    }

    // MARK: Tokens

    var next: ScriptLexer.Token { tokens[index].token }
    var place: Position { tokens[index].position }

    func isNext(_ mark: String) -> Bool { next == .mark(mark) }

    mutating func take(_ mark: String) -> Bool {
        guard isNext(mark) else { return false }
        index += 1
        return true
    }

    mutating func need(_ mark: String) throws(Problem) {
        guard take(mark) else { throw refusal() }
    }

    func isConstant(_ name: String) -> Bool { constants.contains(name) || outerConstants.contains(name) }

    /// Reads a name; throws if the next token is not a name.
    mutating func needName() throws(Problem) -> String {
        guard case .name(let name) = next else { throw refusal() }
        index += 1
        return name
    }

    mutating func needText() throws(Problem) -> String {
        guard case .text(let text) = next else {
            throw Script.problem(place, "the name of a variable must be a string")
        }
        index += 1
        return text
    }

    /// The error for an unexpected token.
    func refusal() -> Problem {
        let word =
            switch next {
            case .name(let word), .number(let word), .mark(let word): word
            case .text: "a string"
            case .template: "a template string"
            case .end: "the end"
            }
        return Script.problem(place, "\(word.shown) is not supported")
    }

    mutating func deeper<Value>(
        _ read: (inout Self) throws(Problem) -> Value
    ) throws(Problem) -> Value {
        depth += 1
        defer { depth -= 1 }
        guard depth < Self.mostLevels else { throw Script.problem(place, "this is nested too deeply") }
        return try read(&self)
    }

    /// Counts an operator, member or call of the statement; throws above ``mostLinks``.
    mutating func countLink() throws(Problem) {
        linkCount += 1
        guard linkCount <= Self.mostLinks else {
            throw Script.problem(
                place, "this statement has more than \(Self.mostLinks) operators, members and calls: split it")
        }
    }

    // MARK: Statements

    private mutating func statements(until end: ScriptLexer.Token) throws(Problem) -> [Script.Statement] {
        var statements: [Script.Statement] = []
        while true {
            while take(";") {}
            guard next != end else { break }
            let line = place.line
            let read = try deeper { (reader) throws(Problem) in try reader.actions() }
            statements += read.map { Script.Statement(action: $0, line: line) }
        }
        index += end == .end ? 0 : 1
        return statements
    }

    mutating func block() throws(Problem) -> [Script.Statement] {
        guard take("{") else {
            let line = place.line
            let read = try deeper { (reader) throws(Problem) in try reader.actions() }
            return read.map { Script.Statement(action: $0, line: line) }
        }
        return try statements(until: .mark("}"))
    }

    private mutating func actions() throws(Problem) -> [Script.Action] {
        let outerCount = linkCount
        linkCount = 0
        defer { linkCount = outerCount }
        guard case .name(let word) = next else {
            // A string alone, such as "use strict", has no effect and is ignored.
            if case .text = next {
                index += 1
                return []
            }
            throw refusal()
        }
        let start = index
        index += 1
        switch word {
        case "const", "let", "var": return [try constant()]
        case "if": return [try choice()]
        case "for": return [try loop()]
        case "client":
            try need(".")
            return try client()
        case "console":
            try need(".")
            let name = try needName()
            guard ["log", "info", "warn", "error", "debug"].contains(name) else {
                index -= 1
                throw refusal()
            }
            return [.log(try arguments())]
        default:
            index = start
            // An expression alone has no effect, unless `.forEach` follows. It is always parsed, to find errors.
            let items = try expression()
            guard isNext("."), tokens[index + 1].token == .name("forEach") else { return [] }
            index += 2
            try need("(")
            let (parameters, inner) = try function { (reader) throws(Problem) in try reader.block() }
            try need(")")
            return [.each(items, parameters, inner)]
        }
    }

    private mutating func constant() throws(Problem) -> Script.Action {
        let name = try needName()
        try need("=")
        let value = try expression()
        constants.insert(name)
        return .constant(name, value)
    }

    private mutating func choice() throws(Problem) -> Script.Action {
        try need("(")
        let condition = try expression()
        try need(")")
        let first = try block()
        while take(";") {}
        guard next == .name("else") else { return .choice(condition, first, []) }
        index += 1
        return .choice(condition, first, try block())
    }

    /// Reads `for (const item of items) …` from the opening parenthesis.
    private mutating func loop() throws(Problem) -> Script.Action {
        try need("(")
        guard [.name("const"), .name("let"), .name("var")].contains(next) else { throw refusal() }
        index += 1
        let name = try needName()
        guard next == .name("of") else { throw refusal() }
        index += 1
        let items = try expression()
        try need(")")
        return .each(items, [name], try naming([name]) { (reader) throws(Problem) in try reader.block() })
    }

    private mutating func client() throws(Problem) -> [Script.Action] {
        let name = try needName()
        switch name {
        case "log": return [.log(try arguments())]
        case "test": return [try test()]
        case "assert": return [try assertion()]
        case "global":
            try need(".")
            return [try global()]
        default:
            index -= 1
            throw refusal()
        }
    }

    private mutating func global() throws(Problem) -> Script.Action {
        let name = try needName()
        let isSet = name == "set"
        guard isSet || ["clear", "clearAll"].contains(name) else {
            index -= 1
            throw refusal()
        }
        try need("(")
        if name == "clearAll" {
            try need(")")
            return .clear(nil)
        }
        let variable = try needText()
        guard variable.isVariableName else {
            index -= 1
            throw Script.problem(place, "\(variable.shown) is not a variable name")
        }
        guard isSet else {
            try need(")")
            return .clear(variable)
        }
        try need(",")
        let value = try expression()
        try need(")")
        return .set(variable, value)
    }

    /// Reads `client.test("name", function() { … })` from the opening parenthesis; an arrow function is allowed too.
    private mutating func test() throws(Problem) -> Script.Action {
        try need("(")
        let name = try expression()
        try need(",")
        let (parameters, inner) = try function { (reader) throws(Problem) in try reader.block() }
        guard parameters.isEmpty else { throw Script.problem(place, "the function of a test cannot have parameters") }
        _ = take(",")
        try need(")")
        return .test(name, inner)
    }

    private mutating func assertion() throws(Problem) -> Script.Action {
        try need("(")
        let start = tokens[index].start
        let condition = try expression()
        let source = String(
            characters[min(start, characters.count)..<min(max(start, tokens[index].start), characters.count)])
        var message: Script.Expression?
        if take(","), !isNext(")") { message = try expression() }
        _ = take(",")
        try need(")")
        return .assert(condition, message: message, source: source.trimmed)
    }

    mutating func arguments() throws(Problem) -> [Script.Expression] {
        try need("(")
        return try list(until: ")")
    }

    mutating func list(until end: String) throws(Problem) -> [Script.Expression] {
        var values: [Script.Expression] = []
        while !take(end) {
            values.append(try expression())
            guard take(",") || isNext(end) else { throw refusal() }
        }
        return values
    }
}
