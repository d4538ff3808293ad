// The Cache-Control field: RFC 9111, section 5.2.
import Convoy
import Foundation

// An argument may be a token or a quoted string, because a recipient should accept both (RFC 9111, section 5.2).
// Invalid members are ignored.
struct CacheControl: Sendable {
    enum Seconds: Equatable, Sendable {
        case absent
        case value(Int64)
        /// Missing, not a number, or several different ones: an invalid argument must not make a response fresh (RFC
        /// 9111, section 4.2.1).
        case invalid

        var value: Int64? { if case .value(let seconds) = self { seconds } else { nil } }
    }

    private(set) var directives: [(name: String, argument: String?)] = []
    /// Whether the directives are those of a targeted field, which also replaces `Expires` (RFC 9213, section 2.1).
    private(set) var isTargeted = false

    init(_ headerFields: HeaderFields, field: String = "Cache-Control") {
        directives = headerFields.listMembers(of: field).compactMap(Self.directive)
    }

    init(_ directives: [(name: String, argument: String?)], isTargeted: Bool = false) {
        (self.directives, self.isTargeted) = (directives, isTargeted)
    }

    func contains(_ name: String) -> Bool { directives.contains { $0.name == name } }

    /// A directive without field names applies to the complete response.
    func isUnqualified(_ name: String) -> Bool {
        directives.contains { $0.name == name && ($0.argument ?? "").trimmingBlanks.isEmpty }
    }

    func fieldNames(_ name: String) -> Set<String> {
        let names = directives.filter { $0.name == name }.flatMap { ($0.argument ?? "").split(separator: ",") }
        return Set(names.map { $0.trimmingBlanks.lowercased() }).subtracting([""])
    }

    func seconds(_ name: String) -> Seconds {
        var found: Int64?
        for directive in directives where directive.name == name {
            guard let argument = directive.argument, let number = DeltaSeconds.number(argument),
                found == nil || found == number
            else { return .invalid }
            found = number
        }
        return found.map { .value($0) } ?? .absent
    }

    private static func directive(_ member: String) -> (name: String, argument: String?)? {
        let bytes = member.utf8
        guard let sign = bytes.firstIndex(of: UInt8(ascii: "=")) else {
            return isToken(bytes[...]) ? (member.lowercased(), nil) : nil
        }
        let name = bytes[..<sign]
        let argument = bytes[bytes.index(after: sign)...]
        // A blank before the equals sign makes the argument invalid. The directive counts as present, without field
        // names.
        let meant = String(Substring(name)).trimmingBlanks.lowercased()
        guard isToken(meant.utf8[...]) else { return nil }
        guard meant.utf8.count == name.count else { return (meant, " ") }
        return (meant, unquoted(argument))
    }

    static func unquoted(_ argument: Substring.UTF8View) -> String {
        let quote = UInt8(ascii: "\"")
        guard argument.first == quote, argument.count > 1, argument.last == quote else {
            return String(Substring(argument))
        }
        var text: [UInt8] = []
        var isEscaped = false
        for byte in argument.dropFirst().dropLast() {
            isEscaped = !isEscaped && byte == UInt8(ascii: "\\")
            if !isEscaped { text.append(byte) }
        }
        return String(decoding: text, as: UTF8.self)
    }

    private static func isToken(_ bytes: Substring.UTF8View) -> Bool {
        !bytes.isEmpty && bytes.allSatisfy(\.isTokenByte)
    }
}

/// Parses numbers of seconds: RFC 9111, section 1.2.2.
enum DeltaSeconds {
    static let most: Int64 = 1 << 31

    /// A text of digits only; a number above ``most`` becomes ``most``.
    static func number(_ text: String) -> Int64? {
        guard !text.isEmpty else { return nil }
        var number: Int64 = 0
        for byte in text.utf8 {
            guard (0x30...0x39).contains(byte) else { return nil }
            number = min(most, number * 10 + Int64(byte - 0x30))
        }
        return number
    }
}
