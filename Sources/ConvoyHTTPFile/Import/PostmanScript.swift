// Converts Postman scripts to response handlers where a handler can express them.
import Convoy

/// Converts the statements of a script one by one.
///
/// It leaves out those that the handler's reader refuses.
struct PostmanScript {
    private var kept: [String] = []
    private var left: [String] = []

    static func apply(_ events: JSONValue?, to imported: inout ImportedRequest) {
        for event in events?.elements ?? [] where event["disabled"]?.isTrue != true {
            let code = code(of: event)
            guard !code.isEmpty else { continue }
            if event["listen"]?.string == "test" {
                var script = PostmanScript()
                for statement in ScriptStatements.split(code) { script.take(statement) }
                imported.handler = script.kept.flatMap { $0.split(whereSeparator: \.isNewline).map(String.init) }
                imported.notes += script.left.map { "left out of its script: \($0)" }
            } else {
                imported.notes += ScriptStatements.split(code).map { "left out before it: \($0)" }
            }
        }
    }

    /// Whether a folder or a collection contains scripts.
    static func hasCode(_ item: JSONValue) -> Bool {
        item["event"]?.elements.contains { !ScriptStatements.split(code(of: $0)).isEmpty } ?? false
    }

    private static func code(of event: JSONValue) -> String {
        let exec = event["script"]?["exec"]
        let text = exec?.string ?? exec?.elements.compactMap(\.string).joined(separator: "\n") ?? ""
        return text.replacing("\r", with: "")
    }

    private mutating func take(_ statement: String) {
        let translated = PostmanWords.translated(statement)
        if keep(translated) { return }
        guard let test = PostmanWords.test(statement) else { return left.append(statement) }
        // The statements of a test that the reader accepts are kept.
        var inner: [String] = []
        var others: [String] = []
        for statement in ScriptStatements.split(test.body) {
            let translated = PostmanWords.translated(statement)
            let candidate = Self.test(test.name, inner + [translated])
            if Self.isRead(kept + [candidate]) { inner.append(translated) } else { others.append(statement) }
        }
        guard !inner.isEmpty else { return left.append(statement) }
        kept.append(Self.test(test.name, inner))
        left += others
    }

    private mutating func keep(_ statement: String) -> Bool {
        guard Self.isRead(kept + [statement]) else { return false }
        kept.append(statement)
        return true
    }

    private static func test(_ name: String, _ statements: [String]) -> String {
        "client.test(\(name), function() {\n" + statements.map { "    \($0)\n" }.joined() + "});"
    }

    private static func isRead(_ statements: [String]) -> Bool {
        let text = statements.joined(separator: "\n")
        guard !text.contains("%}"), !text.contains("\n###"), !text.hasPrefix("###") else { return false }
        return (try? ScriptReader.read(text, at: Position(line: 1, column: 1))) != nil
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
            if character == ";" || !goesOn(text.trimmed, rest.trimmedStart) { end() }
        }
        end()
        return statements
    }

    private static func goesOn(_ text: String, _ rest: Substring) -> Bool {
        guard let last = text.last, let next = rest.first else { return false }
        return "=+-*/%&|,.(?:<>!".contains(last) || ".?:+*&|".contains(next) || rest.hasPrefix("else")
            || text.hasSuffix(")") && next == "{"
    }
}

extension Substring {
    fileprivate var trimmedStart: Substring { drop(while: \.isWhitespace) }
}
