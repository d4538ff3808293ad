// What of a request does not depend on its output.
import Foundation

/// The part of a request that does not depend on its output.
struct RequestCore: Sendable {
    var method: HTTPMethod
    var url: URL?
    var headerFields = HeaderFields()
    /// What the query of the URL gets behind it, encoded.
    var query: [String] = []
    var body: GivenBody?
    var tags: Set<String> = []
    var name: String?
    var priority = Operation.QueuePriority.normal
    var idleTimeout = Duration.seconds(60)
    var transferTimeout: Duration?
    /// How many bytes of body are accepted, wherever they go; nil where the caller has not said.
    var bodyLimit: Int64?
    /// How many bytes of body may be in memory at once.
    var maximumBodyBytes: Int64 { bodyLimit ?? 64 << 20 }
    var acceptableStatusCodes: StatusCheck = .successful
    var acceptableContentTypes: ContentTypeCheck = .any
    /// Whether the body of an answer with an unacceptable status is kept whole, to be decoded.
    var decodesRefusals = false
    var destination = BodyDestination.memory
    /// Boxed: a queued operation stays small.
    var policyBox: PolicyBox?
    /// Whether making the output takes no time and no code of the user's.
    var decodesAtOnce = false
    /// What went wrong while it was built: an encoding error, a string that is no URL.
    var defect: String?

    init(method: HTTPMethod, url: URL?) {
        self.method = method
        self.url = url
    }

    func findDefect() -> String? {
        if let defect = findDefectBesideURL() { return defect }
        guard let url, url.scheme != nil, case .failure(let defect) = url.origin else { return nil }
        return defect.reason
    }

    func findDefectBesideURL() -> String? {
        if let defect { return defect }
        if maximumBodyBytes < 0 { return "the body size limit is negative" }
        if let defect = policyBox?.policies.paceDefect { return defect }
        if let deadline = policyBox?.policies.deadline, deadline <= .zero { return "the deadline is not positive" }
        return PreparedRequest.findDefect(
            method: method, headerFields: headerFields, hasBody: body != nil, idleTimeout: idleTimeout,
            transferTimeout: transferTimeout)
    }

}

extension RequestCore {
    var summary: RequestSummary { RequestSummary(method: method, url: url) }
}

extension RequestCore: CustomReflectable {
    /// The summary only, as for a request.
    var customMirror: Mirror { Mirror(self, children: ["request": summary.description]) }
}

extension RequestCore {
    /// Why an answer is not acceptable, by its status or by its content type; nil for one that is.
    func refusal(of head: ResponseHead) -> RequestError? {
        guard acceptableStatusCodes(head.statusCode) else {
            return RequestError(
                .unacceptableStatus, "the server answered \(head.statusCode)",
                isRetryable: RetryPolicy.standard.statusCodes.contains(head.statusCode))
        }
        if acceptableContentTypes == .any || method == .head || [204, 205, 304].contains(head.statusCode) {
            return nil
        }
        if head.expectedBytes == 0 { return nil }
        let given = head.headerFields.values(of: "Content-Type").last
        // RFC 9110, section 8.3: what has no type may be taken for this one.
        let type = given.flatMap(ContentTypeCheck.mediaType) ?? "application/octet-stream"
        if acceptableContentTypes(type) { return nil }
        let named = given.map { "as \($0.prefix(100).debugDescription)" } ?? "without a content type"
        return RequestError(
            .unacceptableContentType,
            "the server answered \(head.statusCode) \(named) where the request accepts \(acceptableContentTypes.description)"
        )
    }
}
