// A request that has been checked and resolved: what a transport sends.
import Foundation

/// A request as it is sent: checked, with an absolute URL.
///
/// Transports receive it, and a ``Response`` tells it. Its description never shows a secret.
public struct PreparedRequest: Sendable, Hashable {
    /// The method, a token.
    public let method: HTTPMethod
    /// The absolute http or https URL, query items included.
    public let url: URL
    /// The header fields, free of CR, LF and NUL.
    public let headerFields: HeaderFields
    /// The body; nil when there is none.
    public let body: RequestBody?
    /// How long nothing may arrive.
    public let idleTimeout: Duration
    /// How long the transfer may take; nil for as long as it wants.
    public let transferTimeout: Duration?
    /// Scheme, host and port, in one spelling: what per-host limits count by.
    let hostKey: String

    /// Checks a request and resolves its URL.
    ///
    /// - Throws: `.invalidRequest` with the reason.
    init(_ core: RequestCore, baseURL: URL?) throws(RequestError) {
        if let defect = core.findDefectBesideURL() { throw Self.refusal(defect, core) }
        guard let given = core.url else { throw Self.refusal("there is no URL", core) }
        var url = given
        if given.scheme == nil {
            guard let baseURL else {
                throw Self.refusal("the URL \(given.redactedString) is relative and there is no base URL", core)
            }
            guard let resolved = URL(string: given.relativeString, relativeTo: baseURL)?.absoluteURL else {
                throw Self.refusal("the URL \(given.redactedString) cannot be resolved against the base URL", core)
            }
            url = resolved
        }
        switch url.origin {
        case .failure(let defect): throw Self.refusal(defect.reason, core)
        case .success(let key): hostKey = key
        }
        if !core.queryItems.isEmpty {
            guard let extended = url.appendingQuery(core.queryItems) else {
                throw Self.refusal("the query items cannot be added to the URL", core)
            }
            url = extended
        }
        method = core.method
        self.url = url
        headerFields = core.headerFields
        do { body = try core.body?.prepared().get() } catch { throw error.with(core.summary) }
        idleTimeout = core.idleTimeout
        transferTimeout = core.transferTimeout
    }

    private static func refusal(_ reason: String, _ core: RequestCore) -> RequestError {
        RequestError(.invalidRequest, "nothing was sent: \(reason)", summary: core.summary)
    }
}

extension PreparedRequest: CustomStringConvertible, CustomReflectable {
    /// Method and URL, without credentials.
    public var description: String { summary.description }
    /// The description only: a reflection would show what descriptions leave out.
    public var customMirror: Mirror { Mirror(self, children: ["request": description]) }
}

extension URL {
    /// The URL with query items added behind its own, every character but the unreserved ones percent-encoded.
    fileprivate func appendingQuery(_ items: [URLQueryItem]) -> URL? {
        guard var components = URLComponents(url: self, resolvingAgainstBaseURL: true) else { return nil }
        let pairs = items.map { item in
            item.name.percentEncoded + (item.value.map { "=" + $0.percentEncoded } ?? "")
        }
        let query = components.percentEncodedQuery.map { $0.isEmpty ? [] : [$0] } ?? []
        components.percentEncodedQuery = (query + pairs).joined(separator: "&")
        return components.url
    }
}

extension String {
    /// The string with everything but unreserved characters (RFC 3986, section 2.3) percent-encoded in UTF-8.
    var percentEncoded: String {
        addingPercentEncoding(withAllowedCharacters: .unreserved) ?? ""
    }
}

extension CharacterSet {
    fileprivate static let unreserved = CharacterSet(
        charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
}
