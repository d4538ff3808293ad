// Which content types are an answer and which are a failure.

/// Decides whether a content type is acceptable.
///
/// A value, not a function: it is asked on a transport's thread, where no user code may run.
struct ContentTypeCheck: Sendable, Hashable {
    struct Problem: Error {
        let reason: String
    }

    /// Media ranges in lower case; nil for every type.
    private let ranges: [String]?

    static let any = ContentTypeCheck(ranges: nil)

    /// Makes a check for media ranges (RFC 9110, section 12.5.1), without parameters.
    static func make(_ ranges: [String]) -> Result<ContentTypeCheck, Problem> {
        if ranges.isEmpty { return .failure(Problem(reason: "no content type would be accepted")) }
        for range in ranges where range.contains(";") || mediaType(of: range) == nil || range.hasPrefix("*/") {
            guard range == "*/*" else {
                return .failure(
                    Problem(reason: "\(range.debugDescription) is no content type such as text/html or image/*"))
            }
        }
        return .success(ContentTypeCheck(ranges: ranges.compactMap(mediaType)))
    }

    func callAsFunction(_ type: String) -> Bool {
        guard let ranges else { return true }
        return ranges.contains { range in
            range == type || range == "*/*" || range.hasSuffix("/*") && type.hasPrefix(range.dropLast())
        }
    }

    /// What is accepted, for people.
    var description: String { ranges?.joined(separator: ", ") ?? "*/*" }

    /// Type and subtype in lower case, without parameters; nil for what is no media type.
    static func mediaType(of contentType: String) -> String? {
        let type = contentType.prefix { $0 != ";" }.trimmed.lowercased()
        let parts = type.split(separator: "/", omittingEmptySubsequences: false)
        return parts.count == 2 && parts.allSatisfy { String($0).isHTTPToken } ? type : nil
    }
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

extension Substring {
    /// Without the spaces and tabs around it: optional white space as HTTP has it.
    fileprivate var trimmed: Substring {
        let isBlank: (Character) -> Bool = { $0 == " " || $0 == "\t" }
        var rest = drop(while: isBlank)
        while let last = rest.last, isBlank(last) { rest.removeLast() }
        return rest
    }
}
