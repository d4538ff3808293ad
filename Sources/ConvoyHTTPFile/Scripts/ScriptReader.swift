import Convoy

struct ScriptReader {
    var tokens: [ScriptLexer.Placed]
    var index = 0
    var depth = 0
    private var linkCount = 0
    private var script = Script()
    var constants: Set<String> = []
    private var outerConstants: Set<String> = []
    private let characters: [Character]

    /// The maximum nesting of statements and expressions, because each level needs stack.
    private static let mostLevels = 64
    private static let mostLinks = 1_000

    private init(_ text: String, at position: Position) throws(Problem) {
        characters = Array(text)
        tokens = try ScriptLexer.tokens(text, at: position)
    }

    static func read(_ text: String, at position: Position, after names: Set<String> = []) throws(Problem) -> Script {
        var reader = try ScriptReader(text, at: position)
        reader.outerConstants = names
        reader.script.statements = try reader.statements(until: .end)
        return reader.script
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

    mutating func needName(_ known: String...) throws(Problem) -> String {
        guard case .name(let name) = next, known.isEmpty || known.contains(name) else { throw refusal() }
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

    func refusal() -> Problem {
        let word =
            switch next {
            case .name(let word), .number(let word), .mark(let word): word
            case .text: "a string"
            case .end: "the end"
            }
        return Script.problem(place, "\(word.shown) is not supported")
    }

    mutating func deeper<Value>(_ read: (inout Self) throws(Problem) -> Value) throws(Problem) -> Value {
        depth += 1
        defer { depth -= 1 }
        guard depth < Self.mostLevels else { throw Script.problem(place, "this is nested too deeply") }
        return try read(&self)
    }

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
            statements += try statement()
        }
        index += end == .end ? 0 : 1
        return statements
    }

    mutating func block() throws(Problem) -> [Script.Statement] {
        try take("{") ? statements(until: .mark("}")) : statement()
    }

    private mutating func statement() throws(Problem) -> [Script.Statement] {
        let line = place.line
        let action = try deeper { (reader) throws(Problem) in try reader.action() }
        return action.map { [Script.Statement(action: $0, line: line)] } ?? []
    }

