// A request that has been checked and resolved: what a transport sends.
import Foundation

/// A request as it is sent: checked, with an absolute URL.
///
/// Transports receive it, interceptors change it, and a ``Response`` tells it. What was changed is checked again before
/// it is sent. Its description never shows a secret.
public struct PreparedRequest: Sendable, Hashable {
    /// The method, a token.
    public var method: HTTPMethod
    /// The absolute http or https URL, query items included.
    public var url: URL
    /// The header fields, free of CR, LF and NUL.
    public var headerFields: HeaderFields
    /// The body; nil when there is none.
    public var body: RequestBody?
    /// How long nothing may arrive.
    public var idleTimeout: Duration
    /// How long the transfer may take; nil for as long as it wants.
    public var transferTimeout: Duration?
    /// Whether a file is to have the bytes behind the content coding; else it gets them as they are sent.
    let decodesFile: Bool
    /// Scheme, host and port, in one spelling: what per-host limits count by.
    private(set) var hostKey: String

    /// Checks a request and resolves its URL.
    ///
    /// - Throws: `.invalidRequest` with the reason.
    init(_ core: RequestCore, baseURL: URL?) throws(RequestError) {
        if let defect = core.findDefectBesideURL() { throw Self.refusal(defect, core.summary) }
        guard let given = core.url else { throw Self.refusal("there is no URL", core.summary) }
        var url = given
        if given.scheme == nil {
            guard let baseURL else {
                throw Self.refusal("the URL \(given.redactedString) is relative and there is no base URL", core.summary)
            }
            guard let resolved = URL(string: given.relativeString, relativeTo: baseURL)?.absoluteURL else {
                throw Self.refusal(
                    "the URL \(given.redactedString) cannot be resolved against the base URL", core.summary)
            }
            url = resolved
        }
        switch url.origin {
        case .failure(let defect): throw Self.refusal(defect.reason, core.summary)
        case .success(let key): hostKey = key
        }
        if !core.query.isEmpty {
            guard let extended = url.appendingQuery(core.query) else {
                throw Self.refusal("the query parameters cannot be added to the URL", core.summary)
            }
            url = extended
        }
        method = core.method
        self.url = url
        headerFields = core.headerFields
        do { body = try core.body?.prepared().get() } catch { throw error.with(core.summary) }
        idleTimeout = core.idleTimeout
        transferTimeout = core.transferTimeout
        decodesFile = core.policies.decodesFile
        if let framingDefect { throw Self.refusal(framingDefect, core.summary) }
    }

    /// Checks a request that was changed.
    ///
    /// - Throws: `.invalidRequest` with the reason.
    mutating func check() throws(RequestError) {
        let defect = RequestCore.findDefect(
            method: method, headerFields: headerFields, hasBody: body != nil, idleTimeout: idleTimeout,
            transferTimeout: transferTimeout)
        if let defect { throw Self.refusal(defect, summary) }
        switch url.origin {
        case .failure(let defect): throw Self.refusal(defect.reason, summary)
        case .success(let key): hostKey = key
        }
        if let framingDefect { throw Self.refusal(framingDefect, summary) }
    }

    /// Why its framing fields cannot be true, or nil: transports write them, and a caller's own may say nothing else.
    private var framingDefect: String? {
        guard headerFields.contains(where: \.isFraming) else { return nil }
        let byteCount = body.map(\.byteCount) ?? 0
        let lengths = headerFields.values(of: "Content-Length")
        if !lengths.isEmpty, lengths != byteCount.map({ [String($0)] }) {
            let length = byteCount.map { "is \($0) bytes long" } ?? "has no length that is known"
            return "Content-Length is set by the transport, and the body \(length)"
        }
        let codings = headerFields.values(of: "Transfer-Encoding")
        if !codings.isEmpty, byteCount != nil || codings.map({ $0.lowercased() }) != ["chunked"] {
            return "Transfer-Encoding is set by the transport: chunked, for a body without a known length"
        }
        return nil
    }

    private static func refusal(_ reason: String, _ summary: RequestSummary) -> RequestError {
        RequestError(.invalidRequest, "nothing was sent: \(reason)", summary: summary)
    }
}

extension PreparedRequest {
    /// Whether sending it twice does what sending it once does: by its method, or because the server was told how to
    /// know a repetition (draft-ietf-httpapi-idempotency-key-header).
    ///
    /// The one rule for everything that sends again by itself: retries, and a connection that was kept and had ended. A key
    /// that is empty tells the server nothing.
    var isIdempotent: Bool {
        method.isIdempotent
            || headerFields.contains { field in
                field.name.equalsIgnoringCase("Idempotency-Key") && !["", "\"\""].contains(field.value.trimmingBlanks)
            }
    }
}

extension PreparedRequest: CustomStringConvertible, CustomReflectable {
    /// Method and URL, without credentials.
    public var description: String { summary.description }
    /// The description only: a reflection would show what descriptions leave out.
    public var customMirror: Mirror { Mirror(self, children: ["request": description]) }
}

extension URL {
    /// The URL with pairs, which are encoded already, behind those of its own.
    fileprivate func appendingQuery(_ pairs: [String]) -> URL? {
        guard var components = URLComponents(url: self, resolvingAgainstBaseURL: true) else { return nil }
        let query = components.percentEncodedQuery.map { $0.isEmpty ? [] : [$0] } ?? []
        components.percentEncodedQuery = (query + pairs).joined(separator: "&")
        return components.url
    }
}

extension URLQueryItem {
    /// Name and value with every character but the unreserved ones percent-encoded.
    var percentEncoded: String { name.percentEncoded + (value.map { "=" + $0.percentEncoded } ?? "") }
}

extension String {
    /// The string with everything but unreserved characters (RFC 3986, section 2.3) percent-encoded in UTF-8.
    var percentEncoded: String { PercentEscaper.unreserved.escaped(self) }
}
