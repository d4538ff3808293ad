// Finds secrets in forms, in JSON and in GraphQL.
import Convoy

extension SecretFinder {
    mutating func replaceBody(of request: inout FileRequest) {
        let type = request.field("content-type")?.value.plainText ?? ""
        let isForm = type.contains("x-www-form-urlencoded")
        let boundary = type.hasPrefix("multipart/") ? Self.boundary(in: type) : nil
        // Postman collections and curl commands often have no content type for a JSON body, so the text is checked.
        let isJSON =
            if case .text(let text)? = request.body.first {
                text.prefixText.utf8.first { !$0.isBlank }.map { "{[".utf8.contains($0) } ?? false
            } else { false }
        let hasMembers = isJSON || type.contains("json")
        for place in request.body.indices {
            guard case .text(let text) = request.body[place] else { continue }
            if let boundary {
                request.body[place] = .text(withoutParts(text, boundary))
            } else if hasMembers {
                request.body[place] = .text(withoutMembers(text))
            } else if isForm {
                request.body[place] = .text(withoutParameters(text, behind: "&"))
            }
        }
        for place in request.graphQLVariables.indices {
            guard case .text(let text) = request.graphQLVariables[place] else { continue }
            request.graphQLVariables[place] = .text(withoutMembers(text))
        }
    }

    private static func boundary(in type: String) -> String? {
        let parameter = type.split(separator: ";").map(\.trimmed).first { $0.lowercased().hasPrefix("boundary=") }
        return parameter.map { $0.dropFirst(9).filter { $0 != "\"" } }.flatMap { $0.isEmpty ? nil : $0 }
    }

    /// Replaces the contents of the multipart parts with secret names.
    private mutating func withoutParts(_ template: Template, _ boundary: String) -> Template {
        template.mappingText { text in
            var result = Template()
            let parts = text.split(separator: "--" + boundary, omittingEmptySubsequences: false)
            for (place, part) in parts.enumerated() {
                if place > 0 { result.append("--" + boundary) }
                guard let head = part.firstRange(of: "\r\n\r\n"), part.last == "\r\n",
                    let name = part[..<head.lowerBound].firstRange(of: "; name=\""),
                    case let secret = part[head.upperBound...].dropLast(), !secret.isEmpty,
                    case let word = String(part[name.upperBound...].prefix { $0 != "\"" }), isSecret(word)
                else {
                    result.append(String(part))
                    continue
                }
                result.append(String(part[..<head.upperBound]))
                result.append(variable(secret, word))
                result.append("\r\n")
            }
            return result
        }
    }

    /// Replaces the texts and numbers of JSON members and GraphQL arguments whose name is secret.
    private mutating func withoutMembers(_ template: Template) -> Template {
        var result = Template()
        var scanner = MemberScanner()
        for (place, part) in template.parts.enumerated() {
            guard case .text(let text) = part else {
                result.parts.append(part)
                continue
            }
            let bytes = Array(text.utf8)
            var start = 0
            for member in scanner.members(in: bytes, isLast: place == template.parts.count - 1, isSecret) {
                result.append(String(decoding: bytes[start..<member.value.lowerBound], as: UTF8.self))
                let value = String(decoding: bytes[member.value], as: UTF8.self)
                // The text of a member may contain escapes, which must not be escaped again.
                result.append(variable(value, member.name, isRaw: value.contains("\\")))
                start = member.value.upperBound
            }
            result.append(String(decoding: bytes[start...], as: UTF8.self))
        }
        return result
    }
}

/// Finds members with secret names, such as `"token": "value"` and `pin: 1`, byte by byte.
private struct MemberScanner {
    /// Whether the text before a placeholder ended inside quotation marks.
    private var isInText = false

    mutating func members(
        in bytes: [UInt8], isLast: Bool, _ isSecret: (String) -> Bool
    ) -> [(name: String, value: Range<Int>)] {
        var found: [(name: String, value: Range<Int>)] = []
        var (index, name, secret, isList) = (0, Range<Int>?.none, String?.none, false)
        if isInText {
            index = Self.end(of: bytes, from: 0)
            isInText = index == bytes.count
            index += 1
        }
        while index < bytes.count {
            let (byte, first) = (bytes[index], index)
            index += 1
            switch byte {
            case UInt8(ascii: "\""):
                index = Self.end(of: bytes, from: first + 1)
                guard index < bytes.count, bytes[index] == byte else {
                    isInText = index == bytes.count
                    (name, secret, isList) = (nil, nil, false)
                    continue
                }
                if let word = secret {
                    if first + 1 < index { found.append((word, first + 1..<index)) }
                    name = nil
                    if !isList { secret = nil }
                } else {
                    name = first + 1..<index
                }
                index += 1
            case UInt8(ascii: ":"):
                let word = name.map { String(decoding: bytes[$0], as: UTF8.self) }
                (secret, name, isList) = (word.flatMap { isSecret($0) ? $0 : nil }, nil, false)
            case UInt8(ascii: "[") where secret != nil: isList = true
            case UInt8(ascii: ",") where isList: break
            case _ where byte.isBlank: break
            case _ where byte.isWordByte:
                index = bytes[first...].firstIndex { !$0.isWordByte && !".+".utf8.contains($0) } ?? bytes.count
                let isNumber = byte == UInt8(ascii: "-") || (0x30...0x39).contains(byte)
                if let word = secret, isNumber, index < bytes.count || isLast { found.append((word, first..<index)) }
                name = first..<index
                if !isList { secret = nil }
            default: (name, secret, isList) = (nil, nil, false)
            }
        }
        return found
    }

    /// The index of the next quotation mark without a backslash, or of the next line end; the count if none follows.
    private static func end(of bytes: [UInt8], from start: Int) -> Int {
        var index = start
        while index < bytes.count {
            switch bytes[index] {
            case UInt8(ascii: "\""), 0x0A, 0x0D: return index
            case UInt8(ascii: "\\"): index += 2
            default: index += 1
            }
        }
        return bytes.count
    }
}
