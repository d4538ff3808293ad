import Convoy
import Foundation

package struct HandlerOutcome: Sendable, Equatable {
    package var globals: [String: JSONValue] = [:]
    package var logs: [String] = []
    package var defects: [String] = []
}

extension Script {
    /// `mostBytes` limits the size of the texts and lists that the handlers may make in all.
    package static func outcome(
        of scripts: [Script], for answer: CheckedAnswer, globals: [String: JSONValue] = [:], mostBytes: Int = 512 << 20
    ) -> HandlerOutcome {
        var run = ScriptRun(answer: answer, globals: globals, mostBytes: mostBytes)
        let answer = run.constants
        for script in scripts {
            run.constants = answer
            do throws(Defect) { try run.run(script.statements) } catch {
                run.outcome.defects.append(error.what)
            }
        }
        return run.outcome
    }
}

/// A value that is nil means `undefined` of JavaScript.
struct ScriptRun {
    let answer: CheckedAnswer
    let globals: [String: JSONValue]
    var constants: [String: JSONValue?] = [:]
    var outcome = HandlerOutcome()
    private var steps = 0
    private static let mostSteps = 1_000_000
    private var bytesLeft: Int
    private let mostBytes: Int

    init(answer: CheckedAnswer, globals: [String: JSONValue], mostBytes: Int) {
        (self.answer, self.globals) = (answer, globals)
        (self.mostBytes, bytesLeft) = (mostBytes, mostBytes)
        let type = answer.fields["content-type"]
        let json = type?.lowercased().contains("json") == false ? nil : JSONValue(json: answer.body)
        constants = [
            "response.status": .number(String(answer.statusCode)),
            "response.body": json ?? .string(String(decoding: answer.body, as: UTF8.self)),
            "response.mimeType": type?.split(separator: ";").first.map { .string($0.trimmed.lowercased()) },
            "response.charset": type?.parameter("charset").map { .string($0) },
        ]
    }

    // MARK: Statements

    mutating func run(_ statements: [Script.Statement]) throws(Defect) {
        for statement in statements {
            do throws(Defect) { try run(statement.action) } catch {
                throw error.what.hasPrefix("line ") ? error : Defect("line \(statement.line): \(error.what)")
            }
        }
    }

    private mutating func run(_ action: Script.Action) throws(Defect) {
        switch action {
        case .set(let name, let expression):
            guard let value = try value(expression) else { throw Defect("the response has no value for \(name)") }
            outcome.globals[name] = value
        case .clear(let name?): outcome.globals[name] = nil
        case .clear(nil): outcome.globals = [:]
        case .constant(let name, let expression): constants[name] = .some(try value(expression))
        case .log(let values): outcome.logs.append(try texts(values).joined(separator: " "))
        case .test(let name, let statements):
            let name = text(try value(name))
            do throws(Defect) { try run(statements) } catch {
                // A failed test does not end the handler, so the other tests still run.
                outcome.defects.append("test \(name.shown): \(error.what)")
            }
        case .assert(let condition, let message, let source):
            guard !isTrue(try value(condition)) else { return }
            guard let message else { throw Defect("\(source.shown) is not true") }
            throw Defect(text(try value(message)))
        case .choice(let condition, let first, let second): try run(isTrue(try value(condition)) ? first : second)
        case .each(let items, let names, let statements):
            let outer = constants
            defer { constants = outer }
            for (place, item) in try elements(of: try value(items)).enumerated() {
                try name(item, place, names)
                try run(statements)
            }
        }
    }

    // MARK: Elements

    private func elements(of value: JSONValue?) throws(Defect) -> [JSONValue] {
        guard case .array(let elements)? = value else { throw Defect("the loop's value is not an array") }
        return elements
    }

    private mutating func name(_ item: JSONValue, _ place: Int, _ names: [String]) throws(Defect) {
        steps += 1
        guard steps <= Self.mostSteps else { throw Defect("its loops have more than \(Self.mostSteps) steps") }
        if let name = names.first { constants[name] = .some(item) }
        if names.count > 1 { constants[names[1]] = .some(.number(String(place))) }
    }

    private mutating func each(
        _ each: Script.Each, _ items: JSONValue?, _ names: [String], _ body: Script.Expression
    ) throws(Defect) -> JSONValue? {
        let outer = constants
        defer { constants = outer }
        var found: [JSONValue] = []
        for (place, item) in try elements(of: items).enumerated() {
            try name(item, place, names)
            let value = try value(body)
            switch each {
            case .map: found.append(value ?? .null)
            case .filter: if isTrue(value) { found.append(item) }
            case .find: if isTrue(value) { return item }
            case .some: if isTrue(value) { return .bool(true) }
            case .every: if !isTrue(value) { return .bool(false) }
            }
        }
        switch each {
        case .map, .filter: return .array(found)
        case .find: return nil
        case .some: return .bool(false)
        case .every: return .bool(true)
        }
    }

    // MARK: Expressions

    private mutating func value(_ expression: Script.Expression) throws(Defect) -> JSONValue? {
        let value = try computed(expression)
        guard let value, expression.makes(value) else { return value }
        try spend(value)
        return value
    }

