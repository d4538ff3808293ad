// The body of a request. Each function returns a changed copy.
import Foundation

extension Request {
    /// Sets the body, and the content type unless it is nil.
    public func body(_ body: Data, contentType: String? = "application/octet-stream") -> Self {
        changed { $0.set(.data(body), contentType) }
    }

    /// Sends a file as the body, and sets the content type unless it is nil.
    ///
    /// The file is read while it is sent, and checked when the request is ready to run. The request fails with
    /// `.bodyUnreadable` if the file is missing, unreadable, not a regular file, or becomes shorter. If it grows after
    /// the check, for example a log, only the initial length is sent.
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

    /// Sets a JSON body and its content type, with your own encoder, at once, on the calling thread.
    ///
    /// A value that cannot be encoded makes the request invalid, with key path and reason. Nil, the default, means a
    /// plain `JSONEncoder`, for values that are not `Sendable`, or not `Encodable` outside the main actor. A manager
    /// with its own encoder rejects such a request.
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

    /// Sets form fields as the body, in their order, as a browser does: `application/x-www-form-urlencoded` in UTF-8;
    /// nil is sent as an empty value.
    public func form(_ fields: [URLQueryItem]) -> Self {
        let pairs = fields.map { field in
            [field.name, field.value ?? ""].map(PercentEscaper.form.escaped).joined(separator: "=")
        }
        return body(pairs.joined(separator: "&"), contentType: "application/x-www-form-urlencoded")
    }

    /// Sends the bytes of a stream, and sets the content type unless it is nil.
    ///
    /// If a stream fails, or returns fewer or more bytes than declared, the request fails with `.bodyUnreadable`, and
    /// the server never sees such a body as complete: the last bytes are sent only after the stream has reported its
    /// end, or without a declared length, the chunk that marks the end of the body is not sent.
    ///
    /// - Parameters:
    ///   - byteCount: the length; nil if unknown, for chunks (RFC 9112, section 7.1). With 0 the stream is not read.
    ///   - canRepeat: whether `stream` returns the same bytes each time, so that a redirect or a retry can send the
    ///     body again. If false, no retries take place, and a redirect that needs the body fails with
    ///     `.bodyNotReplayable`.
    ///   - contentType: the value of `Content-Type`; nil leaves the field unchanged.
    ///   - stream: makes an unopened stream, or nil, for each attempt, and is called, and the stream read, on the
    ///     request's own queue; with URLSession on Linux on its only one, so a blocking stream delays all transfers.
    public func body(
        byteCount: Int64? = nil, canRepeat: Bool = true, contentType: String? = "application/octet-stream",
        stream: @escaping @Sendable () -> InputStream?
    ) -> Self {
        changed { $0.take(.stream(byteCount: byteCount, canRepeat: canRepeat, stream), contentType) }
    }

    /// Sends the chunks of an asynchronous sequence, of which each attempt makes one iterator.
    ///
    /// With libcurl, Convoy stops reading the sequence while at least four chunks of at least 64 KiB in total wait to
    /// be sent. Chunks that are available together are sent together. The idle timeout runs while no chunk arrives. The
    /// sequence is read in tasks with the priority of the task that calls this function. If the request ends first, the
    /// waiting task is cancelled. Otherwise, length, repetition, content type and errors are as for
    /// ``body(byteCount:canRepeat:contentType:stream:)``.
    ///
    /// URLSession on Linux cannot wait for bytes, so it rejects the request with `.invalidRequest`.
    public func body<Chunks: AsyncSequence & Sendable>(
        _ chunks: Chunks, byteCount: Int64? = nil, canRepeat: Bool = false,
        contentType: String? = "application/octet-stream"
    ) -> Self where Chunks.Element == Data {
        let stream = BodyStream.sequence(chunks, byteCount: byteCount, canRepeat: canRepeat) { iterator, isAtEnd in
            if let chunk = try await iterator.next() { return chunk }
            isAtEnd = true
            return Data()
        }
        return changed { $0.take(stream, contentType) }
    }

    /// Sends the bytes of a sequence in chunks of 16 KiB; otherwise like the function for a sequence of `Data`, which
    /// is faster and sends each chunk at once.
    public func body<Bytes: AsyncSequence & Sendable>(
        _ bytes: Bytes, byteCount: Int64? = nil, canRepeat: Bool = false,
        contentType: String? = "application/octet-stream"
    ) -> Self where Bytes.Element == UInt8 {
        let stream = BodyStream.sequence(bytes, byteCount: byteCount, canRepeat: canRepeat) { iterator, isAtEnd in
            var chunk: [UInt8] = []
            chunk.reserveCapacity(16 << 10)
            while !isAtEnd, chunk.count < 16 << 10 {
                if let byte = try await iterator.next() { chunk.append(byte) } else { isAtEnd = true }
            }
            return Data(chunk)
        }
        return changed { $0.take(stream, contentType) }
    }

    /// Sends a multipart form as `multipart/form-data` (RFC 7578); a file that is missing, unreadable, a directory, or
    /// changes its size fails the request with `.bodyUnreadable`.
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
        // A stream with length 0 would never be read, so its errors would not be noticed: an empty body is sent.
        set(stream.byteCount == 0 ? .data(Data()) : .stream(stream), contentType)
        if stream.byteCount ?? 0 < 0 { self.defect = self.defect ?? "the length of the body is negative" }
    }
}
