// A request becomes one that can be sent.
import Foundation

extension PreparedRequest {
    /// Checks a request and resolves its URL.
    ///
    /// - Throws: `.invalidRequest` with the reason.
    init(_ core: RequestCore, _ defaults: RequestDefaults) throws(RequestError) {
        if let defect = defaults.defect ?? core.findDefectBesideURL() { throw Self.refusal(defect, core.summary) }
        guard let given = core.url else { throw Self.refusal("there is no URL", core.summary) }
        var url = given
        if given.scheme == nil {
            guard let baseURL = defaults.baseURL else {
                throw Self.refusal("the URL \(given.redactedString) is relative and there is no base URL", core.summary)
            }
            guard let resolved = URL(string: given.relativeString, relativeTo: baseURL)?.absoluteURL else {
                throw Self.refusal(
                    "the URL \(given.redactedString) cannot be resolved against the base URL", core.summary)
            }
            url = resolved
            // The base's own parameters go along, but to no other host.
            if let query = baseURL.query(percentEncoded: true), !query.isEmpty, given.host() == nil {
                let all = [query] + [given.query(percentEncoded: true)].compactMap { $0 }
                url = resolved.withQuery(all) ?? resolved
            }
        }
        let hostKey: String
        switch url.origin {
        case .failure(let defect): throw Self.refusal(defect.reason, core.summary)
        case .success(let key): hostKey = key
        }
        if !core.query.isEmpty {
            let query = url.query(percentEncoded: true).map { $0.isEmpty ? [] : [$0] } ?? []
            guard let extended = url.withQuery(query + core.query) else {
                throw Self.refusal("the query parameters cannot be added to the URL", core.summary)
            }
            url = extended
        }
        let body: RequestBody?
        do { body = try core.body?.prepared().get() } catch { throw error.with(core.summary) }
        let box = core.policyBox
        let fields = defaults.headerFields.isEmpty ? core.headerFields : defaults.headerFields(of: core, to: hostKey)
        try self.init(
            method: core.method, url: url, headerFields: fields, body: body,
            idleTimeout: box?.policies.idleTimeout ?? defaults.idleTimeout,
            attemptTimeout: box?.policies.attemptTimeout ?? defaults.attemptTimeout,
            decodesFile: box?.policies.decodesFile ?? false,
            keepsUnknownCodings: box?.policies.keepsUnknownCodings ?? false, hostKey: hostKey, summary: core.summary)
    }

    /// Checks a request that has no manager, for those that keep it rather than send it.
    ///
    /// - Throws: `.invalidRequest` with the reason, `.bodyUnreadable` for a file that cannot be read.
    package init<Output>(checking request: Request<Output>) throws(RequestError) {
        try self.init(request.core, baseURL: nil)
    }

    /// Checks a request that has no manager.
    init(_ core: RequestCore, baseURL: URL?) throws(RequestError) {
        try self.init(core.encoded(by: nil), baseURL.map { RequestDefaults(baseURL: $0) } ?? .standard)
    }
}

extension URL {
    /// The URL with these pairs, which are encoded already, for its query.
    fileprivate func withQuery(_ pairs: [String]) -> URL? {
        guard var components = URLComponents(url: self, resolvingAgainstBaseURL: true) else { return nil }
        components.percentEncodedQuery = pairs.joined(separator: "&")
        return components.url
    }
}
