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
        let sent = error.attempts.reduce(into: secrets) { $0.formUnion($1.secrets.union($1.request.url.secrets)) }
        // Secrets of up to three bytes are not replaced, because ordinary words contain them.
        let hidden = sent.filter { $0.utf8.count > 3 }.sorted { $0.utf8.count > $1.utf8.count }
        func shown(_ text: String) -> String {
            hidden.reduce(text) { $0.replacing($1, with: "<redacted>") }
        }
        let fields = answer.headerFields.map { shown($0.shown) }
        if !fields.isEmpty { head = fields }
        guard let text = error.body?.prefix(1 << 16), !text.isEmpty, !text.contains(0) else { return }
        body = shown(String(decoding: text, as: UTF8.self))
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
