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

    init(_ content: Content) { self.content = content }

    /// Makes a reply that performs exactly these steps and adds no bytes.
    ///
    /// The connection then waits for the next request, unless a step closed it.
    ///
    /// - Parameter steps: performed in this order.
    public init(steps: [Step]) { self.init(.steps(steps)) }
}

extension Reply {
    /// A response with a body from memory.
    ///
    /// - Parameters:
    ///   - code: the status code. Any number is written unchanged.
    ///   - headerFields: written in this order and not checked. A `Content-Length` here replaces the correct one.
    ///   - body: empty by default.
    public static func status(_ code: Int, headerFields: [(String, String)] = [], body: Data = Data()) -> Reply {
        Reply(.message(Message(statusCode: code, headerFields: headerFields, body: .data(body))))
    }

    /// A response with a body from a string, in UTF-8.
    ///
    /// The reply has no `Content-Type`, unless the fields contain it.
    ///
    /// - Parameters:
    ///   - code: the status code. Any number is written unchanged.
    ///   - headerFields: written in this order and not checked.
    ///   - body: sent as UTF-8.
    public static func status(_ code: Int, headerFields: [(String, String)] = [], body: String) -> Reply {
        status(code, headerFields: headerFields, body: Data(body.utf8))
    }

    /// A response with `Content-Type: application/json`, followed by the given header fields.
    ///
    /// The text is not checked.
    ///
    /// - Parameters:
    ///   - text: sent as UTF-8.
    ///   - statusCode: 200 by default.
    ///   - headerFields: written in this order and not checked.
    public static func json(
        _ text: String, statusCode: Int = 200, headerFields: [(String, String)] = []
    ) -> Reply {
        status(statusCode, headerFields: [("Content-Type", "application/json")] + headerFields, body: text)
    }

    /// A 200 with `Content-Type: application/octet-stream`.
    ///
    /// - Parameter data: the body.
    public static func body(_ data: Data) -> Reply {
        status(200, headerFields: [("Content-Type", "application/octet-stream")], body: data)
    }

    /// A redirect with an empty body.
    ///
    /// - Parameters:
    ///   - location: the value of `Location`. The value is not checked, so that tests can send a hostile one.
    ///   - statusCode: 302 by default.
    public static func redirect(to location: String, statusCode: Int = 302) -> Reply {
        status(statusCode, headerFields: [("Location", location)])
    }

    /// A 200 in chunked transfer coding.
    ///
    /// An HTTP/1.0 client receives the bytes without chunked coding, and the server then closes the connection.
    ///
    /// - Parameters:
    ///   - chunks: the chunks. Empty ones are omitted, because an empty chunk would end the body.
    ///   - trailers: fields after the last chunk, none by default.
    ///   - headerFields: written in this order and not checked.
    public static func chunked(
        _ chunks: [Data], trailers: [(String, String)] = [], headerFields: [(String, String)] = []
    ) -> Reply {
        Reply(
            .message(Message(statusCode: 200, headerFields: headerFields, body: .chunked(chunks, trailers: trailers))))
    }

    /// A 200 whose body is generated while it is sent, so that a large body needs no memory.
    ///
    /// The content is ``pattern(range:)`` from offset 0.
    ///
    /// - Parameters:
    ///   - byteCount: the number of body bytes; a negative count means 0.
    ///   - headerFields: written in this order and not checked.
    public static func generated(byteCount: Int64, headerFields: [(String, String)] = []) -> Reply {
        let body = Body.generated(0..<max(0, byteCount))
        return Reply(.message(Message(statusCode: 200, headerFields: headerFields, body: body)))
    }

    /// Raw bytes instead of a response.
    ///
    /// - Parameters:
    ///   - bytes: sent unchanged, also for HEAD requests.
    ///   - closes: whether the connection is closed normally afterwards; true by default. If false, it stays open.
    public static func raw(_ bytes: Data, closes: Bool = true) -> Reply {
        Reply(steps: closes ? [.write(bytes), .close] : [.write(bytes)])
    }

