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
        for index in requests.indices {
            finder.replace(in: &requests[index])
            if !keepsValues { requests[index].leaveOutSecretTexts() }
        }
        for index in variables.indices where keepsValues { variables[index].isSecret = false }
        variables = finder.variables + variables
    }
}

/// Finds secrets in credentials and cookies, and in fields, parameters and members with a secret name.
struct SecretFinder {
    private(set) var variables: [ImportedFile.Variable] = []
    private var names: [String: String] = [:]
    private var unique: UniqueNames
    /// The names that are secret only in the current request.
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
        // A Boolean or null is not a secret.
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
        request.target = withoutParameters(request.target, behind: "?&")
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
            // `Basic` and `Digest` may be followed by a user name and a password.
            let start = words.count == 3 && ["basic", "digest"].contains(scheme) ? words[2] : words[1]
            let wanted = words.count == 3 && start == words[2] ? "password" : scheme == "basic" ? "basic" : "token"
            var result = Template(text[..<start.startIndex])
            result.append(variable(text[start.startIndex...], wanted))
            return result
        default: return isSecret(name) ? variable(text[...], small) : value
        }
    }

    /// Replaces the literal password in credentials whose user name is a variable.
    private mutating func withoutPassword(_ value: Template) -> Template {
        guard ["basic ", "digest "].contains(value.prefixText.lowercased()), value.parts.count == 3,
            case .text(let text) = value.parts[2], let mark = text.first, " :".contains(mark), text.count > 1
        else { return value }
        var result = Template(parts: value.parts.dropLast())
        result.append(String(mark))
        result.append(variable(text.dropFirst(), "password"))
        return result
    }

    /// Replaces the literal cookie values in a field that also contains placeholders.
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

    /// Replaces the password in a URL, or the user name if there is no password.
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

    /// Replaces the secret values of `name=value` pairs that follow one of the marks.
    mutating func withoutParameters(_ template: Template, behind marks: String) -> Template {
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
                    // If neither a mark nor the end of the template follows, a placeholder continues the value.
                    let isWhole = !rest.isEmpty || place == template.parts.count - 1
                    if isWhole, !value.isEmpty, isSecret(name.removingPercentEncoding ?? name) {
                        // The value of a form may be encoded, and must not be encoded again.
                        let isRaw = marks == "&" && value.contains { "%+".contains($0) }
                        result.append(variable(value, name, isRaw: isRaw))
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
}

extension Template {
    fileprivate init(parts: some Sequence<Part>) {
        self.init()
        self.parts = Array(parts)
    }
}
