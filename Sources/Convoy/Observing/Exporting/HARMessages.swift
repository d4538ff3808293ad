// Requests and responses in the form of HAR 1.2.
import Foundation

/// Decides which secrets and bodies of a message are recorded.
struct HARStyle: Sendable {
    var revealsSecrets: Bool
    var bodyLimitBytes: Int
    var secretWords: SecretWords
    /// Further secrets that a server or a proxy may repeat.
    var otherSecrets: Set<String> = []

    /// The secrets of a request that later texts of a server must not show.
    func secrets(of request: PreparedRequest) -> Set<String> { revealsSecrets ? [] : request.secrets(secretWords) }

    /// A URL without its fragment.
    ///
    /// Secrets are replaced unless they are revealed.
    func url(_ url: URL) -> String {
        var reference = URLReference(url.absoluteString)
        reference.fragment = nil
        return revealsSecrets ? reference.text : secretWords.redacted(reference: reference.text)
    }

    /// - Parameter secrets: secrets of the request that a response may repeat. They are not replaced in a valid `Date`
    ///   or `Content-Length`, which readers of the archive need.
    func value(_ field: HeaderFields.Field, without secrets: SentSecrets, _ now: Date = Date()) -> String {
        let isPlain =
            field.name.equalsIgnoringCase("Content-Length") && Int64(field.value) != nil
            || field.name.equalsIgnoringCase("Date") && HTTPDate(field.value, now: now) != nil
        return isPlain ? value(field) : secrets.hidden(in: value(field))
    }

    private func value(_ field: HeaderFields.Field) -> String {
        if revealsSecrets { return field.value }
        guard !secretWords.isSecret(field.name) else { return SecretWords.placeholder }
        if field.name.equalsIgnoringCase("Link") { return secretWords.redacted(links: field.value) }
        let isReference = ["Location", "Content-Location", "Referer"].contains { $0.equalsIgnoringCase(field.name) }
        return isReference && !field.isSecret ? secretWords.redacted(reference: field.value) : field.shownValue
    }

    /// A body as text, without the secrets of a form; nil if ``text(_:)`` is nil.
    func text(_ body: Data, contentType: String?) -> String? {
        guard let text = text(body) else { return nil }
        let isForm = contentType?.lowercased().hasPrefix("application/x-www-form-urlencoded") == true
        return isForm && !revealsSecrets ? secretWords.redacted(query: text) : text
    }

    func fields(_ fields: HeaderFields, without secrets: SentSecrets = SentSecrets([])) -> JSONValue {
        .array(fields.map { ["name": .string($0.name), "value": .string(value($0, without: secrets))] })
    }

    /// A body as text; nil if it is larger than the limit or not valid UTF-8.
    func text(_ body: Data) -> String? {
        body.count <= bodyLimitBytes ? String(validating: body, as: UTF8.self) : nil
    }
}

extension AttemptRecord {
    private var httpVersion: String { metrics.map { $0.httpVersion.isEmpty ? "" : "HTTP/\($0.httpVersion)" } ?? "" }

    /// - Parameter secrets: secrets that the URL may contain, because a server has chosen it.
    func harRequest(_ style: HARStyle, without secrets: SentSecrets) -> JSONValue {
        let url = secrets.hidden(inURL: style.url(url))
        let query = URLReference(url).query ?? ""
        let items = query.split(separator: "&").map { item -> JSONValue in
            let pair = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(\.decoded)
            return ["name": .string(pair[0]), "value": .string(pair.count > 1 ? pair[1] : "")]
        }
        let sentHeaderBytes = metrics?.sentHeaderBytes ?? 0
        var json: JSONValue = [
            "method": .string(method.rawValue), "url": .string(url), "httpVersion": .string(httpVersion),
            "cookies": cookies(style), "headers": style.fields(request.headerFields), "queryString": .array(items),
            "headersSize": .integer(sentHeaderBytes > 0 ? sentHeaderBytes : -1),
            "bodySize": .integer(request.body.map { $0.byteCount ?? -1 } ?? 0),
        ]
        guard let body = request.body else { return json }
        let text = body.data.flatMap { style.text($0, contentType: request.headerFields["Content-Type"]) }
        var postData: JSONValue = [
            "mimeType": .string(request.headerFields["Content-Type"] ?? ""), "text": .string(text ?? ""),
        ]
        if text == nil { postData.append("comment", "omitted") }
        json.append("postData", postData)
        return json
    }

