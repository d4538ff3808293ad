// Converts Postman scripts to response handlers where a handler can express them.
import Convoy

/// Converts the statements of a script one by one.
///
/// Statements that `ScriptReader` rejects are omitted.
struct PostmanScript {
    private var kept: [String] = []
    private var left: [String] = []
    /// The names that the statements in `kept` define.
    private var names: Set<String> = []

    static func apply(_ events: JSONValue?, to imported: inout ImportedRequest) {
        // Postman runs the scripts of several events one after another, so they become one handler.
        var script = PostmanScript()
        for event in events?.elements ?? [] where event["disabled"]?.isTrue != true {
            let code = code(of: event)
            guard !code.isEmpty else { continue }
            if event["listen"]?.string == "test" {
                for statement in ScriptStatements.split(code) { script.take(statement) }
            } else {
                imported.notes += ScriptStatements.split(code).map { "omitted from its pre-request script: \($0)" }
            }
        }
        script.check()
        imported.handler = script.kept.flatMap { $0.split(whereSeparator: \.isNewline).map(String.init) }
        imported.notes += script.left.map { "omitted from its script: \($0)" }
    }

    /// Whether a folder or a collection contains scripts.
    static func hasCode(_ item: JSONValue) -> Bool {
        item["event"]?.elements.contains { !ScriptStatements.split(code(of: $0)).isEmpty } ?? false
    }

    private static func code(of event: JSONValue) -> String {
        let exec = event["script"]?["exec"]
        let text = exec?.string ?? exec?.elements.compactMap(\.string).joined(separator: "\n") ?? ""
        // The scalars are filtered, because CR and LF together are one `Character`.
        return String(String.UnicodeScalarView(text.unicodeScalars.filter { $0 != "\r" }))
    }

    /// Adds a statement to `kept` if the reader accepts it with the names that earlier statements define.
    ///
    /// If the reader rejects a test, `kept` gets a test with the accepted statements of the original. All other
    /// statements are added to `left`.
    private mutating func take(_ statement: String) {
        let translated = PostmanWords.translated(statement)
        if let names = Self.names(in: translated, after: names) {
            self.names.formUnion(names)
            return kept.append(translated)
        }
        guard let test = PostmanWords.test(statement) else { return left.append(statement) }
        // The reader has rejected the complete test. Each of its statements is now tried separately.
        var (inner, others, known) = ([String](), [String](), names)
        for statement in ScriptStatements.split(test.body) {
            let translated = PostmanWords.translated(statement)
            if let names = Self.names(in: translated, after: known) {
                known.formUnion(names)
                inner.append(translated)
            } else {
                others.append(statement)
            }
        }
        let candidate = Self.test(test.name, inner)
        guard !inner.isEmpty, Self.names(in: candidate, after: names) != nil else { return left.append(statement) }
        kept.append(candidate)
        left += others
    }

    /// Omits all statements if the reader rejects them as one script.
    private mutating func check() {
        guard !kept.isEmpty, Self.names(in: kept.joined(separator: "\n"), after: []) == nil else { return }
        (kept, left) = ([], kept + left)
    }

    private static func test(_ name: String, _ statements: [String]) -> String {
        "client.test(\(name), function() {\n" + statements.map { "    \($0)\n" }.joined() + "});"
    }

    /// The constants that a script defines; nil if the reader rejects the script.
    private static func names(in text: String, after names: Set<String>) -> [String]? {
        guard !text.contains("%}"), !text.contains("\n###"), !text.hasPrefix("###"),
            let script = try? ScriptReader.read(text, at: Position(line: 1, column: 1), after: names)
        else { return nil }
        return script.statements.compactMap { if case .constant(let name, _) = $0.action { name } else { nil } }
    }
}

/// Splits a script at semicolons and line ends.
enum ScriptStatements {
    /// The statements, without the comments between them.
    static func split(_ code: String) -> [String] {
        var (statements, text, depth) = ([String](), "", 0)
        var rest = code[...]
        func end() {
            let statement = text.trimmed
            if !statement.isEmpty { statements.append(statement) }
            text = ""
        }
        while let character = rest.first {
            if rest.hasPrefix("//") {
                rest = rest.drop { !$0.isNewline }
                continue
            }
            if rest.hasPrefix("/*") {
                rest = rest.dropFirst(2).firstRange(of: "*/").map { rest[$0.upperBound...] } ?? ""
                continue
            }
            rest = rest.dropFirst()
            switch character {
            case "'", "\"", "`":
                text.append(character)
                var isEscaped = false
                while let next = rest.popFirst() {
                    text.append(next)
                    if !isEscaped, next == character { break }
                    isEscaped = !isEscaped && next == "\\"
                }
                continue
            case "(", "[", "{": depth += 1
            case ")", "]", "}": depth -= 1
            default: break
            }
            text.append(character)
            guard depth <= 0, character == ";" || character.isNewline else { continue }
            depth = 0
            // The blanks after a line end are skipped now, so that later line ends do not read them again.
            if character != ";" { rest = rest.trimmedStart }
            if character == ";" || !goesOn(text.last { !$0.isWhitespace }, rest) { end() }
        }
        end()
        return statements
    }

    private static func goesOn(_ last: Character?, _ rest: Substring) -> Bool {
        guard let last, let next = rest.first else { return false }
        return "=+-*/%&|,.(?:<>!".contains(last) || ".?:+*&|".contains(next) || rest.hasPrefix("else")
            || last == ")" && next == "{"
    }
}

extension Substring {
    fileprivate var trimmedStart: Substring { drop(while: \.isWhitespace) }
}
