import Convoy
import Foundation

extension ImportedFile {
    mutating func takeSecrets(keepsValues: Bool) {
        var finder = SecretFinder(taken: Set(variables.map(\.name)), keepsValues: keepsValues)
        for index in requests.indices {
            finder.replace(in: &requests[index])
            if !keepsValues { requests[index].leaveOutSecretTexts() }
        }
        for index in variables.indices where keepsValues { variables[index].isSecret = false }
        variables = finder.variables + variables
    }
}

struct SecretFinder {
    private(set) var variables: [ImportedFile.Variable] = []
    private var names: [String: String] = [:]
    private var unique: UniqueNames
    private var secretNames: Set<String> = []
    private let keepsValues: Bool

    init(taken: Set<String>, keepsValues: Bool) {
        (unique, self.keepsValues) = (UniqueNames(taken: taken), keepsValues)
    }

    func isSecret(_ name: String) -> Bool {
        SecretWords.standard.isSecret(name) || secretNames.contains(name.lowercased())
    }

    mutating func variable(_ value: some StringProtocol, _ wanted: String, isRaw: Bool = false) -> Template {
        let value = String(value)
        if ["true", "false", "null"].contains(value) { return Template(value) }
        if let name = names[value] { return Template(placeholder: isRaw ? "&" + name : name) }
        let name = unique.take(wanted.lowercased().variableName)
        names[value] = name
        variables.append(ImportedFile.Variable(name: name, value: Template(value), isSecret: !keepsValues))
        return Template(placeholder: isRaw ? "&" + name : name)
    }

    mutating func replace(in imported: inout ImportedRequest) {
        secretNames = imported.secretNames
        var request = imported.request
        for place in request.fields.indices {
            let field = request.fields[place]
            request.fields[place].value = replaced(field.value, of: field.name)
        }
        request.target = withoutUser(request.target)
        request.target = withoutParameters(request.target, isForm: false)
        replaceBody(of: &request)
        imported.request = request
    }

    // MARK: Fields

    private mutating func replaced(_ value: Template, of name: String) -> Template {
        let small = name.lowercased()
        // In a value with placeholders, only a password after a user name and the values of cookies are replaced.
        guard let text = value.plainText, !text.isEmpty, small != "idempotency-key" else {
            if ["authorization", "proxy-authorization"].contains(small) { return withoutPassword(value) }
            return small == "cookie" ? withoutCookies(value) : value
        }
        switch small {
        case "cookie": return variable(text[...], "cookie")
        case "authorization", "proxy-authorization":
            let words = text.split(maxSplits: 2, whereSeparator: \.isWhitespace)
            guard words.count > 1 else { return variable(text[...], "authorization") }
            let scheme = words[0].lowercased()
            let start = words.count == 3 && ["basic", "digest"].contains(scheme) ? words[2] : words[1]
            let wanted = words.count == 3 && start == words[2] ? "password" : scheme == "basic" ? "basic" : "token"
            var result = Template(text[..<start.startIndex])
            result.append(variable(text[start.startIndex...], wanted))
            return result
        default: return isSecret(name) ? variable(text[...], small) : value
        }
    }

    private mutating func withoutPassword(_ value: Template) -> Template {
        guard ["basic ", "digest "].contains(value.prefixText.lowercased()), value.parts.count == 3,
            case .text(let text) = value.parts[2], let mark = text.first, " :".contains(mark), text.count > 1
        else { return value }
        var result = Template(parts: value.parts.dropLast())
        result.append(String(mark))
        result.append(variable(text.dropFirst(), "password"))
        return result
    }

    private mutating func withoutCookies(_ value: Template) -> Template {
        value.mappingText { text in
            var result = Template()
            for (place, pair) in text.split(separator: ";", omittingEmptySubsequences: false).enumerated() {
                if place > 0 { result.append(";") }
                guard let equals = pair.firstIndex(of: "="), pair.index(after: equals) < pair.endIndex else {
                    result.append(String(pair))
                    continue
                }
                result.append(String(pair[...equals]))
                result.append(variable(pair[pair.index(after: equals)...], "cookie_" + pair[..<equals].trimmed))
            }
            return result
        }
    }

    // MARK: URLs and bodies

    private mutating func withoutUser(_ target: Template) -> Template {
        // A password can follow a user name that is a variable.
        let isAfterName = target.prefixText.schemeEnd == target.prefixText.endIndex && target.parts.count > 2
        let place = isAfterName ? 2 : 0
        guard target.parts.indices.contains(place), case .text(let text) = target.parts[place],
            let start = isAfterName ? text.startIndex : text.schemeEnd
        else { return target }
        let authority = text[start...].prefix { !"/?#".contains($0) }
        guard let at = authority.lastIndex(of: "@"), start < at else { return target }
        let colon = authority[..<at].firstIndex(of: ":")
        if isAfterName, colon != start { return target }
        let first = colon.map { authority.index(after: $0) } ?? start
        // Without a password, the user name can be a token.
        let secret = first < at ? first..<at : start..<(colon ?? at)
        guard !secret.isEmpty else { return target }
        var result = Template(parts: target.parts[..<place])
        result.append(String(text[..<secret.lowerBound]))
        result.append(variable(text[secret], first < at && colon != nil ? "password" : "user"))
        result.append(String(text[secret.upperBound...]))
        result.append(Template(parts: target.parts[(place + 1)...]))
        return result
    }

