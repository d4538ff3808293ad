// What a request leaves to its manager.
import Foundation

/// What holds for every request of a manager that says nothing else; made once, and read without a lock.
final class RequestDefaults: Sendable {
    /// What a relative URL is resolved against; its path ends with a slash.
    let baseURL: URL?
    let headerFields: HeaderFields
    let encoder: JSONEncoder?
    let decoder: JSONDecoder?
    let idleTimeout: Duration
    let attemptTimeout: Duration?
    let deadline: Duration?
    let maxBodyBytes: Int64?
    let acceptableStatusCodes: StatusCheck
    /// Whether the manager has a cache.
    let hasCache: Bool
    /// Why no request can be sent with these, or nil.
    let defect: String?

    /// For operations made without a manager.
    static let standard = RequestDefaults()

    /// - Parameter baseURL: gets a slash behind its last component, which is kept so.
    init(
        baseURL: URL? = nil, headerFields: HeaderFields = [:], encoder: JSONEncoder? = nil,
        decoder: JSONDecoder? = nil, idleTimeout: Duration = .seconds(60), attemptTimeout: Duration? = nil,
        deadline: Duration? = nil, maxBodyBytes: Int64? = nil, acceptableStatusCodes: StatusCheck = .successful,
        hasCache: Bool = false
    ) {
        self.hasCache = hasCache
        self.baseURL = baseURL?.endingWithSlash
        self.headerFields = headerFields
        self.encoder = encoder
        self.decoder = decoder
        self.idleTimeout = idleTimeout
        self.attemptTimeout = attemptTimeout
        self.deadline = deadline
        self.maxBodyBytes = maxBodyBytes
        self.acceptableStatusCodes = acceptableStatusCodes
        defect =
            if let defect = headerFields.defect {
                defect
            } else if idleTimeout <= .zero {
                "the manager's idle timeout is not positive"
            } else if let attemptTimeout, attemptTimeout <= .zero {
                "the manager's attempt timeout is not positive"
            } else if let deadline, deadline <= .zero {
                "the manager's deadline is not positive"
            } else if let maxBodyBytes, maxBodyBytes < 0 {
                "the manager's body size limit is negative"
            } else {
                nil
            }
    }

    /// The header fields of a request, behind those that it leaves to its manager.
    ///
    /// With a base URL, secrets go to its origin only.
    ///
    /// - Parameter hostKey: where the request goes.
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
    /// Takes away what must not reach another origin: secrets, those of the manager too, and the `Host` field.
    mutating func dropSecrets(_ defaults: RequestDefaults) {
        headerFields.removeAll { $0.isSecret || $0.name.equalsIgnoringCase("Host") }
        policies.omittedHeaderFields.formUnion(defaults.headerFields.filter(\.isSecret).map { $0.name.lowercased() })
    }
}

extension URL {
    /// The URL with a slash behind its path, so that a relative one is resolved to something below it.
    fileprivate var endingWithSlash: URL {
        guard var components = URLComponents(url: self, resolvingAgainstBaseURL: true),
            !components.percentEncodedPath.hasSuffix("/")
        else { return self }
        components.percentEncodedPath += "/"
        return components.url ?? self
    }
}
