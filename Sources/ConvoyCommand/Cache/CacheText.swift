// Formats stored responses and explanations as text and as JSON, without secrets.
import Convoy
import ConvoyCache
import ConvoyHTTPFile
import Foundation

extension CacheEntry {
    /// The URL without user name, password, secret parameters and the digest of credentials.
    private var shownURL: String { SecretWords.standard.redacted(reference: String(key.prefix { $0 != "#" })) }

    /// The host of the request's `Host` field; nil if the field is missing or names the host of the URL.
    private var host: String? { key.range(of: CacheKey.hostMark).map { String(key[$0.upperBound...]) } }

    private var freshness: String {
        let seconds = freshUntil.timeIntervalSinceNow
        return seconds > 0 ? "fresh for \(Figures.time(.seconds(seconds)))" : "stale"
    }

    private var size: String { Figures.bytes(bodyBytes) + (isComplete ? "" : " of it") }

    /// The line that `convoy cache list` prints for the entry.
    var line: String {
        let vary = varyingFields.isEmpty ? "" : "  varies by \(varyingFields.joined(separator: ", "))"
        return "\(statusCode)  \(size)  \(freshness)  \(shownURL)\(host.map { "  host \($0)" } ?? "")\(vary)"
    }

    /// The text of `convoy cache show`: all details of the entry except the body.
    var text: String {
        var lines = [
            shownURL, "  status       \(statusCode)", "  body         \(size)",
            "  received     \(received.formatted(.iso8601))",
            "  fresh until  \(freshUntil.formatted(.iso8601)), \(freshness)",
        ]
        if let host { lines.append("  host         \(host)") }
        if !varyingFields.isEmpty { lines.append("  varies by    \(varyingFields.joined(separator: ", "))") }
        return (lines + headerFields.map { "  " + $0.shown }).joined(separator: "\n")
    }

    /// The entry as JSON.
    ///
    /// - Parameter isWhole: whether to include the header fields.
    func json(isWhole: Bool) -> JSONValue {
        var json: JSONValue = [
            "url": .string(shownURL), "status": JSONValue(statusCode), "bytes": .integer(bodyBytes),
            "complete": .bool(isComplete), "received": JSONValue(received),
            "fresh_until": JSONValue(freshUntil), "fresh": .bool(freshUntil > Date()),
            "vary": JSONValue(varyingFields),
        ]
        if let host { json.append("host", .string(host)) }
        if isWhole { json.append("header_fields", .array(headerFields.map { .string($0.shown) })) }
        return json
    }
}

extension CacheExplanation {
    private var outcome: String {
        switch (isAnswered, status.forward) {
        case (true, .miss): "not sent: the cache has no usable response, so the status would be 504"
        case (true, _): "served from the cache: no request would be sent"
        case (false, .bypass): "sent to the server: the cache is not used"
        case (false, let reason): "sent to the server (\(reason?.rawValue ?? "miss"))"
        }
    }

    /// The cache's decision, then each rule with its section of the RFC, then the header fields to add to the request.
    var text: String {
        let width = (rules.map(\.section.count).max() ?? 0) + 2
        let lines = rules.map { "  \($0.section.padding(toLength: width, withPad: " ", startingAt: 0))\($0.text)" }
        let added = addedFields.map { "  sent with: \($0.shown)" }
        return ([outcome] + lines + added).joined(separator: "\n")
    }

    func json(for url: URL) -> JSONValue {
        [
            "url": .string(url.redactedString), "answered": .bool(isAnswered),
            "cache_status": .string(status.description),
            "entry": entry.map { $0.json(isWhole: false) } ?? .null,
            "sent_with": .array(addedFields.map { .string($0.shown) }),
            "rules": .array(rules.map { ["section": .string($0.section), "text": .string($0.text)] }),
        ]
    }
}