    private mutating func action() throws(Problem) -> Script.Action? {
        let outerCount = linkCount
        linkCount = 0
        defer { linkCount = outerCount }
        guard case .name(let word) = next else {
            // A string alone, such as "use strict", has no effect and is ignored.
            if case .text = next {
                index += 1
                return nil
            }
            throw refusal()
        }
        let start = index
        index += 1
        switch word {
        case "const", "let", "var": return try constant()
        case "if": return try choice()
        case "for": return try loop()
        case "client":
            try need(".")
            return try client()
        case "console":
            try need(".")
            _ = try needName("log", "info", "warn", "error", "debug")
            return .log(try arguments())
        default:
            index = start
            // An expression alone has no effect, unless `.forEach` follows. It is always parsed, to find errors.
            let items = try expression()
            guard isNext("."), tokens[index + 1].token == .name("forEach") else { return nil }
            index += 2
            try need("(")
            let (parameters, inner) = try function { (reader) throws(Problem) in try reader.block() }
            try need(")")
            return .each(items, parameters, inner)
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

    private mutating func loop() throws(Problem) -> Script.Action {
        try need("(")
        _ = try needName("const", "let", "var")
        let name = try needName()
        _ = try needName("of")
        let items = try expression()
        try need(")")
        return .each(items, [name], try naming([name]) { (reader) throws(Problem) in try reader.block() })
    }

    private mutating func client() throws(Problem) -> Script.Action {
        switch try needName("log", "test", "assert", "global") {
        case "log": return .log(try arguments())
        case "test": return try test()
        case "assert": return try assertion()
        default:
            try need(".")
            return try global()
        }
    }

    private mutating func global() throws(Problem) -> Script.Action {
        let name = try needName("set", "clear", "clearAll")
        try need("(")
        if name == "clearAll" {
            try need(")")
            script.changes.append((nil, false))
            return .clear(nil)
        }
        let variable = try needText()
        guard variable.isVariableName else {
            index -= 1
            throw Script.problem(place, "\(variable.shown) is not a variable name")
        }
        script.changes.append((variable, name == "set"))
        guard name == "set" else {
            try need(")")
            return .clear(variable)
        }
        try need(",")
        let value = try expression()
        try need(")")
        return .set(variable, value)
    }

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

    private static let known: Set = [
        "true", "false", "null", "undefined", "response", "client", "JSON", "Array", "jsonPath", "Number", "String",
        "Boolean", "parseInt", "parseFloat", "encodeURIComponent", "typeof",
    ]

    mutating func expression() throws(Problem) -> Script.Expression {
        try deeper { (reader) throws(Problem) in
            let condition = try reader.binary(above: 0)
            guard reader.take("?") else { return condition }
            let first = try reader.expression()
            try reader.need(":")
            return .choice(condition, first, try reader.expression())
        }
    }

    private mutating func binary(above strength: Int) throws(Problem) -> Script.Expression {
        var left = try unary()
        while case .mark(let mark) = next, let operation = Script.Operator(rawValue: mark),
            operation.strength > strength
        {
            index += 1
            try countLink()
            left = .binary(operation, left, try binary(above: operation.strength))
        }
        return left
    }

    private mutating func unary() throws(Problem) -> Script.Expression {
        let isType = next == .name("typeof")
        guard isType || isNext("!") || isNext("-") else { return try behind(try primary()) }
        let conversion: Script.Conversion = isType ? .type : isNext("!") ? .not : .minus
        index += 1
        if isType, case .name(let name) = next, !Self.known.contains(name), !isConstant(name) {
            // As in JavaScript, `typeof` of an unknown name is "undefined".
            index += 1
            return .literal(.string("undefined"))
        }
        return .convert(conversion, try deeper { (reader) throws(Problem) in try reader.unary() })
    }

    private mutating func primary() throws(Problem) -> Script.Expression {
        let token = next
        index += 1
        switch token {
        case .number(let digits): return .literal(.number(digits))
        case .text(let text): return .literal(.string(text))
        case .mark("`"):
            var texts: [Script.Expression] = []
            while !take("`") {
                guard take("${") else {
                    texts.append(.literal(.string(try needText())))
                    continue
                }
                texts.append(try expression())
                try need("}")
            }
            return .text(texts)
        case .mark("("):
            let inner = try expression()
            try need(")")
            return inner
        case .mark("["): return .list(try list(until: "]"))
        case .name(let name): return try named(name)
        case .mark, .end:
            index -= 1
            throw refusal()
        }
    }

    private mutating func named(_ name: String) throws(Problem) -> Script.Expression {
        switch name {
        case "true": return .literal(.bool(true))
        case "false": return .literal(.bool(false))
        case "null": return .literal(.null)
        case "undefined": return .undefined
        case _ where isConstant(name): return .constant(name)
        case "response": return try answer()
        case "client":
            for word in ["global", "get"] {
                try need(".")
                _ = try needName(word)
            }
            try need("(")
            let variable = try needText()
            try need(")")
            script.globals.insert(variable)
            return .global(variable)
        case "JSON", "Array":
            try need(".")
            guard case .name(let function) = next, let conversion = Script.Conversion(rawValue: "\(name).\(function)")
            else { throw refusal() }
            index += 1
            return .convert(conversion, try argument())
        case "jsonPath": return try path()
        default:
            guard isNext("("), let conversion = Script.Conversion(rawValue: name) else {
                index -= 1
                throw refusal()
            }
            return .convert(conversion, try argument())
        }
    }

    /// Further arguments, such as the indentation of `JSON.stringify`, are ignored.
    private mutating func argument() throws(Problem) -> Script.Expression {
        let place = place
        guard let first = try arguments().first else { throw Script.problem(place, "the parentheses contain no value") }
        return first
    }

    private mutating func path() throws(Problem) -> Script.Expression {
        try need("(")
        let base = try expression()
        try need(",")
        let (place, text) = (place, try needText())
        try need(")")
        do throws(Defect) { return .path(base, try JSONPath(text)) } catch { throw Script.problem(place, error.what) }
    }

    private mutating func answer() throws(Problem) -> Script.Expression {
        try need(".")
        switch try needName("status", "body", "contentType", "headers") {
        case "status":
            script.readsStatus = true
            return .answer(.status)
        case "body": return .answer(.body)
        case "contentType":
            try need(".")
            return .answer(try needName("mimeType", "charset") == "charset" ? .charset : .mimeType)
        default:
            if take("[") {
                let name = try expression()
                try need("]")
                return .header(name)
            }
            try need(".")
            _ = try needName("valueOf")
            return .header(try argument())
        }
    }

    private mutating func behind(_ value: Script.Expression) throws(Problem) -> Script.Expression {
        var value = value
        while true {
            if take("[") {
                try countLink()
                value = .member(value, try expression())
                try need("]")
                continue
            }
            guard isNext(".") || isNext("?."), tokens[index + 1].token != .name("forEach") else { return value }
            index += 1
            try countLink()
            let name = try needName()
            guard isNext("(") else {
                value = .member(value, .literal(.string(name)))
                continue
            }
            if let each = Script.Each(rawValue: name) {
                try need("(")
                let (parameters, body) = try function { (reader) throws(Problem) in try reader.result() }
                _ = take(",")
                try need(")")
                value = .each(each, value, parameters, body)
                continue
            }
            guard let method = Script.Method(rawValue: name) else {
                index -= 1
                throw refusal()
            }
            value = .call(method, value, try arguments())
        }
    }

    mutating func function<Body>(
        _ body: (inout Self) throws(Problem) -> Body
    ) throws(Problem) -> (parameters: [String], body: Body) {
        let isWord = next == .name("function")
        if isWord { index += 1 }
        var parameters: [String] = []
        if case .name(let name) = next {
            index += 1
            // The name of a `function` is ignored.
            if !isWord { parameters = [name] }
        }
        if parameters.isEmpty {
            try need("(")
            while !take(")") {
                parameters.append(try needName())
                guard take(",") || isNext(")") else { throw refusal() }
            }
        }
        if isWord {
            guard isNext("{") else { throw refusal() }
        } else {
            try need("=>")
        }
        return (parameters, try naming(parameters, body))
    }

    mutating func naming<Body>(
        _ names: [String], _ body: (inout Self) throws(Problem) -> Body
    ) throws(Problem) -> Body {
        let outer = constants
        constants.formUnion(names)
        defer { constants = outer }
        return try body(&self)
    }

    mutating func result() throws(Problem) -> Script.Expression {
        guard take("{") else { return try expression() }
        _ = try needName("return")
        let value = try expression()
        _ = take(";")
        try need("}")
        return value
    }
}

struct ScriptLexer {
    enum Token: Hashable {
        case name(String)
        case number(String)
        case text(String)
        case mark(String)
        case end
    }

    struct Placed {
        var token: Token
        var position: Position
        var start: Int
    }

    private static let marks = [
        "===", "!==", "...", "=>", "==", "!=", "<=", ">=", "&&", "||", "??", "?.", "(", ")", "{", "}", "[", "]", ".",
        ",", ";", ":", "?", "!", "<", ">", "=", "+", "-", "*", "/",
    ]

    let characters: [Character]
    private var index = 0
    private var tokens: [Placed] = []
    private var line: Int
    /// Zero or negative for the first line, which starts before this text in the file.
    private var lineStart: Int

    init(_ text: String, at position: Position) {
        characters = Array(text)
        (line, lineStart) = (position.line, 1 - position.column)
    }

    static func tokens(_ text: String, at position: Position) throws(Problem) -> [Placed] {
        var lexer = ScriptLexer(text, at: position)
        repeat { try lexer.read() } while lexer.tokens.last?.token != .end
        return lexer.tokens
    }

    private mutating func add(_ token: Token, at place: (Position, index: Int)? = nil) {
        let (position, start) = place ?? (position, index)
        tokens.append(Placed(token: token, position: position, start: start))
    }

    private var position: Position { Position(line: line, column: index - lineStart + 1) }
    private var character: Character? { index < characters.count ? characters[index] : nil }

    private func starts(with text: String) -> Bool { characters[index...].starts(with: text) }

    private mutating func step() {
        if characters[index].isNewline { (line, lineStart) = (line + 1, index + 1) }
        index += 1
    }

    private mutating func skipBlanks() throws(Problem) {
        while let next = character {
            if next.isWhitespace {
                step()
            } else if starts(with: "//") {
                while let next = character, !next.isNewline { step() }
            } else if starts(with: "/*") {
                let place = position
                index += 2
                while index < characters.count, !starts(with: "*/") { step() }
                guard index < characters.count else { throw Script.problem(place, "a comment is not closed") }
                index += 2
            } else {
                return
            }
        }
    }

    private mutating func read() throws(Problem) {
        try skipBlanks()
        let (place, start) = (position, index)
        guard let first = character else { return add(.end) }
        if first.isLetter || "_$".contains(first) {
            while let next = character, next.isLetter || next.isNumber || "_$".contains(next) { index += 1 }
            return add(.name(String(characters[start..<index])), at: (place, start))
        }
        if first.isASCIIDigit {
            while let next = character, next.isASCIIDigit || next == "." { index += 1 }
            let digits = String(characters[start..<index])
            guard character?.isLetter != true, case .number? = JSONValue(json: digits.utf8) else {
                throw Script.problem(place, "\(digits.shown) is not a supported number")
            }
            return add(.number(digits), at: (place, start))
        }
        if first == "\"" || first == "'" { return add(.text(try text(first, place)), at: (place, start)) }
        if first == "`" { return try template(place) }
        guard let mark = Self.marks.first(where: { starts(with: $0) }) else {
            throw Script.problem(place, "\(String(first).shown) is not supported")
        }
        add(.mark(mark))
        index += mark.count
    }

    private mutating func text(_ quote: Character, _ place: Position) throws(Problem) -> String {
        index += 1
        var text = ""
        while let next = character, next != quote {
            guard !next.isNewline else { throw Script.problem(place, "a string is not closed on its line") }
            text.append(try taken())
        }
        guard character == quote else { throw Script.problem(place, "a string is not closed") }
        index += 1
        return text
    }

    private mutating func template(_ place: Position) throws(Problem) {
        add(.mark("`"))
        index += 1
        var text = ""
        while let next = character, next != "`" {
            guard starts(with: "${") else {
                text.append(try taken())
                continue
            }
            add(.text(text))
            text = ""
            add(.mark("${"))
            index += 2
            try skipBlanks()
            while let next = character, next != "}" {
                guard !"`{".contains(next) else {
                    throw Script.problem(position, "a string inside a template string is not supported")
                }
                try read()
                try skipBlanks()
            }
            guard character != nil else { break }
            add(.mark("}"))
            index += 1
        }
        guard character == "`" else { throw Script.problem(place, "a string is not closed") }
        add(.text(text))
        add(.mark("`"))
        index += 1
    }

    private mutating func taken() throws(Problem) -> Character {
        let next = characters[index]
        guard next == "\\", index + 1 < characters.count else {
            step()
            return next
        }
        index += 1
        let letter = characters[index]
        if letter == "u" || letter == "x" {
            throw Script.problem(position, "an escape with digits is not supported; write the character itself")
        }
        step()
        return ["n": "\n", "t": "\t", "r": "\r"][letter] ?? letter
    }
}

extension Script {
    static func problem(_ position: Position, _ what: String) -> Problem {
        Problem(position, what, advice, kind: .script)
    }

    static let advice =
        "without a script engine, handlers support only client.global.set, test, assert and log; give "
        + "--skip-scripts to skip it"
}