    private mutating func withoutParameters(_ template: Template, isForm: Bool) -> Template {
        var result = Template()
        for (place, part) in template.parts.enumerated() {
            guard case .text(let text) = part else {
                result.parts.append(part)
                continue
            }
            let query = isForm || result.source.contains("?") ? text[...] : text.drop { $0 != "?" }
            var start = text.startIndex
            for pair in query.matches(of: #/([^=&?]*)=([^&#]*)/#) {
                let (name, value) = (String(pair.1), pair.2)
                // If neither a mark nor the end of the template follows, a placeholder continues the value.
                let isWhole = value.endIndex < text.endIndex || place == template.parts.count - 1
                guard isWhole, !value.isEmpty, isSecret(name.removingPercentEncoding ?? name) else { continue }
                result.append(String(text[start..<value.startIndex]))
                // The value of a form may be encoded, and must not be encoded again.
                result.append(variable(value, name, isRaw: isForm && value.contains { "%+".contains($0) }))
                start = value.endIndex
            }
            result.append(String(text[start...]))
        }
        return result
    }

    mutating func replaceBody(of request: inout FileRequest) {
        let type = request.field("content-type")?.value.plainText ?? ""
        let isForm = type.contains("x-www-form-urlencoded")
        let boundary = type.hasPrefix("multipart/") ? type.parameter("boundary") : nil
        // Postman collections and curl commands often have no content type for a JSON body, so the text is checked.
        let isJSON = if case .text(let text)? = request.body.first { text.prefixText.looksLikeJSON } else { false }
        let hasMembers = isJSON || type.contains("json")
        for place in request.body.indices {
            guard case .text(let text) = request.body[place] else { continue }
            if let boundary {
                request.body[place] = .text(withoutParts(text, boundary))
            } else if hasMembers {
                request.body[place] = .text(withoutMembers(text))
            } else if isForm {
                request.body[place] = .text(withoutParameters(text, isForm: true))
            }
        }
        for place in request.graphQLVariables.indices {
            guard case .text(let text) = request.graphQLVariables[place] else { continue }
            request.graphQLVariables[place] = .text(withoutMembers(text))
        }
    }

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

extension Template {
    fileprivate init(parts: some Sequence<Part>) {
        self.init()
        self.parts = Array(parts)
    }
}

private struct MemberScanner {
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

extension ImportedRequest {
    mutating func leaveOutSecretTexts() {
        notes = notes.map { note in
            ["omitted from its script: ", "omitted from its pre-request script: "].contains(where: note.hasPrefix)
                ? note.withoutSecretTexts : note
        }
        let hidden = handler.map(\.withoutSecretTexts)
        let pairs = zip(handler, hidden)
        guard pairs.contains(where: { $0 != $1 }) else { return }
        notes += pairs.filter { $0 != $1 }.map {
            "omitted from its script, because it contains a secret: \($1.trimmed)"
        }
        handler = pairs.filter { $0 == $1 }.map(\.0)
        let text = handler.joined(separator: "\n")
        guard (try? ScriptReader.read(text, at: .start)) == nil else { return }
        handler = []
        notes.append("omitted: the rest of its script, which needs these statements")
    }
}

extension String {
    /// In `set("password", "x")`, only the x is replaced.
    fileprivate var withoutSecretTexts: String {
        let bytes = Array(utf8)
        var (shown, start, index) = ("", 0, 0)
        // `isSecret`: a secret name precedes. `isByText`: this name is a string. `isFound`: a value after the name was
        // replaced. `mark`: the last byte that is not blank.
        var (isSecret, isByText, isFound, mark) = (false, false, false, UInt8(0))
        func hide(_ range: Range<Int>) {
            shown += String(decoding: bytes[start..<range.lowerBound], as: UTF8.self) + "…"
            (start, isFound) = (range.upperBound, true)
        }
        func noteName(_ range: Range<Int>, isText: Bool) {
            guard range.count <= 100, case let name = String(decoding: bytes[range], as: UTF8.self),
                // The words `code`, `key` and `keys` alone are not secret: a status is a code, and a member of an
                // object has a key.
                isText || !["code", "key", "keys"].contains(name),
                name.contains(" ") ? SecretWords.standard.isSecret(sentence: name) : SecretWords.standard.isSecret(name)
            else { return }
            (isSecret, isByText, isFound) = (true, isText, false)
        }
        while index < bytes.count {
            let (byte, first) = (bytes[index], index)
            index += 1
            switch byte {
            case _ where "'\"`".utf8.contains(byte):
                while index < bytes.count, bytes[index] != byte { index += bytes[index] == UInt8(ascii: "\\") ? 2 : 1 }
                index = min(index, bytes.count)
                let range = first + 1..<index
                if isSecret, !range.isEmpty { hide(range) } else { noteName(range, isText: true) }
                index += 1
            case _ where byte.isWordByte:
                index = bytes[first...].firstIndex { !$0.isWordByte } ?? bytes.count
                let isNumber = (0x30...0x39).contains(byte)
                if isSecret, isNumber, ",:".utf8.contains(mark) { hide(first..<index) }
                if !isSecret, !isNumber { noteName(first..<index, isText: false) }
            case _ where ";{}\n".utf8.contains(byte): isSecret = false
            case UInt8(ascii: ")") where isByText: isSecret = false
            case UInt8(ascii: ",") where isFound: isSecret = false
            default: break
            }
            if !byte.isBlank { mark = byte }
        }
        return shown + String(decoding: bytes[min(start, bytes.count)...], as: UTF8.self)
    }
}
