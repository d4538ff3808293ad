import Convoy

struct ScriptReader {
    let tokens: [ScriptLexer.Token]
    var index = 0
    var depth = 0
    private var linkCount = 0
    private var script = Script()
    private var constants: Set<String>
    private let characters: [Character]

    /// The maximum nesting of statements and expressions, because each level needs stack.
    private static let mostLevels = 64
    private static let mostLinks = 1_000

    static func read(_ text: String, at position: Position, after names: Set<String> = []) throws(Problem) -> Script {
        var reader = ScriptReader(
            tokens: try ScriptLexer.tokens(text, at: position), constants: names, characters: Array(text))
        reader.script.statements = try reader.statements(until: "")
        return reader.script
    }

    // MARK: Tokens

    var next: ScriptLexer.Token { tokens[index] }

    func isNext(_ word: String, behind count: Int = 0) -> Bool {
        tokens[index + count].kind != .text && tokens[index + count].text == word
    }

    mutating func take(_ word: String) -> Bool {
        guard isNext(word) else { return false }
        index += 1
        return true
    }

    mutating func need(_ words: String...) throws(Problem) {
        for word in words { guard take(word) else { throw refusal() } }
    }

    private mutating func taken() -> ScriptLexer.Token {
        defer { index += 1 }
        return next
    }

    mutating func needName(_ known: String...) throws(Problem) -> String {
        guard next.kind == .name, known.isEmpty || known.contains(next.text) else { throw refusal() }
        return taken().text
    }

    mutating func needText() throws(Problem) -> String {
        guard next.kind == .text else { throw refusal("the name of a variable must be a string") }
        return taken().text
    }

    func refusal(_ what: String? = nil) -> Problem {
        let word = next.kind == .text ? "a string" : next.kind == .end ? "the end" : next.text
        return Script.problem(next.position, what ?? "\(word.shown) is not supported")
    }

    mutating func deeper<Value>(_ read: (inout Self) throws(Problem) -> Value) throws(Problem) -> Value {
        depth += 1
        defer { depth -= 1 }
        guard depth < Self.mostLevels else { throw refusal("this is nested too deeply") }
        return try read(&self)
    }

    mutating func countLink() throws(Problem) {
        linkCount += 1
        guard linkCount <= Self.mostLinks else {
            throw refusal("this statement has more than \(Self.mostLinks) operators, members and calls: split it")
        }
    }

    // MARK: Statements

    private mutating func statements(until end: String) throws(Problem) -> [Script.Statement] {
        var statements: [Script.Statement] = []
        while true {
            while take(";") {}
            if take(end) { return statements }
            statements += try statement()
        }
    }

    mutating func block() throws(Problem) -> [Script.Statement] {
        try take("{") ? statements(until: "}") : statement()
    }

    private mutating func statement() throws(Problem) -> [Script.Statement] {
        let line = next.position.line
        let action = try deeper { (reader) throws(Problem) in try reader.action() }
        return action.map { [Script.Statement(action: $0, line: line)] } ?? []
    }

