import Foundation

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
    public static func raw(_ text: String, closes: Bool = true) -> Reply {
        raw(Data(text.utf8), closes: closes)
    }
}
