// The destination of a response's body, and the output.
import Foundation

extension Request {
    /// The same request with an output made by your function, for example from another format.
    ///
    /// Foundation's decoder of property lists may overflow the stack if a list is nested deeply; use it for servers
    /// that you trust.
    ///
    /// ```swift
    /// let request = Request<Data>.get("https://example.com/a.plist")
    ///     .decoding { body, _ in try PropertyListDecoder().decode(User.self, from: body) }
    /// ```
    ///
    /// - Parameter decode: makes the output from a complete body. An error that it throws becomes `.decodingFailed`.
    /// - Thread: a thread of the library, never a transport's.
    public func decoding<NewOutput: Sendable>(
        _ decode: @escaping @Sendable (_ body: Data, _ head: ResponseHead) throws -> NewOutput
    ) -> Request<NewOutput> {
        decoding(byFunction: true, decode)
    }

    func decoding<NewOutput: Sendable>(
        byFunction: Bool,
        _ decode: @escaping @Sendable (_ body: Data, _ head: ResponseHead) throws -> NewOutput
    ) -> Request<NewOutput> {
        let decodable = changed { core in
            core.decodesAtOnce = false
            if case .memory = core.destination { return }
            core.defect =
                core.defect ?? "decoding(_:) needs the body in memory, but the request sends it elsewhere; use map(_:)"
        }
        return Request<NewOutput>(core: decodable.core, byFunction: byFunction) { body, head in
            try decode(body.data, head)
        }
    }

    /// The same request with its output changed by your function.
    public func map<NewOutput: Sendable>(
        _ transform: @escaping @Sendable (Output) throws -> NewOutput
    ) -> Request<NewOutput> {
        let decode = self.decode
        let core = changed { $0.decodesAtOnce = false }.core
        return Request<NewOutput>(core: core, byFunction: true) { body, head in
            try transform(decode(body, head))
        }
    }

    /// The same request, but it accepts a body with an unknown content coding (``Response/undecodedCoding``).
    ///
    /// By default such a body fails with `.badResponse`, unless it is saved to a file. Known codings are still decoded
    /// down to the unknown one, and `Accept-Encoding` does not change. The decoder of the output receives the undecoded
    /// bytes. URLSession decodes bodies itself, and on Linux it may reject such a body.
    public func keepingUnknownCodings() -> Self { changed { $0.policies.keepsUnknownCodings = true } }

    /// The same request for its status and header fields only; the body is received and discarded.
    public func ignoringBody() -> Request<Void> { ignoringBody(returning: ()) }

    /// Unlike with ``map(_:)``, no user code makes the output, so the transport's thread can finish the request.
    package func ignoringBody<NewOutput: Sendable>(returning output: NewOutput) -> Request<NewOutput> {
        Request<NewOutput>(core: to(.nowhere)) { _, _ in output }
    }

    /// The same request with the body written to an `OutputStream`; its output is a memory stream's content or nil.
    ///
    /// The stream is made when an acceptable response arrives, and again if the body starts over. The library opens,
    /// writes and closes it. A write that returns -1, or 0 for a full stream, fails the request with
    /// `.destinationUnwritable`.
    ///
    /// - Parameter makeStream: makes an unopened stream. It is called, and the stream used, on the operation's own
    ///   queue, so a blocking stream delays no other request. If more bytes than ``maxBodyBytes(_:)``, by default 64
    ///   MiB, wait for the stream, the request fails with `.bodyTooLarge`.
    public func written(to makeStream: @escaping @Sendable () -> OutputStream) -> Request<Data?> {
        Request<Data?>(core: to(.stream(makeStream))) { body, _ in body.storedData }
    }

    func to(_ destination: BodyDestination) -> RequestCore {
        changed { core in
            core.destination = destination
            core.decodesAtOnce = true
        }.core
    }
}

/// Once an attempt has sent its request, it needs only these rules, not the request.
struct AnswerRules: Sendable {
    let method: HTTPMethod
    let destination: BodyDestination
    let policyBox: RequestCore.PolicyBox?
    /// Whether decoding is fast and calls no user code, so that a transport's thread may decode.
    let decodesAtOnce: Bool

    var decodesRefusals: Bool { policyBox?.policies.decodesRefusal != nil }

    func bodyLimit(_ defaults: RequestDefaults) -> Int64? { policyBox?.policies.bodyLimit ?? defaults.maxBodyBytes }

    func memoryLimit(_ defaults: RequestDefaults) -> Int64 { bodyLimit(defaults) ?? 64 << 20 }

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
        guard let acceptableContentTypes = policyBox?.policies.acceptableContentTypes, method != .head,
            ![204, 205, 304].contains(head.statusCode), head.expectedBytes != 0
        else { return nil }
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
