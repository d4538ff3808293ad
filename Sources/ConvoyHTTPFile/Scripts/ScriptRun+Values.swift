// Values of a handler, with the semantics of JavaScript.
import Convoy
import Foundation

extension Script.Expression {
    /// Whether the expression made the value itself, so that the value's size counts against the limit.
    func makes(_ value: JSONValue) -> Bool {
        switch (self, value) {
        case (.list, _), (.each(.map, _, _, _), .array), (.convert(.parsed, _), _), (.header, _): true
        case (.call, .string), (.convert, .string), (.binary(.plus, _, _), .string): true
        default: false
        }
    }
}

extension JSONValue {
    /// Subtracts the size of the value from `bytesLeft`, and stops when the result is negative.
    ///
    /// An element counts each time that it occurs. Lists share an element in memory, but their texts repeat it. A value
    /// with more than 500 levels makes the result negative.
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

extension ScriptRun {
    /// Whether JavaScript treats the value as true in a condition.
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

    /// Formats a number as JavaScript does, without a decimal point if it is an integer.
    private func json(_ number: Double) -> JSONValue? {
        guard number.isFinite else { return .string(number.isNaN ? "NaN" : number > 0 ? "Infinity" : "-Infinity") }
        return .number(Int64(exactly: number).map { String($0) } ?? String(number))
    }

    func compute(_ operation: Script.Operator, _ left: JSONValue?, _ right: JSONValue?) -> JSONValue? {
        switch operation {
        case .same: return .bool(isSame(left, right))
        case .notSame: return .bool(!isSame(left, right))
        case .equal: return .bool(isEqual(left, right))
        case .unequal: return .bool(!isEqual(left, right))
        case .less, .more, .atMost, .atLeast:
            if case .string(let first)? = left, case .string(let second)? = right {
                return .bool(compares(operation, first, second))
            }
            return .bool(compares(operation, number(left), number(right)))
        case .plus:
            let isSum = [left, right].allSatisfy { value in
                switch value {
                case .number?, .bool?, .null?: true
                default: false
                }
            }
            return isSum ? json(number(left) + number(right)) : .string(text(left) + text(right))
        case .minus: return json(number(left) - number(right))
        case .times: return json(number(left) * number(right))
        case .over: return json(number(left) / number(right))
        case .and, .or, .orNull: return nil
        }
    }

    private func compares<Value: Comparable>(_ operation: Script.Operator, _ left: Value, _ right: Value) -> Bool {
        switch operation {
        case .less: left < right
        case .more: left > right
        case .atMost: left <= right
        default: left >= right
        }
    }

    /// Whether two values are equal under JavaScript's `===`.
    ///
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

    func convert(_ conversion: Script.Conversion, _ value: JSONValue?) throws(Defect) -> JSONValue? {
        switch conversion {
        case .number: return json(number(value))
        case .text: return .string(text(value))
        case .bool: return .bool(isTrue(value))
        case .integer: return json(leadingNumber(value, isWhole: true))
        case .decimal: return json(leadingNumber(value, isWhole: false))
        case .json: return value.map { .string($0.json) }
        case .parsed:
            guard let parsed = JSONValue(json: text(value).utf8) else { throw Defect(what: "the string is not JSON") }
            return parsed
        case .isArray: if case .array? = value { return .bool(true) } else { return .bool(false) }
        case .type:
            switch value {
            case nil: return .string("undefined")
            case .bool?: return .string("boolean")
            case .number?: return .string("number")
            case .string?: return .string("string")
            case .null?, .array?, .object?: return .string("object")
            }
        case .not: return .bool(!isTrue(value))
        case .minus: return json(-number(value))
        case .escaped: return .string(text(value).percentEncoded)
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
        guard let base, base != .null else {
            throw Defect(what: "a missing value has no \(method.rawValue.shown)")
        }
        let argument = arguments.first ?? nil
        switch (method, base) {
        case (.toString, _): return .string(base.text)
        case (.valueOf, _): return base
        case (.includes, .array(let elements)): return .bool(elements.contains { isSame($0, argument) })
        case (.includes, .string(let text)): return .bool(text.contains(self.text(argument)))
        case (.startsWith, .string(let text)): return .bool(text.hasPrefix(self.text(argument)))
        case (.endsWith, .string(let text)): return .bool(text.hasSuffix(self.text(argument)))
        case (.hasOwnProperty, .object(let members)):
            return .bool(members.contains { $0.name == text(argument) })
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
        default: throw Defect(what: "the value has no \(method.rawValue.shown)")
        }
    }
}
