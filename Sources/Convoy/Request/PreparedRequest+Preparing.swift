// Checks requests and converts them to `PreparedRequest`, the form that transports send.
import Foundation

extension RequestCore {
    /// Checks a request and resolves its URL.
    ///
    /// - Throws: `.invalidRequest` with the reason.
    func prepared(_ defaults: RequestDefaults) throws(RequestError) -> PreparedRequest {
        if let defect = defaults.defect ?? findDefectBesideURL() { throw PreparedRequest.refusal(defect, summary) }
        if policyBox?.policies.cache?.policy == .onlyCache, !defaults.hasCache {
            throw PreparedRequest.refusal(
                "its policy allows only cached responses, but its manager has no cache", summary)
        }
        guard let given = url else { throw PreparedRequest.refusal("the request has no URL", summary) }
        var url = given
        // `sharedOrigin` recognizes common absolute URLs without Foundation, which parses all other URLs more slowly.
        let origin = given.sharedOrigin
        if origin == nil, given.scheme == nil {
            guard let baseURL = defaults.baseURL else {
                let shown = given.relativeString.isEmpty ? "\"\"" : given.redactedString
                throw PreparedRequest.refusal("the URL \(shown) is relative, but the manager has no base URL", summary)
            }
            guard let resolved = defaults.resolved(given) else {
                throw PreparedRequest.refusal(
                    "the URL \(given.redactedString) cannot be resolved against the base URL", summary)
            }
            url = resolved
            // The query of the base URL precedes the request's query. If the request's URL names a host
            // (`//host/path`), that host must not receive the query of the base URL.
            if let query = baseURL.query(percentEncoded: true), !query.isEmpty, given.host() == nil {
                let all = [query] + [given.query(percentEncoded: true)].compactMap { $0 }
                url = resolved.withQuery(all) ?? resolved
            }
        }
        let hostKey: String
        switch origin.map({ .success($0) }) ?? url.origin {
        case .failure(let defect):
            let reference = URLReference(given.relativeString)
            let looksRelative = reference.scheme != nil && reference.authority == nil && !reference.path.hasPrefix("/")
            guard looksRelative, defaults.baseURL != nil else {
                throw PreparedRequest.refusal(defect.reason, summary)
            }
            // The first segment of a relative reference must not contain a colon (RFC 3986, section 4.2).
            throw PreparedRequest.refusal(
                "\(defect.reason); if it is relative to the base URL, write ./\(given.redactedString)", summary)
        case .success(let key): hostKey = key
        }
        if !query.isEmpty {
            let earlier = url.query(percentEncoded: true).map { $0.isEmpty ? [] : [$0] } ?? []
            guard let extended = url.withQuery(earlier + query) else {
                throw PreparedRequest.refusal("the query parameters cannot be added to the URL", summary)
            }
            url = extended
        }
        let body: RequestBody?
        do { body = try self.body?.prepared().get() } catch { throw error.with(summary) }
        let fields = defaults.headerFields.isEmpty ? headerFields : defaults.headerFields(of: self, to: hostKey)
        return try PreparedRequest(
            method: method, url: url, headerFields: fields, body: body, options: defaults.options(of: policyBox),
            hostKey: hostKey, summary: summary)
    }
}

extension PreparedRequest {
    /// Checks a request without a manager, for code that stores the request instead of sending it.
    ///
    /// - Throws: `.invalidRequest` with the reason, `.bodyUnreadable` for a file that cannot be read.
    package init<Output>(checking request: Request<Output>, hasCache: Bool = false) throws(RequestError) {
        self = try request.core.encoded(by: nil).prepared(RequestDefaults(hasCache: hasCache))
    }

    /// Checks a request without a manager, and resolves a relative URL against the base URL.
    init(_ core: RequestCore, baseURL: URL?) throws(RequestError) {
        self = try core.encoded(by: nil).prepared(baseURL.map { RequestDefaults(baseURL: $0) } ?? .standard)
    }
}

extension URL {
    /// The URL with these percent-encoded pairs as its query.
    fileprivate func withQuery(_ pairs: [String]) -> URL? {
        guard var components = URLComponents(url: self, resolvingAgainstBaseURL: true) else { return nil }
        components.percentEncodedQuery = pairs.joined(separator: "&")
        return components.url
    }
}
