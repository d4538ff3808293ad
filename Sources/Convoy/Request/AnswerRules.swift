// How the responses of a request are evaluated.
import Foundation

/// How the responses of a request are evaluated.
///
/// Once an attempt has sent its request, the attempt needs only these rules, not the request.
struct AnswerRules: Sendable {
    let method: HTTPMethod
    let destination: BodyDestination
    let policyBox: RequestCore.PolicyBox?
    /// Whether decoding is fast and calls no user code, so that a transport's thread may decode.
    let decodesAtOnce: Bool

    /// Whether a typed failure is decoded from the body of a response with an unacceptable status.
    var decodesRefusals: Bool { policyBox?.policies.decodesRefusal != nil }

    /// The maximum size of a body for any destination; nil when neither the request nor its manager sets one.
    func bodyLimit(_ defaults: RequestDefaults) -> Int64? {
        policyBox?.policies.bodyLimit ?? defaults.maxBodyBytes
    }

    /// The maximum size of a body in memory; 64 MiB when neither the request nor its manager sets one.
    func memoryLimit(_ defaults: RequestDefaults) -> Int64 { bodyLimit(defaults) ?? 64 << 20 }

    /// Why a response is not acceptable, by its status or content type; nil when it is acceptable.
    func refusal(of head: ResponseHead, _ defaults: RequestDefaults) -> RequestError? {
        guard (policyBox?.policies.acceptableStatusCodes ?? defaults.acceptableStatusCodes)(head.statusCode) else {
            // Only a proxy sends a 407 (RFC 9110, section 15.5.8), perhaps one before the server.
            if head.statusCode == 407 {
                return RequestError(
                    .proxyFailed,
                    "the answer was 407: a proxy requires credentials, or rejected those that it received")
            }
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
        // A body without a type may be treated as `application/octet-stream` (RFC 9110, section 8.3).
        let type = given.flatMap(ContentTypeCheck.mediaType) ?? "application/octet-stream"
        if acceptableContentTypes(type) { return nil }
        let named = given.map { "as \($0.prefix(100).debugDescription)" } ?? "without a content type"
        return RequestError(
            .unacceptableContentType,
            "the server answered \(head.statusCode) \(named) but the request accepts \(acceptableContentTypes.description)"
        )
    }
}