    /// A raw text in UTF-8 instead of a response.
    ///
    /// - Parameters:
    ///   - text: sent unchanged, including line ends.
    ///   - closes: whether the connection is closed normally afterwards; true by default. If false, it stays open.
    public static func raw(_ text: String, closes: Bool = true) -> Reply { raw(Data(text.utf8), closes: closes) }

    /// Adds a step at a moment of the exchange.
    ///
    /// The functions `stalling`, `disconnecting` and `resetting` are short forms of this function.
    ///
    /// A moment after the end of the reply counts as its end. Moments of the request only work for replies that are
    /// chosen before the body is read. These are replies of ``TestServer/enqueue(_:)-(Reply)`` and of handlers at
    /// ``TestServer/HandlerMoment/head``. A close or a reset during the request ends the exchange without a response.
    ///
    /// - Parameters:
    ///   - step: the step, performed once.
    ///   - moment: when to perform the step. Steps at the same moment are performed in the order of the calls.
    public func performing(_ step: Step, at moment: Moment) -> Reply {
        var reply = self
        reply.effects.append(Effect(moment: moment, step: step))
        return reply
    }

    /// Sends nothing until the gate is open.
    ///
    /// - Parameter gate: by default a gate that is never opened. The reply then stalls until the client disconnects,
    ///   the server is shut down, or two minutes have passed.
    public func stalling(until gate: Gate = Gate()) -> Reply { performing(.wait(gate), at: .responseStart) }

    /// Stops in the middle of the body until the gate is open.
    ///
    /// - Parameters:
    ///   - byteCount: the number of body bytes that are sent before the stop, including chunk framing.
    ///   - gate: by default a gate that is never opened.
    public func stalling(afterBodyBytes byteCount: Int64, until gate: Gate = Gate()) -> Reply {
        performing(.wait(gate), at: .responseBody(afterBytes: byteCount))
    }

    /// Closes the connection normally (FIN) in the middle of the reply.
    ///
    /// - Parameter byteCount: the number of bytes that are sent before the close, including the head; 0 for a close
    ///   before the status.
    public func disconnecting(afterBytes byteCount: Int64) -> Reply {
        performing(.close, at: .response(afterBytes: byteCount))
    }

    /// Closes the connection normally after the complete reply, without announcing `Connection: close`.
    public func disconnectingAtEnd() -> Reply { performing(.close, at: .responseEnd) }

    /// Resets the connection (RST) in the middle of the reply, after the client has received the bytes before the
    /// reset.
    ///
    /// - Parameter byteCount: the number of bytes that are sent before the reset, including the head; 0 for a reset
    ///   before the status.
    public func resetting(afterBytes byteCount: Int64) -> Reply {
        performing(.reset, at: .response(afterBytes: byteCount))
    }

    /// Sends the head at once and the body slowly.
    ///
    /// - Parameters:
    ///   - bytesPerSecond: the rate, at least 1.
    ///   - pieceBytes: the number of bytes of each write, by default the bytes of a tenth of a second.
    public func dripping(bytesPerSecond: Int, pieceBytes: Int? = nil) -> Reply {
        var reply = self
        let rate = max(1, bytesPerSecond)
        reply.pace = (rate, max(1, pieceBytes ?? rate / 10))
        return reply
    }

    /// Announces `Connection: close` and closes the connection after the reply.
    public func closingConnection() -> Reply {
        var reply = self
        reply.closesConnection = true
        return reply
    }

    /// Sends informational responses without fields before the final one.
    ///
    /// - Parameter statusCodes: the codes in order, for example `[100, 103]`. They are not checked.
    public func informational(_ statusCodes: [Int]) -> Reply {
        var reply = self
        reply.informational += statusCodes.map { ($0, []) }
        return reply
    }

    /// Sends one informational response with fields before the final one.
    ///
    /// - Parameters:
    ///   - statusCode: not checked.
    ///   - headerFields: written in this order and not checked.
    public func informational(_ statusCode: Int, headerFields: [(String, String)]) -> Reply {
        var reply = self
        reply.informational.append((statusCode, headerFields))
        return reply
    }

    /// Sends no 100 for `Expect: 100-continue`, so that the client must decide when to send the body.
    ///
    /// The modifier only works for replies that are chosen before the body is read, see ``performing(_:at:)``.
    public func withholdingContinue() -> Reply {
        var reply = self
        reply.withholdsContinue = true
        return reply
    }

