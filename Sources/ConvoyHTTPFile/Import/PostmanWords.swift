// Translates the API of Postman's scripts to that of response handlers.
import Convoy

/// Translates one statement of a Postman script to the API of response handlers.
///
/// Unknown parts stay unchanged, so that the reader rejects them.
enum PostmanWords {
    private static let words = [
        ("pm.response.json()", "response.body"), ("JSON.parse(responseBody)", "response.body"),
        ("JSON.parse(pm.response.text())", "response.body"), ("responseCode.code", "response.status"),
        ("pm.response.code", "response.status"),
        ("pm.response.status", "pm.response.reason"),
        ("pm.response.headers.get(", "response.headers.valueOf("),
        ("postman.getResponseHeader(", "response.headers.valueOf("),
        ("postman.setEnvironmentVariable(", "client.global.set("),
        ("postman.setGlobalVariable(", "client.global.set("),
        ("postman.getEnvironmentVariable(", "client.global.get("),
        ("postman.clearEnvironmentVariable(", "client.global.clear("),
    ]
    private static let stores = ["environment", "globals", "collectionVariables", "variables"]
    private static let verbs = [("set", "set"), ("get", "get"), ("unset", "clear")]

    /// The maximum nesting of tests, because each level needs stack.
    ///
    /// The reader rejects deeper tests.
    private static let mostLevels = 32

    static func translated(_ statement: String, depth: Int = 0) -> String {
        guard depth < mostLevels else { return statement }
        var text = statement
        for (old, new) in words where text.contains(old) { text = text.replacing(old, with: new) }
        for store in stores where text.contains("pm.\(store).") {
            for (old, new) in verbs {
                text = text.replacing("pm.\(store).\(old)(", with: "client.global.\(new)(")
            }
        }
        if let test = test(text) {
            let inner = ScriptStatements.split(test.body).map { "    \(translated($0, depth: depth + 1))\n" }.joined()
            return "client.test(\(test.name), function() {\n\(inner)});"
        }
        if let check = oldTest(text) { return check }
        return assertion(text) ?? text
    }

    /// Parses `pm.test("name", function () { … })`.
    static func test(_ statement: String) -> (name: String, body: String)? {
        guard let start = ["pm.test(", "client.test("].first(where: statement.hasPrefix),
            let arguments = inside(statement.dropFirst(start.count)), arguments.rest.trimmedMarks.isEmpty
        else { return nil }
        let parts = topLevel(arguments.inner)
        guard parts.count == 2, let open = parts[1].firstIndex(of: "{"), parts[1].last == "}" else { return nil }
        return (parts[0], String(parts[1][parts[1].index(after: open)...].dropLast()))
    }

    /// Translates `tests["name"] = condition`.
    private static func oldTest(_ statement: String) -> String? {
        guard statement.hasPrefix("tests["), let close = statement.firstIndex(of: "]") else { return nil }
        let name = statement[statement.index(statement.startIndex, offsetBy: 6)..<close]
        let rest = statement[statement.index(after: close)...].trimmed
        guard rest.hasPrefix("="), !rest.hasPrefix("==") else { return nil }
        return "client.test(\(name), function() { client.assert(\(rest.dropFirst().trimmedMarks)); });"
    }

    // MARK: Expectations

    private static func assertion(_ statement: String) -> String? {
        let fixed = statement.trimmedMarks
        let known = [
            "pm.response.to.be.ok": "response.status >= 200 && response.status < 300",
            "pm.response.to.be.success": "response.status >= 200 && response.status < 300",
            "pm.response.to.be.json": "response.contentType.mimeType.includes(\"json\")",
        ]
        if let condition = known[fixed] { return "client.assert(\(condition));" }
        for (start, condition) in [
            ("pm.response.to.have.status(", "response.status === "),
            ("pm.response.to.have.header(", "response.headers.valueOf("),
        ] {
            guard fixed.hasPrefix(start), let arguments = inside(fixed.dropFirst(start.count)),
                arguments.rest.isEmpty
            else { continue }
            if condition.hasSuffix("(") { return "client.assert(\(condition)\(arguments.inner)));" }
            guard arguments.inner.allSatisfy(\.isASCIIDigit) else { return nil }
            return "client.assert(\(condition)\(arguments.inner));"
        }
        guard fixed.hasPrefix("pm.expect("), let subject = inside(fixed.dropFirst(10)) else { return nil }
        return expectation(topLevel(subject.inner).first ?? "", subject.rest).map { "client.assert(\($0));" }
    }

