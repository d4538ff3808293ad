// The secrets of a request, which a server may repeat in its response.
import Foundation

/// Replaces secrets in texts of a response.
package struct SentSecrets: Sendable {
    /// The secrets in all their spellings, longest first.
    private let texts: [String]

    /// Leaves out texts of up to three bytes, `true`, `false` and `null`, because ordinary text contains them.
    package init(_ secrets: Set<String>) {
        let spelled = secrets.reduce(into: Set<String>()) { $0.formUnion($1.spellings) }
        texts = spelled.subtracting(["true", "false", "null"]).filter { $0.utf8.count > 3 }
            .sorted { $0.utf8.count > $1.utf8.count }
    }

    /// The text with each secret replaced, also where the text was clipped inside a secret.
    package func hidden(in text: String) -> String {
        let bytes = Array(text.utf8)
        return texts.reduce(text) { shown, secret in
            // Most responses repeat no secret, and the exact searches are slow.
            guard bytes.contains(bytes: Array(secret.utf8.prefix(8))) else { return shown }
            return shown.replacing(secret, with: SecretWords.placeholder).hidingBeginnings(of: secret)
        }
    }
}

extension PreparedRequest {
    /// The secrets that the request sends, without those of its body.
    ///
    /// These are the password of the URL, and the values of parameters and header fields whose names suggest a secret.
    package func secrets(_ words: SecretWords = .standard) -> Set<String> {
        let parts = URLComponents(url: url, resolvingAgainstBaseURL: true)
        let items = (parts?.queryItems ?? []) + (parts?.percentEncodedQueryItems ?? [])
        let values = items.filter { words.isSecret($0.name) }.map(\.value)
        // A form sends a blank as a plus sign.
        let formValues = values.map { $0?.replacing("+", with: " ") }
        let fields = headerFields.filter { HeaderFields.isSecret($0.name) || words.isSecret($0.name) }
        return Set(([parts?.password, parts?.percentEncodedPassword] + values + formValues).compactMap { $0 })
            .union(fields.flatMap(\.secretWordsOfValue).map { $0.trimmingCharacters(in: ["\""]) })
    }
}

extension HeaderFields.Field {
    /// The words of the value, without the names of cookies and without the scheme of credentials.
    fileprivate var secretWordsOfValue: [String] {
        let words = value.split { " ;,".contains($0) }
        if name.equalsIgnoringCase("Cookie") { return words.flatMap { $0.valuesOfPair.map(String.init) } }
        guard name.lowercased().hasSuffix("authorization"), words.count > 1 else {
            return words.flatMap { $0.split(separator: "=") }.map(String.init)
        }
        let credentials = words.dropFirst().flatMap { $0.valuesOfPair.map(String.init) }
        guard words[0].lowercased() == "basic", let data = Data(base64Encoded: String(words[1])) else {
            return credentials
        }
        let password = String(decoding: data, as: UTF8.self).split(
            separator: ":", maxSplits: 1, omittingEmptySubsequences: false
        ).dropFirst()
        return credentials + password.map(String.init)
    }
}

extension Substring {
    /// The parts of the text between equals signs, without the first part; a single part is returned.
    fileprivate var valuesOfPair: ArraySlice<Substring> {
        let parts = split(separator: "=")
        return parts.count > 1 ? parts.dropFirst() : parts[...]
    }
}

extension String {
    /// The text as a server may repeat it: as sent, decoded, percent-encoded, as a form, in JSON and in HTML.
    fileprivate var spellings: Set<String> {
        let decoded = removingPercentEncoding ?? self
        let escaped = decoded.percentEncoded
        guard escaped != decoded else { return [self, decoded] }
        let parts = escaped.split(separator: "%", omittingEmptySubsequences: false)
        let small = parts.dropFirst().reduce(String(parts.first ?? "")) {
            "\($0)%\($1.prefix(2).lowercased())\($1.dropFirst(2))"
        }
        let quoted = String(decoded.jsonQuoted.unicodeScalars.dropFirst().dropLast())
        var markup = decoded.replacing("&", with: "&amp;")
        for (mark, name) in [("<", "lt"), (">", "gt"), ("\"", "quot")] {
            markup = markup.replacing(mark, with: "&\(name);")
        }
        let all = [
            self, decoded, escaped, small, PercentEscaper.form.escaped(decoded), quoted,
            quoted.replacing("/", with: "\\/"), markup,
        ]
        return Set(all)
    }

    /// Replaces eight or more first characters of a secret before "..." or the end of the text.
    fileprivate func hidingBeginnings(of secret: String) -> String {
        let first = String(secret.prefix(8))
        guard secret.count > 8 else { return self }
        var (text, rest) = ("", self[...])
        while let found = rest.firstRange(of: first) {
            var end = found.upperBound
            for next in secret.dropFirst(8) {
                guard end < rest.endIndex, rest[end] == next else { break }
                end = rest.index(after: end)
            }
            let isCut = end == rest.endIndex || rest[end...].hasPrefix("...")
            // Another beginning may overlap with these characters.
            if !isCut { end = rest.index(after: found.lowerBound) }
            text += rest[..<found.lowerBound] + (isCut ? SecretWords.placeholder : String(rest[found.lowerBound..<end]))
            rest = rest[end...]
        }
        return text + rest
    }
}
