// Records the response to a failed request.
import Convoy
import Foundation

extension EventLine {
    /// Records the header fields of a failed response, and the first 64 KiB of its text, without secrets.
    ///
    /// A response that only failed a check is not recorded, because successful responses often contain secrets.
    ///
    /// - Parameter secrets: further secrets that the server's text may repeat, besides those of the request.
    mutating func setAnswer(of error: RequestError, without secrets: Set<String>) {
        guard error.code == .unacceptableStatus, let answer = error.response else { return }
        let hidden = error.sentSecrets(and: secrets)
        let fields = answer.headerFields.map { $0.shown.hiding(hidden) }
        if !fields.isEmpty { head = fields }
        guard let text = error.shownBody, !text.isEmpty, !text.contains("\0") else { return }
        body = text.hiding(hidden)
    }
}

extension RequestError {
    /// The secrets that the attempts sent, and further ones, longest first.
    ///
    /// Secrets of up to three bytes are left out, because ordinary words contain them.
    func sentSecrets(and secrets: Set<String>) -> [String] {
        let sent = attempts.reduce(into: secrets) { $0.formUnion($1.secrets.union($1.request.url.secrets)) }
        return sent.filter { $0.utf8.count > 3 }.sorted { $0.utf8.count > $1.utf8.count }
    }

    /// The first 64 KiB of the response body as text.
    var shownBody: String? { body.map { String(decoding: $0.prefix(1 << 16), as: UTF8.self) } }
}

extension String {
    /// The text with each of some secrets replaced, also where the text was clipped inside a secret.
    func hiding(_ secrets: [String]) -> String {
        secrets.reduce(self) { $0.replacing($1, with: "<redacted>").hidingBeginnings(of: $1) }
    }

    /// Replaces eight or more first characters of a secret before "..." or the end of the text.
    private func hidingBeginnings(of secret: String) -> String {
        let first = String(secret.prefix(8))
        guard secret.count > 8 else { return self }
        var (text, rest) = ("", self[...])
        while let found = rest.range(of: first) {
            var end = found.upperBound
            for next in secret.dropFirst(8) {
                guard end < rest.endIndex, rest[end] == next else { break }
                end = rest.index(after: end)
            }
            let isCut = end == rest.endIndex || rest[end...].hasPrefix("...")
            text += rest[..<found.lowerBound] + (isCut ? "<redacted>" : String(rest[found.lowerBound..<end]))
            rest = rest[end...]
        }
        return text + rest
    }
}

extension HeaderFields.Field {
    /// The field as text without secrets.
    ///
    /// A secret value is replaced. In a field whose value is a URL, only the secrets of the URL are replaced.
    var shown: String {
        if SecretWords.standard.isSecret(name) { return "\(name): <redacted>" }
        guard ["location", "content-location", "referer"].contains(name.lowercased()) else { return description }
        return "\(name): \(SecretWords.standard.redacted(reference: value))"
    }
}

extension URL {
    /// The secrets in a URL, encoded and decoded: the password, and values of parameters whose names indicate a secret.
    fileprivate var secrets: Set<String> {
        let parts = URLComponents(url: self, resolvingAgainstBaseURL: true)
        var found = [parts?.password, parts?.percentEncodedPassword].compactMap { $0 }
        let items = (parts?.queryItems ?? []) + (parts?.percentEncodedQueryItems ?? [])
        found += items.filter { SecretWords.standard.isSecret($0.name) }.compactMap(\.value)
        return Set(found)
    }
}