    private mutating func texts(_ expressions: [Script.Expression]) throws(Defect) -> [String] {
        try expressions.map { (expression) throws(Defect) in
            let value = try self.value(expression)
            try spend(value)
            return text(value)
        }
    }

    private mutating func spend(_ value: JSONValue?) throws(Defect) {
        value?.subtractSize(from: &bytesLeft)
        guard bytesLeft < 0 else { return }
        throw Defect("its texts and lists have more than \(mostBytes >> 20) MiB in all, or 500 levels")
    }

    private mutating func computed(_ expression: Script.Expression) throws(Defect) -> JSONValue? {
        switch expression {
        case .literal(let value): return value
        case .list(let parts): return .array(try parts.map { (part) throws(Defect) in try value(part) ?? .null })
        case .text(let parts): return .string(try texts(parts).joined())
        case .constant(let name): return constants[name] ?? nil
        case .global(let name): return outcome.globals[name] ?? globals[name]
        case .header(let name): return answer.fields[text(try value(name))].map { .string($0) }
        case .member(let base, let name): return try member(try value(base), try value(name))
        case .path(let base, let path): return try value(base).flatMap { path.nodes(in: $0, atMost: 1).first }
        case .call(let method, let base, let arguments):
            let values = try arguments.map { (argument) throws(Defect) in try value(argument) }
            let base = try value(base)
            if method == .join || method == .toString, case .array(let elements)? = base {
                // The size is checked before the text is made, because the text may be very large.
                if let separator = values.first {
                    bytesLeft -= min(elements.count, 1 << 24) * text(separator).utf8.count
                }
                try spend(base)
            }
            return try call(method, base, values)
        case .each(let each, let base, let names, let body): return try self.each(each, try value(base), names, body)
        case .convert(let conversion, let inner):
            let value = try value(inner)
            switch value {
            case .array?, .object?: try spend(value)
            default: break
            }
            return try convert(conversion, value)
        case .binary(let operation, let left, let right): return try binary(operation, left, right)
        case .choice(let condition, let first, let second):
            return try value(isTrue(try value(condition)) ? first : second)
        }
    }

    private func member(_ base: JSONValue?, _ name: JSONValue?) throws(Defect) -> JSONValue? {
        let key = text(name)
        switch base {
        case nil, .null?: throw Defect("a missing value has no \(key.shown)")
        case .object?: return base?[key]
        case .array(let elements)?:
            if key == "length" { return .number(String(elements.count)) }
            return Int(key).flatMap { elements.indices.contains($0) ? elements[$0] : nil }
        case .string(let text)?: return key == "length" ? .number(String(text.utf16.count)) : nil
        case .number?, .bool?: return nil
        }
    }

    private mutating func binary(
        _ operation: String, _ left: Script.Expression, _ right: Script.Expression
    ) throws(Defect) -> JSONValue? {
        let first = try value(left)
        switch operation {
        case "&&": return isTrue(first) ? try value(right) : first
        case "||": return isTrue(first) ? first : try value(right)
        case "??": return first == nil || first == .null ? try value(right) : first
        default: return compute(operation, first, try value(right))
        }
    }

    func isTrue(_ value: JSONValue?) -> Bool {
        switch value {
        case nil, .null?: false
        case .bool(let value)?: value
        case .number?: number(value) != 0 && !number(value).isNaN
        case .string(let text)?: !text.isEmpty
        case .array?, .object?: true
        }
    }

    func text(_ value: JSONValue?) -> String { value?.text ?? "undefined" }

    func number(_ value: JSONValue?) -> Double {
        switch value {
        case nil, .array?, .object?: .nan
        case .null?: 0
        case .bool(let value)?: value ? 1 : 0
        case .number(let digits)?: Double(digits) ?? .nan
        case .string(let text)?: text.trimmed.isEmpty ? 0 : Double(text.trimmed) ?? .nan
        }
    }

    private func json(_ number: Double) -> JSONValue? {
        guard number.isFinite else { return .string(number.isNaN ? "NaN" : number > 0 ? "Infinity" : "-Infinity") }
        return .number(Int64(exactly: number).map { String($0) } ?? String(number))
    }

    func compute(_ operation: String, _ left: JSONValue?, _ right: JSONValue?) -> JSONValue? {
        switch operation {
        case "===": return .bool(isSame(left, right))
        case "!==": return .bool(!isSame(left, right))
        case "==": return .bool(isEqual(left, right))
        case "!=": return .bool(!isEqual(left, right))
        case "+":
            let isSum = [left, right].allSatisfy { value in
                switch value {
                case .number?, .bool?, .null?: true
                default: false
                }
            }
            return isSum ? json(number(left) + number(right)) : .string(text(left) + text(right))
        case "-": return json(number(left) - number(right))
        case "*": return json(number(left) * number(right))
        case "/": return json(number(left) / number(right))
        default:
            if case .string(let first)? = left, case .string(let second)? = right {
                return .bool(compares(operation, first, second))
            }
            return .bool(compares(operation, number(left), number(right)))
        }
    }

