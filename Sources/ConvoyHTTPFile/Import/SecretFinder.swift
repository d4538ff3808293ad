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
            return small == "cookie" ? value.replacingCookies { variable($1, "cookie_" + $0) } : value
        }
        switch small {
        case "cookie": return variable(text[...], "cookie")
        case "authorization", "proxy-authorization":
            let words = text.split(maxSplits: 2, whereSeparator: \.isWhitespace)
            guard words.count > 1 else { return variable(text[...], "authorization") }
            let scheme = words[0].lowercased()
            let hasUser = words.count == 3 && ["basic", "digest"].contains(scheme)
            let secret = text[words[hasUser ? 2 : 1].startIndex...]
            let wanted = hasUser ? "password" : scheme == "basic" ? "basic" : "token"
            return value.replacing { _, _ in [(secret, variable(secret, wanted))] }
        default: return isSecret(name) ? variable(text[...], small) : value
        }
    }

    private mutating func withoutPassword(_ value: Template) -> Template {
        let hasUser = value.parts.count == 3 && ["basic ", "digest "].contains(value.prefixText.lowercased())
        return value.replacing { text, place in
            guard hasUser, place == 2, " :".contains(text.prefix(1)), text.count > 1 else { return [] }
            return [(text.dropFirst(), variable(text.dropFirst(), "password"))]
        }
    }

    // MARK: URLs and bodies

    private mutating func withoutUser(_ target: Template) -> Template {
        // A password can follow a user name that is a variable.
        let isAfterName = target.prefixText.schemeEnd == target.prefixText.endIndex && target.parts.count > 2
        return target.replacing { text, place in
            guard place == (isAfterName ? 2 : 0), let start = isAfterName ? text.startIndex : text.schemeEnd,
                case let authority = text[start...].authority, let at = authority.lastIndex(of: "@")
            else { return [] }
            let pair = authority[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            // Without a password, the user name can be a token.
            guard let secret = pair.last(where: { !$0.isEmpty }), !isAfterName || pair[0].isEmpty else { return [] }
            return [(secret, variable(secret, pair.count == 2 && !pair[1].isEmpty ? "password" : "user"))]
        }
    }

    private mutating func withoutParameters(_ template: Template, isForm: Bool) -> Template {
        var isQuery = isForm
        return template.replacing { text, place in
            let query = isQuery ? text[...] : text.drop { $0 != "?" }
            isQuery = isQuery || !query.isEmpty
            return query.matches(of: #/([^=&?]*)=([^&#]*)/#).compactMap { pair in
                let (name, value) = (String(pair.1), pair.2)
                // If neither a mark nor the end of the template follows, a placeholder continues the value.
                let isWhole = value.endIndex < text.endIndex || place == template.parts.count - 1
                guard isWhole, !value.isEmpty, isSecret(name.removingPercentEncoding ?? name) else { return nil }
                // The value of a form may be encoded, and must not be encoded again.
                return (value, variable(value, name, isRaw: isForm && value.contains { "%+".contains($0) }))
            }
        }
    }

    private mutating func replaceBody(of request: inout FileRequest) {
        let type = request.field("content-type")?.value.plainText ?? ""
        let boundary = type.hasPrefix("multipart/") ? type.parameter("boundary") : nil
        // Postman collections and curl commands often have no content type for a JSON body, so the text is checked.
        let isJSON = if case .text(let text)? = request.body.first { text.prefixText.looksLikeJSON } else { false }
        for case (let place, .text(let text)) in request.body.enumerated() {
            if let boundary {
                request.body[place] = .text(withoutParts(text, boundary))
            } else if isJSON || type.contains("json") {
                request.body[place] = .text(withoutMembers(text))
            } else if type.contains("x-www-form-urlencoded") {
                request.body[place] = .text(withoutParameters(text, isForm: true))
            }
        }
        for case (let place, .text(let text)) in request.graphQLVariables.enumerated() {
            request.graphQLVariables[place] = .text(withoutMembers(text))
        }
    }

    private mutating func withoutParts(_ template: Template, _ boundary: String) -> Template {
        template.replacing { text, _ in
            text.split(separator: "--" + boundary).compactMap { part in
                guard let head = part.firstRange(of: "\r\n\r\n"), part.last == "\r\n",
                    let name = part[..<head.lowerBound].firstRange(of: "; name=\""),
                    case let secret = part[head.upperBound...].dropLast(), !secret.isEmpty,
                    case let word = String(part[name.upperBound...].prefix { $0 != "\"" }), isSecret(word)
                else { return nil }
                return (secret, variable(secret, word))
            }
        }
    }

    private mutating func withoutMembers(_ template: Template) -> Template {
        let string = #/(?:\\(?s:.)?|[^"\\\r\n])*+/#.matchingSemantics(.unicodeScalar)
        let token = #/"((?:\\(?s:.)?|[^"\\\r\n])*+)("?)|([\w-][\w.+-]*+)|\S/#
        // A placeholder may divide a string.
        var isInText = false
        return template.replacing { text, place in
            var (found, rest) = ([(Substring, Template)](), text[...])
            var (name, secret, isList) = (Substring?.none, String?.none, false)
            if isInText {
                rest = rest.trimmingPrefix(string)
                isInText = rest.isEmpty
                rest = Substring(rest.utf8.dropFirst())
            }
            for token in rest.matches(of: token.asciiOnlyWordCharacters().matchingSemantics(.unicodeScalar)) {
                if let value = token.1, token.2?.isEmpty == true {
                    isInText = value.endIndex == text.endIndex
                    (name, secret, isList) = (nil, nil, false)
                } else if let value = token.1 ?? token.3 {
                    let isText = token.1 != nil
                    let isWhole = value.endIndex < text.endIndex || place == template.parts.count - 1
                    let isNumber =
                        value.utf8.first.map { $0 == UInt8(ascii: "-") || (0x30...0x39).contains($0) } == true
                    if let secret, isText ? !value.isEmpty : isWhole && isNumber {
                        // The text of a member may contain escapes, which must not be escaped again.
                        found.append((value, variable(value, secret, isRaw: value.contains("\\"))))
                    }
                    name = isText && secret != nil ? nil : value
                    if !isList { secret = nil }
                } else if token.0 == ":" {
                    secret = name.map { String($0) }.flatMap { isSecret($0) ? $0 : nil }
                    (name, isList) = (nil, false)
                } else if token.0 == "[", secret != nil {
                    isList = true
                } else if token.0 != "," || !isList {
                    (name, secret, isList) = (nil, nil, false)
                }
            }
            return found
        }
    }
}