    private static let comparisons = [
        "equal": "===", "equals": "===", "eql": "===", "eq": "===", "below": "<", "lessThan": "<", "lt": "<",
        "above": ">", "greaterThan": ">", "gt": ">", "least": ">=", "gte": ">=", "most": "<=", "lte": "<=",
    ]
    private static let values = [
        "true": "=== true", "false": "=== false", "null": "=== null", "undefined": "=== undefined",
        "exist": "!= null", "ok": "!= null",
    ]

    /// Translates an expectation: its subject, and a rest such as `.to.be.above(3)`; nil for an unknown rest.
    private static func expectation(_ subject: String, _ rest: Substring) -> String? {
        var (words, argument, rest) = ([String](), String?.none, rest)
        while rest.first == "." {
            let word = rest.dropFirst().prefix { $0.isLetter }
            words.append(String(word))
            rest = rest.dropFirst(word.count + 1)
        }
        if rest.first == "(" {
            guard let arguments = inside(rest.dropFirst()), arguments.rest.isEmpty else { return nil }
            argument = arguments.inner
        } else if !rest.isEmpty {
            return nil
        }
        let links = ["to", "be", "have", "at", "deep", "not", "is"]
        guard let verb = words.last, words.dropLast().allSatisfy(links.contains) else { return nil }
        let isNot = words.contains("not")
        guard let argument, !argument.isEmpty else {
            return values[verb].map { "\(isNot ? "!(" : "")\(subject) \($0)\(isNot ? ")" : "")" }
        }
        var condition: String?
        if let comparison = comparisons[verb] { condition = "\(subject) \(comparison) \(argument)" }
        switch verb {
        case "include", "includes", "contain", "contains": condition = "\(subject).includes(\(argument))"
        case "property" where topLevel(argument).count == 1: condition = "\(subject).hasOwnProperty(\(argument))"
        case "oneOf": condition = "\(argument).includes(\(subject))"
        case "a", "an":
            let kind = argument.filter(\.isLetter)
            condition = kind == "array" ? "Array.isArray(\(subject))" : "typeof \(subject) === \(argument)"
        default: break
        }
        return condition.map { isNot ? "!(\($0))" : $0 }
    }

    // MARK: Parentheses

    /// Splits the text after an opening parenthesis at the closing one; nil if there is none.
    private static func inside(_ text: Substring) -> (inner: String, rest: Substring)? {
        var (depth, quote, isEscaped) = (1, Character?.none, false)
        for index in text.indices {
            let character = text[index]
            if let open = quote {
                if !isEscaped, character == open { quote = nil }
                isEscaped = !isEscaped && character == "\\"
                continue
            }
            switch character {
            case "'", "\"", "`": quote = character
            case "(", "[", "{": depth += 1
            case ")", "]", "}":
                depth -= 1
                if depth == 0 { return (text[..<index].trimmed, text[text.index(after: index)...]) }
            default: break
            }
        }
        return nil
    }

    /// Splits the arguments of a call at the commas outside of brackets and quotes.
    private static func topLevel(_ text: String) -> [String] {
        var (parts, part, depth, quote, isEscaped) = ([String](), "", 0, Character?.none, false)
        for character in text {
            if let open = quote {
                if !isEscaped, character == open { quote = nil }
                isEscaped = !isEscaped && character == "\\"
            } else if "'\"`".contains(character) {
                quote = character
            } else if "([{".contains(character) {
                depth += 1
            } else if ")]}".contains(character) {
                depth -= 1
            } else if character == ",", depth == 0 {
                parts.append(part.trimmed)
                part = ""
                continue
            }
            part.append(character)
        }
        return parts + (part.trimmed.isEmpty ? [] : [part.trimmed])
    }
}

extension StringProtocol {
    /// The text without surrounding blanks and trailing semicolons.
    fileprivate var trimmedMarks: String {
        var text = trimmed
        while text.last == ";" { text = text.dropLast().trimmed }
        return text
    }
}
