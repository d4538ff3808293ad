// Requests and responses as HAR 1.2 tells them.
import Foundation

/// What of a message is shown.
struct HARStyle: Sendable {
    var revealsSecrets: Bool
    var bodyLimitBytes: Int
    var secretWords: SecretWords

    /// A URL without its fragment, and without secrets unless they are shown.
    func url(_ url: URL) -> String {
        var reference = URLReference(url.absoluteString)
        reference.fragment = nil
        return revealsSecrets ? reference.text : secretWords.redacted(reference: reference.text)
    }

    func value(_ field: HeaderFields.Field) -> String {
        if revealsSecrets { return field.value }
        guard !secretWords.isSecret(field.name) else { return SecretWords.placeholder }
        if field.name.equalsIgnoringCase("Link") { return secretWords.redacted(links: field.value) }
        let isReference = ["Location", "Content-Location", "Referer"].contains { $0.equalsIgnoringCase(field.name) }
        return isReference && !field.isSecret ? secretWords.redacted(reference: field.value) : field.shownValue
    }

    /// The body of a request as text, without the secrets of a form.
    func text(_ body: Data, contentType: String?) -> String? {
        guard let text = text(body) else { return nil }
        let isForm = contentType?.lowercased().hasPrefix("application/x-www-form-urlencoded") == true
        return isForm && !revealsSecrets ? secretWords.redacted(query: text) : text
    }

    func fields(_ fields: HeaderFields) -> JSONText {
        .list(fields.map { ["name": .text($0.name), "value": .text(value($0))] })
    }

    /// A body that is kept, as text.
    func text(_ body: Data) -> String? {
        body.count <= bodyLimitBytes ? String(validating: body, as: UTF8.self) : nil
    }
}

extension AttemptRecord {
    private var httpVersion: String { metrics.map { $0.httpVersion.isEmpty ? "" : "HTTP/\($0.httpVersion)" } ?? "" }

    func harRequest(_ style: HARStyle) -> JSONText {
        let query = URLReference(style.url(url)).query ?? ""
        let items = query.split(separator: "&").map { item -> JSONText in
            let pair = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(\.decoded)
            return ["name": .text(pair[0]), "value": .text(pair.count > 1 ? pair[1] : "")]
        }
        let sentHeaderBytes = metrics?.sentHeaderBytes ?? 0
        let json: JSONText = [
            "method": .text(method.rawValue), "url": .text(style.url(url)), "httpVersion": .text(httpVersion),
            "cookies": cookies(style), "headers": style.fields(request.headerFields), "queryString": .list(items),
            "headersSize": .integer(sentHeaderBytes > 0 ? sentHeaderBytes : -1),
            "bodySize": .integer(request.body.map { $0.byteCount ?? -1 } ?? 0),
        ]
        guard let body = request.body else { return json }
        let text = body.data.flatMap { style.text($0, contentType: request.headerFields["Content-Type"]) }
        let postData: JSONText = [
            "mimeType": .text(request.headerFields["Content-Type"] ?? ""), "text": .text(text ?? ""),
        ]
        return json.adding([("postData", text == nil ? postData.adding([("comment", "left out")]) : postData)])
    }

    private func cookies(_ style: HARStyle) -> JSONText {
        // By bytes: a separator and a combining mark behind it are one character.
        let pairs = request.headerFields.values(of: "Cookie").flatMap { $0.utf8.split(separator: UInt8(ascii: ";")) }
        return .list(
            pairs.map { pair in
                let halves = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
                    .map { String(Substring($0)).trimmingCharacters(in: .whitespaces) }
                // Without `=` all of it may be a secret.
                let value = halves.count > 1 ? halves[1] : halves[0]
                return [
                    "name": .text(halves.count > 1 ? halves[0] : ""),
                    "value": .text(style.revealsSecrets ? value : "<redacted>"),
                ]
            })
    }

    /// - Parameter body: the bytes of the answer, where they are known.
    func harResponse(_ style: HARStyle, body: Data?, now: Date) -> JSONText {
        let fields = response?.headerFields ?? [:]
        let receivedHeaderBytes = metrics?.receivedHeaderBytes ?? 0
        let isEncoded = fields.contains("Content-Encoding")
        let declared = failure == nil ? fields["Content-Length"].flatMap { Int64($0) } : nil
        let bodyBytes =
            response == nil || isEncoded ? declared ?? -1 : transfer.download.completedBytes - transfer.resumedBytes
        let json: JSONText = [
            "status": .integer(Int64(statusCode ?? 0)), "statusText": "", "httpVersion": .text(httpVersion),
            "cookies": .list(fields.values(of: "Set-Cookie").compactMap { setCookie($0, style, now) }),
            "headers": style.fields(fields), "content": content(style, fields, body),
            "redirectURL": .text(fields.first { $0.name.equalsIgnoringCase("Location") }.map(style.value) ?? ""),
            "headersSize": .integer(receivedHeaderBytes > 0 ? receivedHeaderBytes : -1),
            "bodySize": .integer(bodyBytes),
        ]
        return failure.map { json.adding([("_error", .text($0.rawValue))]) } ?? json
    }

    private func content(_ style: HARStyle, _ fields: HeaderFields, _ body: Data?) -> JSONText {
        let content: JSONText = [
            "size": .integer(transfer.download.completedBytes - transfer.resumedBytes),
            "mimeType": .text(fields["Content-Type"] ?? "x-unknown"),
        ]
        guard let body, response != nil, body.count <= style.bodyLimitBytes else { return content }
        guard let text = style.text(body, contentType: fields["Content-Type"]) else {
            return content.adding([("text", .text(body.base64EncodedString())), ("encoding", "base64")])
        }
        return content.adding([("text", .text(text))])
    }

    private func setCookie(_ text: String, _ style: HARStyle, _ now: Date) -> JSONText? {
        guard let cookie = SetCookie(text[...], limits: CookieJar.Limits(), now: now) else { return nil }
        let json: JSONText = [
            "name": .text(cookie.name), "value": .text(style.revealsSecrets ? cookie.value : "<redacted>"),
        ]
        var more: [(String, JSONText)] = []
        if let path = cookie.path, !path.isEmpty { more.append(("path", .text(path))) }
        if !cookie.domain.isEmpty { more.append(("domain", .text(cookie.domain))) }
        if let expires = cookie.expires { more.append(("expires", .text(expires.internetTime))) }
        more += [("httpOnly", .flag(cookie.isHTTPOnly)), ("secure", .flag(cookie.isSecure))]
        return json.adding(more)
    }
}

extension Substring {
    /// Percent-decoded, where that gives text.
    fileprivate var decoded: String { removingPercentEncoding ?? String(self) }
}