extension Template {
    /// `find` returns the values of a text in their order, each with its replacement.
    func replacing(_ find: (_ text: String, _ place: Int) -> [(Substring, Template)]) -> Template {
        var result = Template()
        for (place, part) in parts.enumerated() {
            guard case .text(let text) = part else {
                result.parts.append(part)
                continue
            }
            var start = text.startIndex
            for (value, replacement) in find(text, place) {
                result.append(String(text[start..<value.startIndex]))
                result.append(replacement)
                start = value.endIndex
            }
            result.append(String(text[start...]))
        }
        return result
    }

    func replacingCookies(_ change: (_ name: String, _ value: Substring) -> Template?) -> Template {
        replacing { text, _ in
            text.split(separator: ";").compactMap { pair in
                let value = pair.drop { $0 != "=" }.dropFirst()
                guard !value.isEmpty else { return nil }
                return change(pair.prefix { $0 != "=" }.trimmed, value).map { (value, $0) }
            }
        }
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
        // `isSecret`: a secret name precedes. `isByText`: this name is a string. `isFound`: a value after the name was
        // replaced.
        var (isSecret, isByText, isFound, before) = (false, false, false, Substring())
        func note(_ name: String, isText: Bool) {
            guard name.utf8.count <= 100,
                // The words `code`, `key` and `keys` alone are not secret: a status is a code, and a member of an
                // object has a key.
                isText || !["code", "key", "keys"].contains(name),
                name.contains(" ") ? SecretWords.standard.isSecret(sentence: name) : SecretWords.standard.isSecret(name)
            else { return }
            (isSecret, isByText, isFound) = (true, isText, false)
        }
        let token = #/(["'`])((?:\\.|(?!\1).)*+)(\1?)|([\w-]++)|[^ \t\r]/#
        let scalars = token.dotMatchesNewlines().asciiOnlyWordCharacters().matchingSemantics(.unicodeScalar)
        return replacing(scalars) { token -> Substring in
            defer { before = token.0 }
            let isNumber = token.4?.first?.isASCIIDigit == true
            if isSecret, token.2?.isEmpty == false || isNumber && ",:".contains(before) {
                isFound = true
                return (token.1 ?? "") + "…" + (token.3 ?? "")
            }
            if let text = token.2 {
                note(String(text), isText: true)
            } else if let word = token.4 {
                if !isSecret, !isNumber { note(String(word), isText: false) }
            } else if token.0 == ")" ? isByText : token.0 == "," ? isFound : ";{}\n".contains(token.0) {
                isSecret = false
            }
            return token.0
        }
    }
}
