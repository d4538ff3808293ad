// Records the response to a failed request.
import Convoy
import Foundation

extension EventLine {
    /// Records the header fields of a failed response, and the first 64 KiB of its text, without secrets.
    ///
    /// A response with an acceptable status is not recorded, because such responses often contain secrets.
    ///
    /// - Parameter secrets: the secrets to hide, which the server may repeat.
    mutating func setAnswer(of error: RequestError, without secrets: SentSecrets) {
        guard error.code == .unacceptableStatus, let answer = error.response else { return }
        let fields = answer.headerFields.map { secrets.hidden(in: $0.shown) }
        if !fields.isEmpty { head = fields }
        guard let text = error.body.map({ String(decoding: $0.prefix(1 << 16), as: UTF8.self) }), !text.isEmpty,
            !text.contains("\0")
        else { return }
        body = secrets.hidden(in: text)
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
