import Convoy
import Foundation

package struct Surroundings: Sendable {
    /// The values of `--variable`, which take precedence over all other values.
    package var given: [String: String] = [:]
    /// The rows' columns, which take precedence over variables of the file.
    package var columns: Set<String> = []
    package var environments = Environments()
    /// With nil, only `$shared` applies.
    package var environmentName: String?
    package var processEnvironment: [String: String] = [:]
    package var dotEnvironment: [String: String] = [:]
    package var readFile: @Sendable (String) throws(Unreadable) -> [UInt8] = { _ throws(Unreadable) in
        throw Unreadable(reason: "files cannot be read")
    }
    package var defectOfFile: @Sendable (String) -> String? = { _ in nil }
    package var now: @Sendable () -> Date = { Date() }
    package var skipsScripts = false

    package init() {}
}

package struct Environments: Sendable {
    struct Value: Sendable {
        var template: Template
        var isSecret: Bool
        var problems: [Problem] = []
    }

    static let shared = "$shared"

    private(set) var values: [String: [String: Value]] = [:]
    package private(set) var problems: [Problem] = []

    package init() {}

    package var names: [String] { values.keys.filter { $0 != Self.shared }.sorted() }

    package mutating func add(_ bytes: [UInt8], file: String, isSecret: Bool) {
        let text = String(decoding: bytes, as: UTF8.self)
        if text.trimmed.isEmpty { return }
        let root: JSONValue
        func report(_ place: Position, _ what: String, _ advice: String) {
            problems.append(Problem(place, what, advice, file: file))
        }
        let json = String(validating: bytes, as: UTF8.self).map { Array($0.withoutComments.utf8) } ?? bytes
        do throws(JSONReader.Defect) { root = try JSONReader.read(json) } catch {
            let place = Position(line: error.line, column: error.column)
            return report(place, "the file is not JSON: \(error.what)", "correct it there")
        }
        guard case .object(let environments) = root else {
            return report(.start, "the file is not an object", "write {\"dev\": {\"host\": \"example.com\"}}")
        }
        for environment in environments {
            guard case .object(let variables) = environment.value else {
                report(
                    Position(ofName: environment.name, in: text),
                    "the environment \(environment.name.shown) is not an object",
                    "write \(environment.name.jsonQuoted): {\"host\": \"example.com\"}")
                continue
            }
            add(variables, prefix: "", to: environment.name, text, file, isSecret)
        }
    }

    private mutating func add(
        _ variables: [JSONValue.Member], prefix: String, to environment: String, _ text: String, _ file: String,
        _ isSecret: Bool
    ) {
        for variable in variables {
            let name = prefix + variable.name
            if case .object(let inner) = variable.value {
                add(inner, prefix: name + ".", to: environment, text, file, isSecret)
            }
            var problems: [Problem] = []
            let hasPlaceholders = variable.value.text.contains("{{")
            let place = hasPlaceholders ? Position(ofName: variable.name, in: text) : .start
            let read = Template.read(lines: variable.value.text, file: file, &problems) { _ in place }
            let template = read.mappingText({ Template($0) }) { placeholder in
                var placeholder = placeholder
                placeholder.position = place
                return placeholder
            }
            values[environment, default: [:]][name] = Value(template: template, isSecret: isSecret, problems: problems)
        }
    }
}

extension String {
    /// JetBrains' HTTP Client allows comments in the files of environments.
    fileprivate var withoutComments: String {
        let comment = #/"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?(?:\*/|\z)/#.dotMatchesNewlines()
        return replacing(comment.matchingSemantics(.unicodeScalar)) { match in
            match.output.first == "/" ? String(match.output.map { $0.isNewline ? $0 : " " }) : String(match.output)
        }
    }
}

extension Position {
    fileprivate init(ofName name: String, in text: String) {
        guard let start = text.firstRange(of: name.jsonQuoted)?.lowerBound else {
            self = .start
            return
        }
        let lines = text[..<start].split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
        self.init(line: lines.count, column: (lines.last?.count ?? 0) + 1)
    }
}

package enum DotEnvironment {
    package static func read(_ text: String) -> [String: String] {
        var values: [String: String] = [:]
        for line in text.split(whereSeparator: \.isNewline) {
            var content = line.trimmed
            if content.hasPrefix("export ") { content = content.dropFirst(7).trimmed }
            guard !content.hasPrefix("#"), let equals = content.firstIndex(of: "=") else { continue }
            let name = content[..<equals].trimmed
            values[name] = value(content[content.index(after: equals)...].trimmed)
        }
        return values
    }

    private static func value(_ text: String) -> String {
        guard let quote = text.first, "'\"`".contains(quote), let end = text.dropFirst().firstIndex(of: quote) else {
            return text.range(of: " #").map { text[..<$0.lowerBound].trimmed } ?? text
        }
        let inner = String(text[text.index(after: text.startIndex)..<end])
        return quote == "\"" ? inner.replacing("\\n", with: "\n") : inner
    }
}
