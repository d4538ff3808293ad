import Foundation

/// What a ``TestServer`` does with one request: a response, or any misuse of the wire that looks like one.
///
/// A reply is a value. Make one from a factory, change it with modifiers, hand it out as often as you like:
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
/// Factories write a correct response: status line, the fields given, `Content-Length` unless the fields given have it
/// or `Transfer-Encoding`, and `Connection: close` where it closes. No `Date` and no `Server` field is added, so
/// the bytes are the same on every run. HEAD requests and the codes 1xx, 204 and 304 get no body.
///
/// ## Concurrency
/// A value without reference to its server: it may be made and sent across threads freely. Only a ``Gate`` in it is shared.
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

    /// Makes a reply that does exactly these steps and adds no byte of its own.
    ///
    /// The connection then waits for the next request, unless a step closed it.
    ///
    /// - Parameter steps: done in this order.
    public init(steps: [Step]) {
        self.init(.steps(steps))
    }
}
