// The body of a request. Each function returns a changed copy.
import Foundation

extension Request {
    /// Sets the body, and the content type unless it is nil.
    public func body(_ body: Data, contentType: String? = "application/octet-stream") -> Self {
        changed { $0.set(.data(body), contentType) }
    }

    /// Sends a file as the body, and sets the content type unless it is nil.
    ///
    /// The file is read while it is sent. The file is checked when the request is ready to run and its dependencies
    /// have finished. The request fails with `.bodyUnreadable` if the file is missing, unreadable, not a regular file,
    /// or becomes shorter while it is sent. If the file grows after the check, for example a log, only the initial
    /// length is sent.
    public func body(fromFile file: URL, contentType: String? = "application/octet-stream") -> Self {
        changed {
            $0.set(.file(file), contentType)
            if !file.isFileURL { $0.defect = $0.defect ?? "the body \(file.redactedString) is not a file URL" }
        }
    }

    /// Sets a JSON body and its content type.
    ///
    /// - Parameter value: the value to encode. It is encoded once for each operation, on the thread that makes the
    ///   operation, by the manager's encoder (``RequestManager/Configuration/encoder``) or a plain `JSONEncoder`. If
    ///   encoding fails, the operation fails with `.invalidRequest`, which names the key path and the reason.
    public func json(_ value: some Encodable & Sendable) -> Self {
        changed { $0.set(.json { try ($0 ?? JSONEncoder()).encode(value) }, "application/json") }
    }

    /// Sets a JSON body and its content type, with your own encoder.
    ///
    /// A value that cannot be encoded makes the request invalid. The error names the key path and the reason.
    ///
    /// - Parameters:
    ///   - value: the value to encode at once, on the calling thread.
    ///   - encoder: the encoder. Nil, the default, means a plain `JSONEncoder`. Use nil for values that are not
    ///     `Sendable`, or not `Encodable` outside the main actor. A manager with its own encoder rejects a request
    ///     made with nil.
    public func json(_ value: some Encodable, encoder: JSONEncoder? = nil) -> Self {
        let request = settingJSON { try (encoder ?? JSONEncoder()).encode(value) }
        guard encoder == nil, case .data(let data)? = request.core.body else { return request }
        let name = String(describing: type(of: value))
        return request.changed {
            $0.body = .json { encoder in
                guard encoder != nil else { return data }
                throw EncodingError.refusal(
                    "\(name) is not Sendable, so the manager's encoder cannot encode it; pass an encoder: json(_:encoder:)",
                    at: [])
            }
        }
    }

    /// Sets a text body in UTF-8, and the content type unless it is nil.
    public func body(_ text: String, contentType: String? = "text/plain; charset=utf-8") -> Self {
        body(Data(text.utf8), contentType: contentType)
    }

    /// Sets form fields as the body, as a browser does: `application/x-www-form-urlencoded` in UTF-8.
    ///
    /// - Parameter fields: the fields in order. A name may occur several times. A nil value is sent as an empty one.
    public func form(_ fields: [URLQueryItem]) -> Self {
        body(FormFields.encoded(fields), contentType: "application/x-www-form-urlencoded")
    }

    /// Sends the bytes of a stream, and sets the content type unless it is nil.
    ///
    /// The stream is read while it is sent. If a stream fails, or returns fewer or more bytes than declared, the
    /// request fails with `.bodyUnreadable`. The server never sees such a body as complete. With a declared length, the
    /// last bytes are sent only after the stream has reported its end. Without one, the chunk that marks the end of the
    /// body is not sent after a failure.
    ///
    /// - Parameters:
    ///   - byteCount: the length. Nil when unknown; the body is then sent in chunks (RFC 9112, section 7.1). With 0
    ///     the stream is not read.
    ///   - canRepeat: whether `stream` returns the same bytes each time, so that a redirect or a retry can send the
    ///     body again. If false, the body is sent only once. If a redirect needs the body again, the request fails with
    ///     `.bodyNotReplayable`, and retries do not take place.
    ///   - contentType: the value of `Content-Type`; nil leaves the field unchanged.
    ///   - stream: makes an unopened stream for each attempt; nil if it can make none. The function is called, and the
    ///     stream is read, on the request's own queue. URLSession on Linux uses its only queue instead, so a blocking
    ///     stream delays every other transfer.
    public func body(
        byteCount: Int64? = nil, canRepeat: Bool = true, contentType: String? = "application/octet-stream",
        stream: @escaping @Sendable () -> InputStream?
    ) -> Self {
        changed { $0.take(.stream(byteCount: byteCount, canRepeat: canRepeat, stream), contentType) }
    }

