// The part of a request that does not depend on its output.
import Foundation

@dynamicMemberLookup struct RequestCore: Sendable, CustomReflectable {
    var method: HTTPMethod
    var url: URL?
    var headerFields = HeaderFields()
    /// In a box that keeps a queued operation small; nil if the request has no settings of its own.
    var policyBox: PolicyBox?
    /// The properties that most GET requests do not set, in a box that keeps a queued operation small.
    private var details: CopyOnWrite<Details>?
    /// Whether decoding is fast and calls no user code, so that a transport's thread may decode.
    var decodesAtOnce = false

    init(method: HTTPMethod, url: URL?) { (self.method, self.url) = (method, url) }

    struct Details: Sendable {
        var priority = Operation.QueuePriority.normal
        /// Encoded items that are appended to the URL's query.
        var query: [String] = []
        var body: GivenBody?
        var tags: Set<String> = []
        var name: String?
        var destination = BodyDestination.memory
        var defect: String?
    }

    subscript<Value>(dynamicMember property: WritableKeyPath<Details, Value>) -> Value {
        @inline(__always) get {
            if let details { details.value[keyPath: property] } else { Details()[keyPath: property] }
        }
        @inline(__always) set {
            var changed = details ?? CopyOnWrite(Details())
            // `details` releases its box during the change. Otherwise the box would have two owners and would be copied.
            details = nil
            changed.value[keyPath: property] = newValue
            details = changed
        }
    }

    func findDefect() -> String? {
        if let defect = findDefectBesideURL() { return defect }
        guard let url, url.scheme != nil, case .failure(let defect) = url.origin else { return nil }
        return defect.reason
    }

    func findDefectBesideURL() -> String? {
        if let defect = self.defect { return defect }
        if let box = policyBox {
            if let limit = box.policies.bodyLimit, limit < 0 { return "the body size limit is negative" }
            if let limit = box.policies.maxBytesPerSecond, limit <= 0 { return "the rate limit is not positive" }
            if let speed = box.policies.minimumSpeed {
                if speed.bytesPerSecond <= 0 { return "the minimum speed is not positive" }
                if speed.duration <= .zero { return "the time of the minimum speed is not positive" }
            }
            if let defect = box.policies.cache?.defect { return defect }
            if let deadline = box.policies.deadline ?? nil, deadline <= .zero { return "the deadline is not positive" }
        }
        return PreparedRequest.findDefect(
            method: method, headerFields: headerFields, hasBody: self.body != nil,
            idleTimeout: policyBox?.policies.idleTimeout ?? .seconds(1),
            attemptTimeout: policyBox?.policies.attemptTimeout ?? nil)
    }

    var summary: RequestSummary { RequestSummary(method: method, url: url) }

    var answerRules: AnswerRules {
        AnswerRules(method: method, destination: self.destination, policyBox: policyBox, decodesAtOnce: decodesAtOnce)
    }

    func bodyLimit(_ defaults: RequestDefaults) -> Int64? { answerRules.bodyLimit(defaults) }

    var isValue: Bool {
        switch self.destination {
        case .memory, .nowhere, .file: break
        case .segment, .stream, .chunks: return false
        }
        switch self.body {
        case nil, .data, .file, .json: break
        case .stream, .multipart: return false
        }
        guard let policies = policyBox?.policies else { return true }
        return policies.interceptors.isEmpty && policies.redirects?.onRedirect == nil && !policies.refusesByFunction
            && policies.userInfo.isEmpty
    }

    /// - Parameter encoder: nil for a plain `JSONEncoder`.
    /// - Thread: the calling thread runs the caller's `encode(to:)`, so it must hold no lock.
    func encoded(by encoder: JSONEncoder?) -> RequestCore {
        guard case .json(let encode)? = self.body else { return self }
        var core = self
        core.body = nil
        do {
            core.body = .data(try encode(encoder))
        } catch {
            core.defect = core.defect ?? Self.defect("the JSON body", error)
        }
        return core
    }

    static func defect(_ name: String, _ error: any Error) -> String {
        "\(name) could not be encoded: \((error as? EncodingError)?.reason ?? "\(error)")"
    }

    /// A mirror of the summary only, because a reflection of the properties would show secrets.
    var customMirror: Mirror { Mirror(self, children: ["request": summary.description]) }
}