    /// Responds without reading the request's body, and closes the connection, like a server that sends 413.
    ///
    /// The modifier only works for replies that are chosen before the body is read, see ``performing(_:at:)``. For up
    /// to two seconds, the server reads and discards further bytes of the client, because a reset could destroy the
    /// response.
    public func ignoringRequestBody() -> Reply {
        var reply = self
        reply.ignoresRequestBody = true
        reply.closesConnection = true
        return reply
    }

    /// One action of a connection while it sends a reply.
    ///
    /// A reply is a sequence of steps.
    ///
    /// Bytes of adjacent steps are combined, and are written when at least 64 KiB are pending. A step without bytes
    /// first writes the pending bytes.
    public enum Step: Sendable {
        /// Sends these bytes unchanged.
        case write(Data)
        /// Sends the same bytes repeatedly, for endless header sections.
        ///
        /// A count below 1 sends nothing.
        case writeRepeatedly(Data, count: Int)
        /// Sends a range of the pattern, see ``Reply/patternByte(at:)``, without storing it in memory.
        case generate(Range<Int64>)
        /// Writes the pending bytes, so that the next bytes use a separate write.
        case flush
        /// Waits until the gate is open.
        case wait(Gate)
        /// Waits for a time, or until the client disconnects.
        case pause(Duration)
        /// Sends the following bytes at a rate, in writes of `pieceBytes`.
        ///
        /// A rate below 1 ends the pacing.
        case pace(bytesPerSecond: Int, pieceBytes: Int)
        /// Closes the connection normally (FIN).
        ///
        /// Later steps are ignored.
        case close
        /// Closes the connection with a reset (RST), after the client has acknowledged all sent bytes or two seconds
        /// have passed.
        ///
        /// Later steps are ignored.
        case reset
        /// Stops reading.
        ///
        /// Further bytes of the client are ignored.
        case shutDownReading
        /// Sends FIN but continues to read.
        ///
        /// The connection is closed when the reply ends.
        case shutDownWriting

        var byteCount: Int64 {
            switch self {
            case .write(let data): Int64(data.count)
            case .writeRepeatedly(let data, let count): Int64(min(Double(data.count) * Double(max(0, count)), 0x1p62))
            case .generate(let range): range.upperBound - range.lowerBound
            default: 0
            }
        }

        func split(at offset: Int64) -> (before: [Step], after: [Step]) {
            switch self {
            case .write(let data):
                return ([.write(data.prefix(Int(offset)))], [.write(data.dropFirst(Int(offset)))])
            case .writeRepeatedly(let data, let count):
                let (whole, rest) = offset.quotientAndRemainder(dividingBy: Int64(data.count))
                let head = Step.writeRepeatedly(data, count: Int(whole))
                guard rest > 0 else { return ([head], [.writeRepeatedly(data, count: count - Int(whole))]) }
                return (
                    [head, .write(data.prefix(Int(rest)))],
                    [.write(data.dropFirst(Int(rest))), .writeRepeatedly(data, count: count - Int(whole) - 1)]
                )
            case .generate(let range):
                let middle = range.lowerBound + offset
                return ([.generate(range.lowerBound..<middle)], [.generate(middle..<range.upperBound)])
            default:
                return ([self], [])
            }
        }
    }

    /// When a step of ``performing(_:at:)`` is performed.
    ///
    /// Steps at the same moment are performed in the order in which they were added.
    public enum Moment: Sendable, Hashable {
        /// After the head of the request was read, before its body.
        case requestStart
        /// After a number of bytes of the request's body were read.
        ///
        /// A shorter body never reaches this moment.
        case requestBody(afterBytes: Int64)
        /// After the complete request was read, before any byte of the reply.
        case responseStart
        /// After a number of bytes of the body of the final response, including chunk framing.
        case responseBody(afterBytes: Int64)
        /// After a number of bytes of the reply, including heads and informational responses.
        case response(afterBytes: Int64)
        /// After all bytes of the reply were sent.
        case responseEnd
    }
}
