// The reply of a stub: a value.
import Foundation

/// An answer of a ``StubTransport``, or a failure.
///
/// Before the reply, the complete body of the request is reported as sent. To report it in steps, use a transport
/// with a handler and ``StubExchange/sent(totalBytes:)``.
///
/// ```swift
/// stub.route(
///     .get, "/users/*",
///     replies: .failure(.connectionLost),
///     .status(503).after(.seconds(2)), .json(#"{"id": 1}"#))
/// ```
public struct StubReply: Sendable {
    private enum Outcome: Sendable {
        case answer(Int, HeaderFields, Data)
        case failure(RequestError)
        case nothing
    }

    private let outcome: Outcome
    /// The entity tag that a conditional request may have; nil for a reply that confirms nothing.
    private var tag: String?
    /// How long it is until it comes, by the transport's clock; zero unless ``after(_:)`` says otherwise.
    public private(set) var delay = Duration.zero

    /// No reply.
    ///
    /// The request waits until it is cancelled or its deadline has passed.
    public static let never = StubReply(outcome: .nothing)

    /// An answer with a status code and an optional body.
    public static func status(_ statusCode: Int, headerFields: HeaderFields = [:], body: Data = Data()) -> StubReply {
        StubReply(outcome: .answer(statusCode, headerFields, body))
    }

    /// An answer with a text body in UTF-8.
    public static func status(_ statusCode: Int, headerFields: HeaderFields = [:], body: String) -> StubReply {
        status(statusCode, headerFields: headerFields, body: Data(body.utf8))
    }

    /// A 200 with `Content-Type: application/octet-stream`.
    public static func body(_ data: Data) -> StubReply {
        status(200, headerFields: ["Content-Type": "application/octet-stream"], body: data)
    }

    /// An answer with a JSON body.
    ///
    /// The content type is set unless the fields have one.
    public static func json(_ text: String, statusCode: Int = 200, headerFields: HeaderFields = [:]) -> StubReply {
        var fields = headerFields
        if !fields.contains("Content-Type") { fields["Content-Type"] = "application/json" }
        return status(statusCode, headerFields: fields, body: Data(text.utf8))
    }

    /// A redirect to another URL.
    public static func redirect(to location: String, statusCode: Int = 302) -> StubReply {
        status(statusCode, headerFields: ["Location": location])
    }

    /// A failure, as a transport reports it.
    public static func failure(_ error: RequestError) -> StubReply { StubReply(outcome: .failure(error)) }

    /// A failure with a code, as a transport reports it.
    public static func failure(_ code: RequestError.Code) -> StubReply {
        failure(RequestError(code, "the stub was configured to fail"))
    }

    /// The same reply with a delay, measured from the request.
    public func after(_ delay: Duration) -> StubReply {
        var reply = self
        reply.delay = delay
        return reply
    }

    /// The same reply, to be stored by a cache: fresh for some time, and confirmed by status 304 where a request has its tag.
    ///
    /// Its age follows the clock of the manager, a virtual one too. A failure stays as it is.
    ///
    /// ```swift
    /// stub.route(
    ///     .get, "/users",
    ///     replies: .json("[]").cacheable(maxAge: .seconds(60), etag: "1"))
    /// ```
    ///
    /// - Parameters:
    ///   - maxAge: for how long it is fresh, in whole seconds.
    ///   - etag: its entity tag, without quotes; nil, the default, for none.
    public func cacheable(maxAge: Duration, etag: String? = nil) -> StubReply {
        guard case .answer(let statusCode, var headerFields, let body) = outcome else { return self }
        headerFields["Cache-Control"] = "max-age=\(max(0, maxAge.components.seconds))"
        let tag = etag.map { "\"\($0)\"" }
        headerFields["ETag"] = tag ?? headerFields["ETag"]
        return StubReply(outcome: .answer(statusCode, headerFields, body), tag: tag, delay: delay)
    }

    /// Tells an exchange, now.
    func tell(_ exchange: StubExchange) {
        if let byteCount = exchange.request.body?.byteCount, byteCount > 0 { exchange.sent(totalBytes: byteCount) }
        switch outcome {
        case .answer(_, let headerFields, _) where tag != nil && exchange.request.headerFields["If-None-Match"] == tag:
            exchange.answer(304, headerFields: headerFields)
        case .answer(let statusCode, let headerFields, let body):
            exchange.answer(statusCode, headerFields: headerFields, body: body)
        case .failure(let error): exchange.finish(error)
        case .nothing: break
        }
    }
}
