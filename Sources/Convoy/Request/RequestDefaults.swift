// The manager's defaults for its requests.
import Foundation

/// The defaults never change, so they are read without a lock.
final class RequestDefaults: Sendable {
    let baseURL: URL?
    private let directory: URL?
    let headerFields: HeaderFields
    let encoder: JSONEncoder?
    let decoder: JSONDecoder?
    private let options: CopyOnWrite<PreparedRequest.Options>
    let deadline: Duration?
    let maxBodyBytes: Int64?
    let acceptableStatusCodes: StatusCheck
    let hasCache: Bool
    let defect: String?

    static let standard = RequestDefaults()

    /// With a slash at the end of the base URL, a relative URL does not replace its last component.
    init(
        baseURL: URL? = nil, headerFields: HeaderFields = [:], encoder: JSONEncoder? = nil,
        decoder: JSONDecoder? = nil, idleTimeout: Duration = .seconds(60), attemptTimeout: Duration? = nil,
        deadline: Duration? = nil, maxBodyBytes: Int64? = nil, acceptableStatusCodes: StatusCheck = .successful,
        hasCache: Bool = false, keepsUnknownCodings: Bool = false, defect: String? = nil
    ) {
        self.hasCache = hasCache
        (self.baseURL, directory) = (baseURL, baseURL?.endingWithSlash)
        self.headerFields = headerFields
        self.encoder = encoder
        self.decoder = decoder
        options = CopyOnWrite(
            PreparedRequest.Options(
                idleTimeout: idleTimeout, attemptTimeout: attemptTimeout, keepsUnknownCodings: keepsUnknownCodings))
        self.deadline = deadline
        self.maxBodyBytes = maxBodyBytes
        self.acceptableStatusCodes = acceptableStatusCodes
        let times = [("idle timeout", idleTimeout), ("attempt timeout", attemptTimeout), ("deadline", deadline)]
        self.defect =
            defect ?? headerFields.defect
            ?? times.first { $1.map { $0 <= .zero } ?? false }.map { "the manager's \($0.0) is not positive" }
            ?? (maxBodyBytes.map { $0 < 0 } == true ? "the manager's body size limit is negative" : nil)
    }

    /// An empty URL is the base itself, without its fragment (RFC 3986, section 5.2.2).
    func resolved(_ url: URL) -> URL? {
        guard url.relativeString.isEmpty else {
            return directory.flatMap { URL(string: url.relativeString, relativeTo: $0)?.absoluteURL }
        }
        return baseURL.flatMap { URLReference("").resolved(against: URLReference($0.absoluteString)).url }
    }

    func options(of box: RequestCore.PolicyBox?) -> CopyOnWrite<PreparedRequest.Options> {
        var options = self.options
        guard let box else { return options }
        if let timeout = box.policies.idleTimeout { options.value.idleTimeout = timeout }
        if let timeout = box.policies.attemptTimeout { options.value.attemptTimeout = timeout }
        if box.policies.decodesFile { options.value.decodesFile = true }
        if box.policies.keepsUnknownCodings { options.value.keepsUnknownCodings = true }
        if !box.policies.omittedTransportFields.isEmpty {
            options.value.omittedFields = box.policies.omittedTransportFields
        }
        return options
    }

    /// With a base URL, secret fields of the manager are sent to the origin of that URL only.
    func headerFields(of core: RequestCore, to hostKey: String) -> HeaderFields {
        let omitted = core.policyBox?.policies.omittedHeaderFields ?? []
        let isElsewhere = baseURL.map { (try? $0.origin.get()) != hostKey } ?? false
        var merged = headerFields
        merged.removeAll { field in
            core.headerFields.contains(field.name) || omitted.contains(field.name.lowercased())
                || isElsewhere && field.isSecret
        }
        for field in core.headerFields { merged.add(field.name, field.value, isSecret: field.isMarkedSecret) }
        return merged
    }
}

extension RequestCore {
    /// Removes what must not be sent to another origin: secrets, including the manager's, and the `Host` field.
    mutating func dropSecrets(_ defaults: RequestDefaults) {
        headerFields.removeAll { $0.isBoundToOrigin || $0.name.equalsIgnoringCase("Host") }
        policies.omittedHeaderFields.formUnion(
            defaults.headerFields.filter(\.isBoundToOrigin).map { $0.name.lowercased() })
    }

    /// Throws `.invalidRequest` with the reason.
    func prepared(_ defaults: RequestDefaults) throws(RequestError) -> PreparedRequest {
        func refusal(_ reason: String) -> RequestError { PreparedRequest.refusal(reason, summary) }
        if let defect = defaults.defect ?? findDefectBesideURL() { throw refusal(defect) }
        if policyBox?.policies.cache?.policy == .onlyCache, !defaults.hasCache {
            throw refusal("its policy allows only cached responses, but its manager has no cache")
        }
        guard let given = url else { throw refusal("the request has no URL") }
        var url = given
        // `sharedOrigin` recognizes common absolute URLs without Foundation, which parses all other URLs more slowly.
        let origin = given.sharedOrigin
        if origin == nil, given.scheme == nil {
            guard let baseURL = defaults.baseURL else {
                let shown = given.relativeString.isEmpty ? "\"\"" : given.redactedString
                throw refusal("the URL \(shown) is relative, but the manager has no base URL")
            }
            guard let resolved = defaults.resolved(given) else {
                throw refusal("the URL \(given.redactedString) cannot be resolved against the base URL")
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
        case .success(let key): hostKey = key
        case .failure(let defect):
            let reference = URLReference(given.relativeString)
            let looksRelative = reference.scheme != nil && reference.authority == nil && !reference.path.hasPrefix("/")
            guard looksRelative, defaults.baseURL != nil else { throw refusal(defect.reason) }
            // The first segment of a relative reference must not contain a colon (RFC 3986, section 4.2).
            throw refusal("\(defect.reason); if it is relative to the base URL, write ./\(given.redactedString)")
        }
        if !self.query.isEmpty {
            let earlier = url.query(percentEncoded: true).map { $0.isEmpty ? [] : [$0] } ?? []
            guard let extended = url.withQuery(earlier + self.query) else {
                throw refusal("the query parameters cannot be added to the URL")
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
    /// For code that stores the request instead of sending it.
    package init<Output>(checking request: Request<Output>, hasCache: Bool = false) throws(RequestError) {
        self = try request.core.encoded(by: nil).prepared(RequestDefaults(hasCache: hasCache))
    }

    init(_ core: RequestCore, baseURL: URL?) throws(RequestError) {
        self = try core.encoded(by: nil).prepared(baseURL.map { RequestDefaults(baseURL: $0) } ?? .standard)
    }
}

extension URL {
    fileprivate var endingWithSlash: URL {
        var reference = URLReference(absoluteString)
        if !reference.path.hasSuffix("/") { reference.path += "/" }
        return reference.url ?? self
    }

    fileprivate func withQuery(_ pairs: [String]) -> URL? {
        var reference = URLReference(absoluteString)
        reference.query = pairs.joined(separator: "&")
        return reference.url
    }
}