    private func compares<Value: Comparable>(_ operation: String, _ left: Value, _ right: Value) -> Bool {
        switch operation {
        case "<": left < right
        case ">": left > right
        case "<=": left <= right
        default: left >= right
        }
    }

    /// Integers are compared by their digits, so that integers with 20 digits are exact.
    private func isSame(_ left: JSONValue?, _ right: JSONValue?) -> Bool {
        guard case .number(let first)? = left, case .number(let second)? = right else { return left == right }
        let isWhole = [first, second].allSatisfy { $0.utf8.allSatisfy { $0 != 0x2E && $0 | 0x20 != 0x65 } }
        return first == second || !isWhole && number(left) == number(right)
    }

    private func isEqual(_ left: JSONValue?, _ right: JSONValue?) -> Bool {
        if left == nil || left == .null { return right == nil || right == .null }
        if right == nil || right == .null { return false }
        switch (left, right) {
        case (.string?, .string?), (.array?, _), (.object?, _), (_, .array?), (_, .object?): return left == right
        default: return isSame(left, right) || number(left) == number(right)
        }
    }

    func convert(_ conversion: String, _ value: JSONValue?) throws(Defect) -> JSONValue? {
        switch conversion {
        case "Number": return json(number(value))
        case "String": return .string(text(value))
        case "Boolean": return .bool(isTrue(value))
        case "parseInt": return json(leadingNumber(value, isWhole: true))
        case "parseFloat": return json(leadingNumber(value, isWhole: false))
        case "JSON.stringify": return value.map { .string($0.json) }
        case "JSON.parse":
            guard let parsed = JSONValue(json: text(value).utf8) else { throw Defect("the string is not JSON") }
            return parsed
        case "Array.isArray": if case .array? = value { return .bool(true) } else { return .bool(false) }
        case "typeof":
            switch value {
            case nil: return .string("undefined")
            case .bool?: return .string("boolean")
            case .number?: return .string("number")
            case .string?: return .string("string")
            case .null?, .array?, .object?: return .string("object")
            }
        case "!": return .bool(!isTrue(value))
        case "-": return json(-number(value))
        default: return .string(text(value).percentEncoded)
        }
    }

    private func leadingNumber(_ value: JSONValue?, isWhole: Bool) -> Double {
        let text = text(value).trimmed
        let digits = text.enumerated().prefix { place, character in
            character.isASCIIDigit || place == 0 && "+-".contains(character) || !isWhole && character == "."
        }
        return Double(String(digits.map(\.element))) ?? .nan
    }

    func call(_ method: Script.Method, _ base: JSONValue?, _ arguments: [JSONValue?]) throws(Defect) -> JSONValue? {
        guard let base, base != .null else { throw Defect("a missing value has no \(method.rawValue.shown)") }
        let argument = arguments.first ?? nil
        switch (method, base) {
        case (.toString, _): return .string(base.text)
        case (.valueOf, _): return base
        case (.includes, .array(let elements)): return .bool(elements.contains { isSame($0, argument) })
        case (.includes, .string(let text)): return .bool(text.contains(self.text(argument)))
        case (.startsWith, .string(let text)): return .bool(text.hasPrefix(self.text(argument)))
        case (.endsWith, .string(let text)): return .bool(text.hasSuffix(self.text(argument)))
        case (.hasOwnProperty, .object(let members)): return .bool(members.contains { $0.name == text(argument) })
        case (.hasOwnProperty, _): return .bool(false)
        case (.toLowerCase, .string(let text)): return .string(text.lowercased())
        case (.toUpperCase, .string(let text)): return .string(text.uppercased())
        case (.trim, .string(let text)): return .string(text.trimmed)
        case (.join, .array(let elements)):
            return .string(elements.map(\.text).joined(separator: argument == nil ? "," : text(argument)))
        case (.at, .array(let elements)):
            let index = Int(number(argument).isFinite ? max(-1e9, min(1e9, number(argument))) : 0)
            let place = index < 0 ? elements.count + index : index
            return elements.indices.contains(place) ? elements[place] : nil
        default: throw Defect("the value has no \(method.rawValue.shown)")
        }
    }
}

extension Script.Expression {
    func makes(_ value: JSONValue) -> Bool {
        switch (self, value) {
        case (.list, _), (.each(.map, _, _, _), .array), (.convert("JSON.parse", _), _), (.header, _): true
        case (.call, .string), (.convert, .string), (.binary("+", _, _), .string): true
        default: false
        }
    }
}

extension JSONValue {
    // An element counts each time that it occurs: lists share it in memory, but their texts repeat it. A value with
    // more than 500 levels makes the result negative.
    func subtractSize(from bytesLeft: inout Int, level: Int = 1) {
        bytesLeft -= level > 500 ? .max / 2 : 16
        switch self {
        case .null, .bool: break
        case .number(let text), .string(let text): bytesLeft -= text.utf8.count
        case .array(let elements):
            for element in elements where bytesLeft >= 0 { element.subtractSize(from: &bytesLeft, level: level + 1) }
        case .object(let members):
            for member in members where bytesLeft >= 0 { member.value.subtractSize(from: &bytesLeft, level: level + 1) }
        }
    }
}
