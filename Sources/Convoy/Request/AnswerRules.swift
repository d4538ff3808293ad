// How the answers of a request are taken.
import Foundation

/// How the answers of a request are taken: the part of a request that an attempt needs when it has been sent.
struct AnswerRules: Sendable {
    let method: HTTPMethod
    let destination: BodyDestination
    let policyBox: RequestCore.PolicyBox?
    /// Whether making the output takes no time and no code of the user's.
    let decodesAtOnce: Bool

    /// Whether the body of an answer with an unacceptable status is kept whole, to be decoded.
    var decodesRefusals: Bool { policyBox?.policies.decodesRefusal != nil }

    /// How many bytes of body are accepted, wherever they go; nil where neither the request nor its manager says.
    func bodyLimit(_ defaults: RequestDefaults) -> Int64? {
        policyBox?.policies.bodyLimit ?? defaults.maxBodyBytes
    }

    /// How many bytes of body may be in memory at once.
    func memoryLimit(_ defaults: RequestDefaults) -> Int64 { bodyLimit(defaults) ?? 64 << 20 }

    /// Why an answer is not acceptable, by its status or by its content type; nil for one that is.
    func refusal(of head: ResponseHead, _ defaults: RequestDefaults) -> RequestError? {
        guard (policyBox?.policies.acceptableStatusCodes ?? defaults.acceptableStatusCodes)(head.statusCode) else {
            return RequestError(
                .unacceptableStatus, "the server answered \(head.statusCode)",
                isRetryable: RetryPolicy.standard.statusCodes.contains(head.statusCode))
        }
        let acceptableContentTypes = policyBox?.policies.acceptableContentTypes ?? .any
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
