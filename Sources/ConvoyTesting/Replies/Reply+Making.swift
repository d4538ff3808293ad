import Foundation

extension Reply {
    /// A response with a body from memory.
    ///
    /// - Parameters:
    ///   - code: the status code; any number is written as it is.
    ///   - headerFields: written in this order and not checked; a `Content-Length` here replaces the true one.
    ///   - body: empty by default.
    public static func status(_ code: Int, headerFields: [(String, String)] = [], body: Data = Data()) -> Reply {
        Reply(.message(Message(statusCode: code, headerFields: headerFields, body: .data(body))))
    }

    /// A response with a body from a string, in UTF-8.
    ///
    /// Adds no `Content-Type`.
    ///
    /// - Parameters:
    ///   - code: the status code; any number is written as it is.
    ///   - headerFields: written in this order and not checked.
    ///   - body: sent as UTF-8.
    public static func status(_ code: Int, headerFields: [(String, String)] = [], body: String) -> Reply {
        status(code, headerFields: headerFields, body: Data(body.utf8))
    }

    /// An answer with `Content-Type: application/json`, and these header fields behind it.
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
    ///   - location: the value of `Location`, not checked, so that a hostile one can be sent.
    ///   - statusCode: 302 by default.
    public static func redirect(to location: String, statusCode: Int = 302) -> Reply {
        status(statusCode, headerFields: [("Location", location)])
    }

    /// A 200 in chunked transfer coding; an HTTP/1.0 client gets the bytes without it and then the end of the connection.
    ///
    /// - Parameters:
    ///   - chunks: one chunk each; empty ones are left out, since an empty chunk would be the last.
    ///   - trailers: fields after the last chunk, none by default.
    ///   - headerFields: written in this order and not checked.
    public static func chunked(
        _ chunks: [Data], trailers: [(String, String)] = [], headerFields: [(String, String)] = []
    ) -> Reply {
        Reply(
            .message(Message(statusCode: 200, headerFields: headerFields, body: .chunked(chunks, trailers: trailers))))
    }

    /// A 200 whose body is made while it is sent, so that its size costs no memory.
    ///
    /// The content is ``pattern(range:)`` from offset 0.
    ///
    /// - Parameters:
    ///   - byteCount: bytes of body; a negative count is 0.
    ///   - headerFields: written in this order and not checked.
    public static func generated(byteCount: Int64, headerFields: [(String, String)] = []) -> Reply {
        let body = Body.generated(0..<max(0, byteCount))
        return Reply(.message(Message(statusCode: 200, headerFields: headerFields, body: body)))
    }

    /// These bytes on the wire instead of a response.
    ///
    /// - Parameters:
    ///   - bytes: sent as they are, for HEAD requests too.
    ///   - closes: whether the connection is then closed in order, as by default, or waits for the next request.
    public static func raw(_ bytes: Data, closes: Bool = true) -> Reply {
        Reply(steps: closes ? [.write(bytes), .close] : [.write(bytes)])
    }

    /// These bytes, in UTF-8, on the wire instead of a response.
    ///
    /// - Parameters:
    ///   - text: sent as it is; line ends are not changed.
    ///   - closes: whether the connection is then closed in order, as by default, or waits for the next request.
    public static func raw(_ text: String, closes: Bool = true) -> Reply {
        raw(Data(text.utf8), closes: closes)
    }
}
