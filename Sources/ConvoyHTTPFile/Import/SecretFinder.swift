// Replaces secrets in imported requests with variables.
import Convoy
import Foundation

extension ImportedFile {
    /// Replaces secrets with variables.
    ///
    /// Equal secrets share one variable.
    ///
    /// - Parameter keepsValues: whether the file contains the values. If false, the process environment supplies
    ///   them.
    mutating func takeSecrets(keepsValues: Bool) {
        var finder = SecretFinder(taken: Set(variables.map(\.name)), keepsValues: keepsValues)
        for index in requests.indices { finder.replace(in: &requests[index].request) }
        for index in variables.indices where keepsValues { variables[index].isSecret = false }
        variables = finder.variables + variables
    }
}

/// Finds secrets in credentials and cookies, and in fields, parameters and members with a secret name.
struct SecretFinder {
    private(set) var variables: [ImportedFile.Variable] = []
    private var names: [String: String] = [:]
    private var taken: Set<String>
    private let keepsValues: Bool

    init(taken: Set<String>, keepsValues: Bool) { (self.taken, self.keepsValues) = (taken, keepsValues) }

    private mutating func variable(_ value: Substring, _ wanted: String) -> Template {
        let value = String(value)
        // A Boolean or null is not a secret.
        if ["true", "false", "null"].contains(value) { return Template(value) }
        if let name = names[value] { return Template(placeholder: name) }
        let base = wanted.lowercased().variableName
        var (name, number) = (base, 1)
        while !taken.insert(name).inserted {
            number += 1
            name = "\(base)_\(number)"
        }
        names[value] = name
        variables.append(ImportedFile.Variable(name: name, value: Template(value), isSecret: !keepsValues))
        return Template(placeholder: name)
    }

    mutating func replace(in request: inout FileRequest) {
        for place in request.fields.indices {
            let field = request.fields[place]
            request.fields[place].value = replaced(field.value, of: field.name)
        }
        request.target = withoutUser(request.target)
        request.target = withoutParameters(request.target, behind: "?&")
        let isForm = request.field("content-type")?.value.prefixText.contains("x-www-form-urlencoded") == true
        let isJSON = request.field("content-type")?.value.prefixText.contains("json") == true
        guard isForm || isJSON else { return }
        for place in request.body.indices {
            guard case .text(let text) = request.body[place] else { continue }
            request.body[place] = .text(isForm ? withoutParameters(text, behind: "&") : withoutMembers(text))
        }
    }

    // MARK: Fields

    private mutating func replaced(_ value: Template, of name: String) -> Template {
        let small = name.lowercased()
        // A value with placeholders no longer contains the secret itself.
        guard let text = value.plainText, !text.isEmpty, small != "idempotency-key" else {
            return small == "cookie" ? withoutCookies(value) : value
        }
        switch small {
        case "cookie": return variable(text[...], "cookie")
        case "authorization", "proxy-authorization":
            let words = text.split(maxSplits: 2, whereSeparator: \.isWhitespace)
            guard words.count > 1 else { return variable(text[...], "authorization") }
            let scheme = words[0].lowercased()
            // `Basic` and `Digest` may be followed by a user name and a password.
            let start = words.count == 3 && ["basic", "digest"].contains(scheme) ? words[2] : words[1]
            let wanted = words.count == 3 && start == words[2] ? "password" : scheme == "basic" ? "basic" : "token"
            var result = Template(text[..<start.startIndex])
            result.append(variable(text[start.startIndex...], wanted))
            return result
        default: return SecretWords.standard.isSecret(name) ? variable(text[...], small) : value
        }
    }

    /// Replaces the other cookies in a field that contains cookies of answers.
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
        guard case .text(let text)? = target.parts.first, let start = text.schemeEnd else { return target }
        let authority = text[start...].prefix { !"/?#".contains($0) }
        guard let at = authority.lastIndex(of: "@"), let colon = authority[..<at].firstIndex(of: ":"),
            authority.index(after: colon) < at
        else { return target }
        var result = Template(text[...colon])
        result.append(variable(authority[authority.index(after: colon)..<at], "password"))
        result.append(String(text[at...]))
        result.append(Template(parts: target.parts.dropFirst()))
        return result
    }

    /// Replaces the secret values of `name=value` pairs that follow one of the marks.
    private mutating func withoutParameters(_ template: Template, behind marks: String) -> Template {
        var (result, name, isValue, place) = (Template(), "", false, 0)
        for part in template.parts {
            guard case .text(let text) = part else {
                result.parts.append(part)
                (isValue, place) = (false, place + 1)
                continue
            }
            var rest = text[...]
            while !rest.isEmpty {
                if isValue {
                    let value = rest.prefix { !"&#".contains($0) }
                    rest = rest.dropFirst(value.count)
                    // The value is complete text if a mark or the end follows.
                    let isWhole = !rest.isEmpty || place == template.parts.count - 1
                    if isWhole, !value.isEmpty, SecretWords.standard.isSecret(name.removingPercentEncoding ?? name) {
                        result.append(variable(value, name))
                    } else {
                        result.append(String(value))
                    }
                    isValue = false
                    continue
                }
                let before = rest.prefix { $0 != "=" }
                name = before.split(whereSeparator: { marks.contains($0) }).last.map(String.init) ?? ""
                let isParameter = marks == "&" || result.source.contains("?") || before.contains("?")
                result.append(String(before))
                rest = rest.dropFirst(before.count)
                guard rest.first == "=" else { continue }
                result.append("=")
                rest = rest.dropFirst()
                isValue = isParameter
            }
            place += 1
        }
        return result
    }

    /// Replaces texts of JSON members with a secret name.
    private mutating func withoutMembers(_ template: Template) -> Template {
        template.mappingText { text in
            var result = Template()
            var rest = text[...]
            while let match = rest.firstMatch(of: #/"([A-Za-z0-9_\-]+)"\s*:\s*"((?:[^"\\]|\\.)+)"/#) {
                guard SecretWords.standard.isSecret(String(match.1)) else {
                    result.append(String(rest[..<match.range.upperBound]))
                    rest = rest[match.range.upperBound...]
                    continue
                }
                result.append(String(rest[..<match.2.startIndex]))
                result.append(variable(match.2, String(match.1)))
                rest = rest[match.2.endIndex...]
            }
            result.append(String(rest))
            return result
        }
    }
}

extension Template {
    fileprivate init(parts: some Sequence<Part>) {
        self.init()
        self.parts = Array(parts)
    }
}