    private mutating func action() throws(Problem) -> Script.Action? {
        let outerCount = linkCount
        linkCount = 0
        defer { linkCount = outerCount }
        let start = index
        let first = taken()
        // A string alone, such as "use strict", has no effect and is ignored.
        if first.kind == .text { return nil }
        guard first.kind == .name else {
            index = start
            throw refusal()
        }
        switch first.text {
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
            guard isNext("."), isNext("forEach", behind: 1) else { return nil }
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
        return try .choice(condition, first, take("else") ? block() : [])
    }

    private mutating func loop() throws(Problem) -> Script.Action {
        try need("(")
        _ = try needName("const", "let", "var")
        let name = try needName()
        try need("of")
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
            throw refusal("\(variable.shown) is not a variable name")
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
        guard parameters.isEmpty else { throw refusal("the function of a test cannot have parameters") }
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

    private static let known = Script.conversions.union([
        "true", "false", "null", "undefined", "response", "client", "JSON", "Array", "jsonPath",
    ])

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
        while next.kind == .mark, let own = Script.strengths[next.text], own > strength {
            let operation = taken().text
            try countLink()
            left = .binary(operation, left, try binary(above: own))
        }
        return left
    }

    private mutating func unary() throws(Problem) -> Script.Expression {
        guard isNext("typeof") || isNext("!") || isNext("-") else { return try behind(try primary()) }
        let conversion = taken().text
        if conversion == "typeof", next.kind == .name, !Self.known.contains(next.text), !constants.contains(next.text) {
            // As in JavaScript, `typeof` of an unknown name is "undefined".
            index += 1
            return .literal(.string("undefined"))
        }
        return .convert(conversion, try deeper { (reader) throws(Problem) in try reader.unary() })
    }

    private mutating func primary() throws(Problem) -> Script.Expression {
        let token = taken()
        switch (token.kind, token.text) {
        case (.number, let digits): return .literal(.number(digits))
        case (.text, let text): return .literal(.string(text))
        case (.name, let name): return try named(name)
        case (_, "`"):
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
        case (_, "("):
            let inner = try expression()
            try need(")")
            return inner
        case (_, "["): return .list(try list(until: "]"))
        default:
            index -= 1
            throw refusal()
        }
    }

    private mutating func named(_ name: String) throws(Problem) -> Script.Expression {
        switch name {
        case "true": return .literal(.bool(true))
        case "false": return .literal(.bool(false))
        case "null": return .literal(.null)
        case "undefined": return .literal(nil)
        case _ where constants.contains(name): return .constant(name)
        case "response": return try answer()
        case "client":
            try need(".", "global", ".", "get", "(")
            let variable = try needText()
            try need(")")
            script.globals.insert(variable)
            return .global(variable)
        case "JSON", "Array":
            try need(".")
            let conversion = "\(name).\(next.text)"
            guard next.kind == .name, Script.conversions.contains(conversion) else { throw refusal() }
            index += 1
            return .convert(conversion, try argument())
        case "jsonPath": return try path()
        default:
            guard isNext("("), Script.conversions.contains(name) else {
                index -= 1
                throw refusal()
            }
            return .convert(name, try argument())
        }
    }

    /// Further arguments, such as the indentation of `JSON.stringify`, are ignored.
    private mutating func argument() throws(Problem) -> Script.Expression {
        let empty = refusal("the parentheses contain no value")
        guard let first = try arguments().first else { throw empty }
        return first
    }

    private mutating func path() throws(Problem) -> Script.Expression {
        try need("(")
        let base = try expression()
        try need(",")
        let (place, text) = (next.position, try needText())
        try need(")")
        do throws(Defect) { return .path(base, try JSONPath(text)) } catch { throw Script.problem(place, error.what) }
    }

    private mutating func answer() throws(Problem) -> Script.Expression {
        try need(".")
        let part = try needName("status", "body", "contentType", "headers")
        switch part {
        case "status", "body":
            script.readsStatus = script.readsStatus || part == "status"
            return .constant("response.\(part)")
        case "contentType":
            try need(".")
            return try .constant("response." + needName("mimeType", "charset"))
        default:
            if take("[") {
                let name = try expression()
                try need("]")
                return .header(name)
            }
            try need(".", "valueOf")
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
            guard isNext(".") || isNext("?."), !isNext("forEach", behind: 1) else { return value }
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
        let isWord = take("function")
        var parameters: [String] = []
        // The name of a `function` is ignored.
        if next.kind == .name, case let name = taken().text, !isWord { parameters = [name] }
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
        try need("return")
        let value = try expression()
        _ = take(";")
        try need("}")
        return value
    }
}

struct ScriptLexer {
    struct Token {
        enum Kind { case name, number, text, mark, end }

        var kind: Kind
        var text: String
        var position: Position
        var start: Int
    }

    private static let marks = [
        "===", "!==", "...", "=>", "==", "!=", "<=", ">=", "&&", "||", "??", "?.", "(", ")", "{", "}", "[", "]", ".",
        ",", ";", ":", "?", "!", "<", ">", "=", "+", "-", "*", "/",
    ]

    let characters: [Character]
    private var index = 0
    private var tokens: [Token] = []
    private var line: Int
    /// Zero or negative for the first line, which starts before this text in the file.
    private var lineStart: Int

    init(_ text: String, at position: Position) {
        characters = Array(text)
        (line, lineStart) = (position.line, 1 - position.column)
    }

    static func tokens(_ text: String, at position: Position) throws(Problem) -> [Token] {
        var lexer = ScriptLexer(text, at: position)
        repeat { try lexer.read() } while lexer.tokens.last?.kind != .end
        return lexer.tokens
    }

    private mutating func add(_ kind: Token.Kind, _ text: String, at place: Position? = nil, _ start: Int? = nil) {
        tokens.append(Token(kind: kind, text: text, position: place ?? position, start: start ?? index))
    }

    private mutating func addNext(_ kind: Token.Kind, _ text: String) {
        add(kind, text)
        index += text.count
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
        guard let first = character else { return add(.end, "") }
        if first.isLetter || "_$".contains(first) {
            let name = characters[index...].prefix { $0.isLetter || $0.isNumber || "_$".contains($0) }
            return addNext(.name, String(name))
        }
        if first.isASCIIDigit {
            let digits = String(characters[index...].prefix { $0.isASCIIDigit || $0 == "." })
            addNext(.number, digits)
            guard character?.isLetter != true, case .number? = JSONValue(json: digits.utf8) else {
                throw Script.problem(place, "\(digits.shown) is not a supported number")
            }
            return
        }
        if first == "\"" || first == "'" { return add(.text, try text(first, place), at: place, start) }
        if first == "`" { return try template(place) }
        guard let mark = Self.marks.first(where: { starts(with: $0) }) else {
            throw Script.problem(place, "\(String(first).shown) is not supported")
        }
        addNext(.mark, mark)
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
        addNext(.mark, "`")
        var text = ""
        while let next = character, next != "`" {
            guard starts(with: "${") else {
                text.append(try taken())
                continue
            }
            add(.text, text)
            text = ""
            addNext(.mark, "${")
            try skipBlanks()
            while let next = character, next != "}" {
                guard !"`{".contains(next) else {
                    throw Script.problem(position, "a string inside a template string is not supported")
                }
                try read()
                try skipBlanks()
            }
            guard character != nil else { break }
            addNext(.mark, "}")
        }
        guard character == "`" else { throw Script.problem(place, "a string is not closed") }
        add(.text, text)
        addNext(.mark, "`")
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
