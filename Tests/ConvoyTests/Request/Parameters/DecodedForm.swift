// A reader of forms that shares no code with the writer.
import Foundation
import Testing

@testable import Convoy

/// The pairs of a query or a form, unescaped.
struct DecodedForm {
    struct Pair: Hashable, Comparable {
        let key: String
        let value: String

        static func < (left: Pair, right: Pair) -> Bool { (left.key, left.value) < (right.key, right.value) }
    }

    let pairs: [Pair]

    /// Reads a form strictly: its texts may contain only unreserved characters, `/`, `?` and upper-case escapes.
    ///
    /// A `+` is also permitted if it stands for a space.
    init(_ text: String, readsPlusAsSpace: Bool) throws {
        pairs =
            try text.isEmpty
            ? []
            : text.components(separatedBy: "&").map { pair in
                let sides = pair.components(separatedBy: "=")
                try #require(sides.count == 2, "\(pair) has not one equals sign")
                let texts = try sides.map { try Self.unescaped($0, readsPlusAsSpace: readsPlusAsSpace) }
                return Pair(key: texts[0], value: texts[1])
            }
    }

    private static func unescaped(_ text: String, readsPlusAsSpace: Bool) throws -> String {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "%"):
                let digits = String(decoding: rest.prefix(2), as: UTF8.self)
                rest = rest.dropFirst(2)
                let isCapital = digits == digits.uppercased()
                bytes.append(try #require(isCapital ? UInt8(digits, radix: 16) : nil, "%\(digits) is no escape"))
            case UInt8(ascii: "+") where readsPlusAsSpace: bytes.append(UInt8(ascii: " "))
            default:
                let isFine = Character(Unicode.Scalar(byte)).isLetter || Character(Unicode.Scalar(byte)).isNumber
                try #require(byte < 128 && (isFine || "-._~/?".utf8.contains(byte)), "\(byte) is not escaped")
                bytes.append(byte)
            }
        }
        return try #require(String(validating: bytes, as: UTF8.self))
    }
}

/// The values of a form as a server reads them, all as text.
indirect enum DecodedTree: Equatable {
    case text(String)
    case list([String])
    case branches([String: DecodedTree])

    /// Groups pairs by their keys: `a[b]`, `a[0]`, `a[]`, and `a.b` if dots are separators.
    ///
    /// A repeated key is a list.
    init(_ form: DecodedForm, readsDots: Bool) throws {
        self = .branches([:])
        for pair in form.pairs { try add(pair.value, at: Self.steps(of: pair.key, readsDots: readsDots)[...]) }
    }

    private static func steps(of key: String, readsDots: Bool) throws -> [String] {
        var steps = [""]
        var isInside = false
        for character in key {
            switch character {
            case "[":
                try #require(!isInside)
                isInside = true
                steps.append("")
            case "]":
                try #require(isInside)
                isInside = false
            case "." where readsDots: steps.append("")
            default: steps[steps.count - 1].append(character)
            }
        }
        return steps
    }

    private mutating func add(_ value: String, at steps: ArraySlice<String>) throws {
        guard let step = steps.first else {
            switch self {
            case .text(let first): self = .list([first, value])
            case .list(let values): self = .list(values + [value])
            case .branches(let branches):
                try #require(branches.isEmpty, "a value where there are branches")
                self = .text(value)
            }
            return
        }
        if step.isEmpty, steps.count == 1 {
            // Empty brackets mark an element of a list, even of a list with one element.
            if case .list(let values) = self {
                self = .list(values + [value])
                return
            }
            guard case .branches([:]) = self else { throw Unreadable() }
            self = .list([value])
            return
        }
        guard case .branches(var branches) = self else { throw Unreadable() }
        var branch = branches[step] ?? .branches([:])
        try branch.add(value, at: steps.dropFirst())
        branches[step] = branch
        self = .branches(branches)
    }

    struct Unreadable: Error {}
}
