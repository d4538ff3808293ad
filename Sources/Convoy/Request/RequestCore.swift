// The part of a request that does not depend on its output.
import Foundation

/// The part of a request that does not depend on its output.
struct RequestCore: Sendable {
    var method: HTTPMethod
    var url: URL?
    var headerFields = HeaderFields()
    /// Encoded items that are appended to the URL's query.
    var query: [String] = []
    var body: GivenBody?
    var tags: Set<String> = []
    var name: String?
    var priority = Operation.QueuePriority.normal
    var destination = BodyDestination.memory
    /// The settings, boxed to keep a queued operation small; nil if the request has none.
    var policyBox: PolicyBox?
    /// Whether decoding is trivial and calls no user code.
    var decodesAtOnce = false
    /// The defect found while the request was built, for example an encoding error, or a string that is not a URL.
    var defect: String?

    func findDefect() -> String? {
        if let defect = findDefectBesideURL() { return defect }
        guard let url, url.scheme != nil, case .failure(let defect) = url.origin else { return nil }
        return defect.reason
    }

    func findDefectBesideURL() -> String? {
        if let defect { return defect }
        if let limit = policyBox?.policies.bodyLimit, limit < 0 { return "the body size limit is negative" }
        if let defect = policyBox?.policies.paceDefect { return defect }
        if let defect = policyBox?.policies.cache?.defect { return defect }
        if let deadline = policyBox?.policies.deadline ?? nil, deadline <= .zero {
            return "the deadline is not positive"
        }
        return PreparedRequest.findDefect(
            method: method, headerFields: headerFields, hasBody: body != nil,
            idleTimeout: policyBox?.policies.idleTimeout ?? .seconds(1),
            attemptTimeout: policyBox?.policies.attemptTimeout ?? nil)
    }
}

extension RequestCore {
    var summary: RequestSummary { RequestSummary(method: method, url: url) }
}

extension RequestCore {
    /// The same request with its JSON body encoded; nil means a plain encoder.
    ///
    /// User code runs on the calling thread, never under a lock.
    func encoded(by encoder: JSONEncoder?) -> RequestCore {
        guard case .json(let encode)? = body else { return self }
        var core = self
        core.body = nil
        do {
            core.body = .data(try encode(encoder))
        } catch {
            core.defect = core.defect ?? Self.defect("the JSON body", error)
        }
        return core
    }

    /// A message that a value could not be encoded, with the reason.
    static func defect(_ name: String, _ error: any Error) -> String {
        "\(name) could not be encoded: \((error as? EncodingError)?.reason ?? "\(error)")"
    }
}

extension RequestCore: CustomReflectable {
    /// A mirror of the summary only, because a reflection of the properties would show secrets.
    var customMirror: Mirror { Mirror(self, children: ["request": summary.description]) }
}

extension RequestCore {
    /// How the responses are evaluated.
    var answerRules: AnswerRules {
        AnswerRules(
            method: method, destination: destination, policyBox: policyBox, decodesAtOnce: decodesAtOnce)
    }

    /// The maximum size of a body for any destination; nil when neither the request nor its manager sets one.
    func bodyLimit(_ defaults: RequestDefaults) -> Int64? { answerRules.bodyLimit(defaults) }
}