    private func cookies(_ style: HARStyle) -> JSONValue {
        // Splits bytes, because a separator and a combining mark after it form one character.
        let pairs = request.headerFields.values(of: "Cookie").flatMap { $0.utf8.split(separator: UInt8(ascii: ";")) }
        return .array(
            pairs.map { pair in
                let halves = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
                    .map { String(Substring($0)).trimmingCharacters(in: .whitespaces) }
                // Without `=`, the complete text may be a secret.
                let value = halves.count > 1 ? halves[1] : halves[0]
                return [
                    "name": .string(halves.count > 1 ? halves[0] : ""),
                    "value": .string(style.revealsSecrets ? value : "<redacted>"),
                ]
            })
    }

    /// - Parameters:
    ///   - secrets: secrets that the response may repeat.
    ///   - body: the bytes of the response, if known.
    func harResponse(_ style: HARStyle, without secrets: SentSecrets, body: Data?, now: Date) -> JSONValue {
        let fields = response?.headerFields ?? [:]
        let location = fields.first { $0.name.equalsIgnoringCase("Location") }
        let receivedHeaderBytes = metrics?.receivedHeaderBytes ?? 0
        let isEncoded = fields.contains("Content-Encoding")
        let declared = failure == nil ? fields["Content-Length"].flatMap { Int64($0) } : nil
        let bodyBytes =
            response == nil || isEncoded ? declared ?? -1 : transfer.download.completedBytes - transfer.resumedBytes
        var json: JSONValue = [
            "status": .integer(Int64(statusCode ?? 0)), "statusText": "", "httpVersion": .string(httpVersion),
            "cookies": .array(fields.values(of: "Set-Cookie").compactMap { setCookie($0, style, now) }),
            "headers": style.fields(fields, without: secrets), "content": content(style, fields, body, secrets),
            "redirectURL": .string(location.map { style.value($0, without: secrets) } ?? ""),
            "headersSize": .integer(receivedHeaderBytes > 0 ? receivedHeaderBytes : -1),
            "bodySize": .integer(bodyBytes),
        ]
        if let failure { json.append("_error", .string(failure.rawValue)) }
        return json
    }

    private func content(
        _ style: HARStyle, _ fields: HeaderFields, _ body: Data?, _ secrets: SentSecrets
    ) -> JSONValue {
        var content: JSONValue = [
            "size": .integer(transfer.download.completedBytes - transfer.resumedBytes),
            "mimeType": .string(fields["Content-Type"].map { secrets.hidden(in: $0) } ?? "x-unknown"),
        ]
        guard let body, response != nil, body.count <= style.bodyLimitBytes else { return content }
        let text = style.text(body, contentType: fields["Content-Type"])
        content.append("text", .string(text ?? body.base64EncodedString()))
        if text == nil { content.append("encoding", "base64") }
        return content
    }

    private func setCookie(_ text: String, _ style: HARStyle, _ now: Date) -> JSONValue? {
        guard let cookie = SetCookie(text[...], limits: CookieJar.Limits(), now: now) else { return nil }
        var json: JSONValue = [
            "name": .string(cookie.name), "value": .string(style.revealsSecrets ? cookie.value : "<redacted>"),
        ]
        if let path = cookie.path, !path.isEmpty { json.append("path", .string(path)) }
        if !cookie.domain.isEmpty { json.append("domain", .string(cookie.domain)) }
        if let expires = cookie.expires { json.append("expires", .string(expires.internetTime)) }
        json.append("httpOnly", .bool(cookie.isHTTPOnly))
        json.append("secure", .bool(cookie.isSecure))
        return json
    }
}

extension Substring {
    /// The percent-decoded text, if the result is valid.
    fileprivate var decoded: String { removingPercentEncoding ?? String(self) }
}