    /// Sends the chunks of an asynchronous sequence, and sets the content type unless it is nil.
    ///
    /// With libcurl, Convoy stops reading the sequence while at least four chunks of at least 64 KiB in total wait to
    /// be sent. Chunks that are available together are sent together. If the sequence throws, or returns fewer or more
    /// bytes than declared, the request fails with `.bodyUnreadable`. The server never sees such a body as complete.
    /// With a declared length, the last chunk is sent only after the sequence has ended. The idle timeout runs while no
    /// chunk arrives. The sequence is read in tasks with the priority of the task that calls this function. If the
    /// request ends first, the task that waits for the next chunk is cancelled.
    ///
    /// URLSession on Linux cannot wait for bytes, so it rejects the request with `.invalidRequest`.
    ///
    /// - Parameters:
    ///   - chunks: the sequence. Each attempt makes one iterator.
    ///   - byteCount: the length. Nil when unknown; the body is then sent in chunks (RFC 9112, section 7.1). With 0
    ///     the sequence is not read.
    ///   - canRepeat: whether another iterator returns the same bytes, so that a redirect or a retry can send the
    ///     body again. If false, see ``body(byteCount:canRepeat:contentType:stream:)``.
    ///   - contentType: the value of `Content-Type`; nil leaves the field unchanged.
    public func body<Chunks: AsyncSequence & Sendable>(
        _ chunks: Chunks, byteCount: Int64? = nil, canRepeat: Bool = false,
        contentType: String? = "application/octet-stream"
    ) -> Self where Chunks.Element == Data {
        changed { $0.take(.sequence(chunks, byteCount: byteCount, canRepeat: canRepeat), contentType) }
    }

    /// Sends the bytes of a sequence, collected into chunks of 16 KiB.
    ///
    /// The function works like the function for a sequence of `Data`, and has its parameters. That function is faster,
    /// and sends each chunk without waiting for 16 KiB.
    public func body<Bytes: AsyncSequence & Sendable>(
        _ bytes: Bytes, byteCount: Int64? = nil, canRepeat: Bool = false,
        contentType: String? = "application/octet-stream"
    ) -> Self where Bytes.Element == UInt8 {
        body(ByteChunks(bytes: bytes), byteCount: byteCount, canRepeat: canRepeat, contentType: contentType)
    }

    /// Sends a multipart form as `multipart/form-data` (RFC 7578).
    ///
    /// The files of the form are read while they are sent. The request fails with `.bodyUnreadable` if a file is
    /// missing, unreadable, a directory, or changes its size while it is sent.
    public func multipart(_ form: MultipartForm) -> Self {
        changed {
            $0.set(.multipart(form), form.contentType)
            $0.defect = $0.defect ?? form.defect
        }
    }
}

extension RequestCore {
    /// - Parameter contentType: nil leaves the field unchanged.
    mutating func set(_ body: GivenBody, _ contentType: String?) {
        self.body = body
        if let contentType { headerFields["Content-Type"] = contentType }
    }

    mutating func take(_ stream: BodyStream, _ contentType: String? = nil) {
        // A stream with length 0 would never be read, so its errors would not be noticed. An empty body is sent
        // instead.
        set(stream.byteCount == 0 ? .data(Data()) : .stream(stream), contentType)
        if let byteCount = stream.byteCount, byteCount < 0 { defect = defect ?? "the length of the body is negative" }
    }
}

struct ByteChunks<Bytes: AsyncSequence & Sendable>: AsyncSequence, Sendable where Bytes.Element == UInt8 {
    let bytes: Bytes

    func makeAsyncIterator() -> Iterator { Iterator(bytes: bytes.makeAsyncIterator()) }

    struct Iterator: AsyncIteratorProtocol {
        fileprivate var bytes: Bytes.AsyncIterator
        private var isAtEnd = false

        fileprivate init(bytes: Bytes.AsyncIterator) { self.bytes = bytes }

        mutating func next() async throws -> Data? {
            var chunk: [UInt8] = []
            chunk.reserveCapacity(16 << 10)
            while !isAtEnd, chunk.count < 16 << 10 {
                if let byte = try await bytes.next() { chunk.append(byte) } else { isAtEnd = true }
            }
            return chunk.isEmpty ? nil : Data(chunk)
        }
    }
}
