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
        let fields = answer.headerFields.map { hidden.hidden(in: $0.shown) }
        if !fields.isEmpty { head = fields }
        guard let text = error.shownBody, !text.isEmpty, !text.contains("\0") else { return }
        body = hidden.hidden(in: text)
    }
}

extension PreparedRequest {
    /// The secrets that a message must not quote when a server repeats them.
    ///
    /// Shorter values are mostly ordinary words, as in the cookie `theme=plain`. The values of a digest serve for one
    /// request.
    var repeatedSecrets: Set<String> {
        var request = self
        for name in ["Authorization", "Proxy-Authorization"]
        where headerFields[name]?.lowercased().hasPrefix("digest ") == true {
            request.headerFields[name] = nil
        }
        return request.secrets().filter { $0.utf8.count > 5 }
    }
}

extension RequestError {
    /// The secrets that the attempts sent, and further ones.
    func sentSecrets(and secrets: Set<String>) -> SentSecrets {
        SentSecrets(attempts.reduce(into: secrets) { $0.formUnion($1.request.repeatedSecrets) })
    }

    /// The first 64 KiB of the response body as text.
    var shownBody: String? { body.map { String(decoding: $0.prefix(1 << 16), as: UTF8.self) } }
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
