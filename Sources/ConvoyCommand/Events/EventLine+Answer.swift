// Records the response to a failed request.
import Convoy
import Foundation

extension EventLine {
    /// Records the header fields of a failed response, without secrets.
    mutating func setAnswer(of error: RequestError) {
        guard error.code == .unacceptableStatus, let answer = error.response else { return }
        let fields = answer.headerFields.map(\.shown)
        if !fields.isEmpty { head = fields }
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
