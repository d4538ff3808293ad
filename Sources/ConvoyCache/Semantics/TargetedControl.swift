// Targeted cache control fields, such as `CDN-Cache-Control`: RFC 9213.
import Convoy
import Foundation

extension CacheControl {
    // Nil if the field is missing, invalid (RFC 9213, section 2.1) or without a known directive. Parameters of members
    // are ignored, and so is a directive in seconds whose value does not start with a digit.
    init?(targeted headerFields: HeaderFields, field: String) {
        let members = headerFields.listMembers(of: field)
        guard !members.isEmpty else { return nil }
        var read: [(name: String, argument: String?)] = []
        for member in members {
            guard let directive = Self.structured(member) else { return nil }
            read.removeAll { $0.name == directive.name }
            read.append(directive)
        }
        read = read.filter { !Self.inSeconds.contains($0.name) || $0.argument?.first?.isNumber == true }
        if read.isEmpty { return nil }
        // A directive with the value false (`?0`) has no effect.
        let directives = read.filter { $0.argument != "?0" }.map { directive in
            (directive.name, directive.argument.map { Self.unquoted($0[...].utf8) })
        }
        self.init(directives, isTargeted: true)
    }

    private static let inSeconds: Set<String> = [
        "max-age", "s-maxage", "stale-while-revalidate", "stale-if-error",
    ]

    private static func structured(_ member: String) -> (name: String, argument: String?)? {
        let bytes = Array(member.utf8)
        let name = bytes.prefix(while: "abcdefghijklmnopqrstuvwxyz0123456789_-.*".utf8.contains)
        guard let first = name.first, first == UInt8(ascii: "*") || (0x61...0x7a).contains(first) else { return nil }
        let key = String(decoding: name, as: UTF8.self)
        let rest = bytes[name.endIndex...]
        guard rest.first == UInt8(ascii: "=") else {
            return rest.isEmpty || rest.first == UInt8(ascii: ";") ? (key, nil) : nil
        }
        guard let item = item(rest.dropFirst()) else { return nil }
        if item == "?1" { return (key, nil) }
        return (key, item)
    }

    private static func item(_ bytes: ArraySlice<UInt8>) -> String? {
        guard let first = bytes.first else { return nil }
        let length: Int?
        switch first {
        case 0x30...0x39, UInt8(ascii: "-"):
            let count = bytes.dropFirst().prefix { (0x30...0x39).contains($0) || $0 == UInt8(ascii: ".") }.count + 1
            length = count > 16 || first == UInt8(ascii: "-") && count == 1 ? nil : count
        case UInt8(ascii: "\""): length = stringLength(bytes)
        case UInt8(ascii: "?"):
            length = bytes.dropFirst().first.map { $0 == 0x30 || $0 == 0x31 } == true ? 2 : nil
        case UInt8(ascii: ":"): length = bytes.dropFirst().firstIndex(of: first).map { $0 - bytes.startIndex + 1 }
        case 0x41...0x5a, 0x61...0x7a, UInt8(ascii: "*"):
            length = bytes.prefix { $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: ";") }.count
        default: length = nil
        }
        guard let length else { return nil }
        let rest = bytes.dropFirst(length)
        guard rest.isEmpty || rest.first == UInt8(ascii: ";") else { return nil }
        return String(decoding: bytes.prefix(length), as: UTF8.self)
    }

    private static func stringLength(_ bytes: ArraySlice<UInt8>) -> Int? {
        var isEscaped = false
        for (index, byte) in bytes.enumerated().dropFirst() {
            if !isEscaped, byte == UInt8(ascii: "\"") { return index + 1 }
            isEscaped = !isEscaped && byte == UInt8(ascii: "\\")
        }
        return nil
    }
}
