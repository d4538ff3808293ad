// A checked and resolved request, as a transport sends it.
import Foundation

/// A request as it is sent, checked and with an absolute URL, as transports, interceptors and a ``Response`` have it.
///
/// A changed request is checked again before it is sent. Its description never shows a secret.
public struct PreparedRequest: Sendable, Hashable, CustomStringConvertible, CustomReflectable {
    struct Options: Sendable, Hashable {
        var idleTimeout: Duration
        var attemptTimeout: Duration?
        var decodesFile = false
        var keepsUnknownCodings = false
        var omittedFields: Set<String> = []
    }

    private struct Parts: Sendable, Hashable {
        var method: HTTPMethod
        var url: URL
        var headerFields: HeaderFields
        var options: CopyOnWrite<Options>
        var hostKey: String
        // The last property, because its odd size would cost padding before another.
        var body: RequestBody?
    }

    private var parts: CopyOnWrite<Parts>

    /// The method, which is a token (RFC 9110, section 5.6.2).
    public var method: HTTPMethod {
        _read { yield parts.value.method }
        _modify { yield &parts.value.method }
    }
    /// The absolute http or https URL, query items included.
    public var url: URL {
        _read { yield parts.value.url }
        _modify { yield &parts.value.url }
    }
    /// The header fields, free of CR, LF and NUL.
    public var headerFields: HeaderFields {
        _read { yield parts.value.headerFields }
        _modify { yield &parts.value.headerFields }
    }
    /// The body; nil if there is none.
    public var body: RequestBody? {
        _read { yield parts.value.body }
        _modify { yield &parts.value.body }
    }
    /// The maximum time without a sent or received byte.
    public var idleTimeout: Duration {
        get { parts.value.options.value.idleTimeout }
        set { parts.value.options.value.idleTimeout = newValue }
    }
    /// The maximum time of one attempt's transfer; nil for no limit.
    public var attemptTimeout: Duration? {
        get { parts.value.options.value.attemptTimeout }
        set { parts.value.options.value.attemptTimeout = newValue }
    }
    /// ``Request/decodingFile()``: if false, a file receives the bytes with their content coding, unless the request
    /// has its own `Accept-Encoding`.
    var decodesFile: Bool { parts.value.options.value.decodesFile }
    /// If false, an unknown content coding is an error, unless `Accept-Encoding` accepts it.
    var keepsUnknownCodings: Bool {
        get { parts.value.options.value.keepsUnknownCodings }
        set { parts.value.options.value.keepsUnknownCodings = newValue }
    }
    /// The names, in lower case, of fields that neither the transport nor a cookie jar adds.
    package var omittedFields: Set<String> { parts.value.options.value.omittedFields }
    private(set) var hostKey: String {
        get { parts.value.hostKey }
        set { parts.value.hostKey = newValue }
    }

    /// `summary` names the request in an error, `.invalidRequest` with the reason.
    init(
        method: HTTPMethod, url: URL, headerFields: HeaderFields, body: RequestBody?, options: CopyOnWrite<Options>,
        hostKey: String, summary: @autoclosure () -> RequestSummary
    ) throws(RequestError) {
        parts = CopyOnWrite(
            Parts(
                method: method, url: url, headerFields: headerFields, options: options, hostKey: hostKey, body: body))
        if let framingDefect { throw Self.refusal(framingDefect, summary()) }
    }

    mutating func check() throws(RequestError) {
        let defect = Self.findDefect(
            method: method, headerFields: headerFields, hasBody: body != nil, idleTimeout: idleTimeout,
            attemptTimeout: attemptTimeout)
        if let defect { throw Self.refusal(defect, summary) }
        switch url.origin {
        case .failure(let defect): throw Self.refusal(defect.reason, summary)
        case .success(let key): hostKey = key
        }
        if let framingDefect { throw Self.refusal(framingDefect, summary) }
    }

    /// Transports write these fields, so the caller may set only the values that the transport would write.
    private var framingDefect: String? {
        guard headerFields.contains(where: \.isFraming) else { return nil }
        let byteCount = body.map(\.byteCount) ?? 0
        let lengths = headerFields.values(of: "Content-Length")
        if !lengths.isEmpty, lengths != byteCount.map({ [String($0)] }) {
            let length = byteCount.map { "is \($0) bytes long" } ?? "has no known length"
            return "Content-Length is set by the transport, and the body \(length)"
        }
        let codings = headerFields.values(of: "Transfer-Encoding")
        if !codings.isEmpty, byteCount != nil || codings.map({ $0.lowercased() }) != ["chunked"] {
            return "Transfer-Encoding is set by the transport: chunked, for a body without a known length"
        }
        return nil
    }

