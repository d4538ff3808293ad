import Foundation

/// The response of a ``TestServer`` to one request: a correct response, or any deliberate fault.
///
/// A reply is a value. Make one with a factory, change it with modifiers, and use it any number of times:
///
/// ```swift
/// let fields = [("ETag", "\"1\"")]
/// let plain = Reply.status(200, headerFields: fields, body: "hello")
/// let cut = plain.disconnecting(afterBytes: 20)
/// let slow = Reply.generated(byteCount: 1_000_000)
///     .dripping(bytesPerSecond: 50_000)
/// let anything = Reply(steps: [.write(Data("HTTP/1.1 200".utf8)), .reset])
/// ```
///
/// Factories, except `raw`, write a correct response: status line, the given fields and the framing. The framing is
/// `Transfer-Encoding` for `chunked`, otherwise `Content-Length`. It is omitted for 1xx, 204 and 304, and if the given
/// fields contain either name. `Connection: close` is added if the server closes the connection after the reply. A step
/// that closes the connection adds no field. No `Date` and no `Server` field is added, so the bytes are the same on
/// every run. HEAD requests and the codes 1xx, 204 and 304 get no body.
///
/// ## Concurrency
/// A reply is a value without a reference to a server; use it from any thread. Copies share only a ``Gate``.
///
/// ## Topics
/// - ``status(_:headerFields:body:)-(_,_,Data)``
/// - ``resource(_:etag:lastModified:headerFields:)``
/// - ``generated(byteCount:headerFields:)``
/// - ``performing(_:at:)``
/// - ``init(steps:)``
public struct Reply: Sendable {
    enum Body: Sendable {
        case data(Data)
        case generated(Range<Int64>)
        case chunked([Data], trailers: [(String, String)])
    }

    struct Message: Sendable {
        var statusCode: Int
        var headerFields: [(String, String)]
        var body: Body
    }

    enum Content: Sendable {
        case message(Message)
        case resource(Resource)
        case steps([Step])
    }

    struct Effect: Sendable {
        var moment: Moment
        var step: Step
    }

    var content: Content
    var effects: [Effect] = []
    var informational: [(statusCode: Int, headerFields: [(String, String)])] = []
    var pace: (bytesPerSecond: Int, pieceBytes: Int)?
    var closesConnection = false
    var withholdsContinue = false
    var ignoresRequestBody = false

    init(_ content: Content) {
        self.content = content
    }

    /// Makes a reply that performs exactly these steps and adds no bytes.
    ///
    /// The connection then waits for the next request, unless a step closed it.
    ///
    /// - Parameter steps: performed in this order.
    public init(steps: [Step]) {
        self.init(.steps(steps))
    }
}
