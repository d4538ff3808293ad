// The reply of a stub.
import Foundation

/// A response or a failure of a ``StubTransport``.
///
/// The transport first reports the complete request body as sent. To report it in steps, use a transport with a
/// handler and ``StubExchange/sent(totalBytes:)``.
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
    /// The entity tag for which the stub replies with status 304; nil if the reply has none.
    private var tag: String?
    /// The delay of the reply by the transport's clock.
    ///
    /// It is zero unless ``after(_:)`` sets it.
    public private(set) var delay = Duration.zero

    /// A reply that never arrives.
    ///
    /// The request waits until it is cancelled or its deadline passes.
    public static let never = StubReply(outcome: .nothing)

    /// A response with a status code and an optional body.
    public static func status(_ statusCode: Int, headerFields: HeaderFields = [:], body: Data = Data()) -> StubReply {
        StubReply(outcome: .answer(statusCode, headerFields, body))
    }

    /// A response with a text body in UTF-8.
    public static func status(_ statusCode: Int, headerFields: HeaderFields = [:], body: String) -> StubReply {
        status(statusCode, headerFields: headerFields, body: Data(body.utf8))
    }

    /// A response with status 200 and `Content-Type: application/octet-stream`.
    public static func body(_ data: Data) -> StubReply {
        status(200, headerFields: ["Content-Type": "application/octet-stream"], body: data)
    }

    /// A response with a JSON body.
    ///
    /// The content type is `application/json`, unless the fields contain another.
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

    /// The same reply, as a response that a cache can store.
    ///
    /// The response is fresh for the given time. If the `If-None-Match` of a request is the tag, the stub replies with
    /// status 304. The cache measures the age by the manager's clock, which may be virtual. A failure and ``never`` are
    /// not changed.
    ///
    /// ```swift
    /// stub.route(
    ///     .get, "/users",
    ///     replies: .json("[]").cacheable(maxAge: .seconds(60), etag: "1"))
    /// ```
    ///
    /// - Parameters:
    ///   - maxAge: the freshness lifetime, in whole seconds.
    ///   - etag: the entity tag, without quotes. With nil, the default, the stub never replies with status 304.
    public func cacheable(maxAge: Duration, etag: String? = nil) -> StubReply {
        guard case .answer(let statusCode, var headerFields, let body) = outcome else { return self }
        headerFields["Cache-Control"] = "max-age=\(max(0, maxAge.components.seconds))"
        let tag = etag.map { "\"\($0)\"" }
        headerFields["ETag"] = tag ?? headerFields["ETag"]
        return StubReply(outcome: .answer(statusCode, headerFields, body), tag: tag ?? self.tag, delay: delay)
    }

    /// Delivers the reply to an exchange now.
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