    static func findDefect(
        method: HTTPMethod, headerFields: HeaderFields, hasBody: Bool, idleTimeout: Duration,
        attemptTimeout: Duration?
    ) -> String? {
        guard method.isToken else { return "the method \(method.rawValue.debugDescription) is not a token" }
        if let defect = headerFields.defect { return defect }
        if headerFields.count > 1, headerFields.values(of: "Host").count > 1 { return "it has two Host fields" }
        if !hasBody, headerFields.contains(where: { $0.isFraming && $0.value != "0" }) {
            return "Content-Length and Transfer-Encoding are set by the transport, and the request has no body"
        }
        if method.rawValue.equalsIgnoringCase("HEAD"), hasBody { return "a HEAD request has no body" }
        if idleTimeout <= .zero { return "the idle timeout is not positive" }
        if let attemptTimeout, attemptTimeout <= .zero { return "the attempt timeout is not positive" }
        return nil
    }

    static func refusal(_ reason: String, _ summary: RequestSummary) -> RequestError {
        RequestError(.invalidRequest, "nothing was sent: \(reason)", summary: summary)
    }

    // The method must be idempotent, or the request must have a non-empty key by which the server recognises a
    // repetition (draft-ietf-httpapi-idempotency-key-header). Retries check the original and the adapted request; the
    // transport checks when the server has closed a reused connection.
    var isIdempotent: Bool {
        method.isIdempotent
            || headerFields.contains { field in
                field.name.equalsIgnoringCase("Idempotency-Key") && !["", "\"\""].contains(field.value.trimmingBlanks)
            }
    }

    // If the response then has a coding, it belongs to the file and is not removed. True if `Accept-Encoding` accepts
    // only `identity`, or the caller omits it, and for a `Range` without it: a part of a coded body cannot be decoded.
    package var asksForIdentity: Bool {
        guard let value = headerFields["Accept-Encoding"] else {
            return headerFields.contains("Range") || omitsAcceptedCodings && !decodesFile
        }
        return value == "identity" || acceptedCodings.isEmpty
    }

    private var omitsAcceptedCodings: Bool { omittedFields.contains("accept-encoding") }

    mutating func askForIdentity() {
        if !omitsAcceptedCodings { headerFields["Accept-Encoding"] = "identity" }
    }

    /// The codings of the request's own `Accept-Encoding`, in lower case, without `identity` and codings of weight 0.
    var acceptedCodings: Set<String> {
        var names: Set<String> = []
        for member in headerFields.listMembers(of: "Accept-Encoding") {
            let parts = member.split(separator: ";").map { String($0).trimmingBlanks.lowercased() }
            guard let name = parts.first, !["", "identity"].contains(name) else { continue }
            let weight = parts.dropFirst().first { $0.hasPrefix("q=") }.flatMap { Double($0.dropFirst(2)) }
            if weight != 0 { names.insert(name) }
        }
        return names
    }

    var summary: RequestSummary { RequestSummary(method: method, url: url) }

    /// Method and URL, without credentials.
    public var description: String { summary.description }
    /// A mirror of the description only, because a reflection of the properties would show credentials.
    public var customMirror: Mirror { Mirror(self, children: ["request": description]) }
}

/// Without credentials; the text is made only when it is read.
struct RequestSummary: Sendable, CustomStringConvertible, CustomReflectable {
    private enum Content {
        case text(String)
        case request(HTTPMethod, URL?)
    }

    private let content: Content

    init(text: String) { content = .text(text) }

    init(method: HTTPMethod, url: URL?) { content = .request(method, url) }

    func resolved(_ resolve: (URL) -> URL?) -> RequestSummary {
        guard case .request(let method, let url?) = content, url.scheme == nil, let resolved = resolve(url) else {
            return self
        }
        return RequestSummary(method: method, url: resolved)
    }

    var isEmpty: Bool { if case .text("") = content { true } else { false } }

    var description: String {
        switch content {
        case .text(let text): text
        // A method may contain any characters until it has been checked.
        case .request(let method, let url):
            "\(method.rawValue.debugDescription.dropFirst().dropLast()) \(url?.redactedString ?? "(no URL)")".oneLine
        }
    }

    var customMirror: Mirror { Mirror(self, children: ["request": description]) }
}
