// What a request sends: each function returns a changed copy.
import Foundation

extension Request {
    /// Sets the body, and its content type unless that is nil.
    public func body(_ body: Data, contentType: String? = "application/octet-stream") -> Self {
        changed {
            $0.body = .data(body)
            if let contentType { $0.headerFields["Content-Type"] = contentType }
        }
    }

    /// Sends a file as the body, read while it is sent, and sets the content type unless that is nil.
    ///
    /// The file is looked at when the request is ready to run, its dependencies finished. One that is missing, unreadable or
    /// no regular file, or becomes shorter while it is sent, ends the request with `.bodyUnreadable`; of one that grows
    /// meanwhile, a log for example, what was there is sent.
    public func body(fromFile file: URL, contentType: String? = "application/octet-stream") -> Self {
        changed {
            $0.body = .file(file)
            if let contentType { $0.headerFields["Content-Type"] = contentType }
            if !file.isFileURL { $0.defect = "the body \(file.redactedString) is not a file URL" }
        }
    }

    /// Sets a JSON body and its content type.
    ///
    /// - Parameter value: what to encode, on the thread that makes an operation of the request and once for each operation,
    ///   by the encoder of its manager (``RequestManager/Configuration/encoder``), else by a plain `JSONEncoder`. When it
    ///   cannot be encoded the operation ends with `.invalidRequest`, which names the key path and the reason.
    public func json(_ value: some Encodable & Sendable) -> Self {
        changed { $0.setJSON(.json { try ($0 ?? JSONEncoder()).encode(value) }) }
    }

    /// Sets a JSON body and its content type, made by an encoder of yours.
    ///
    /// A value that cannot be encoded makes the request invalid, with the key path and the reason.
    ///
    /// - Parameters:
    ///   - value: what to encode, now, on the calling thread.
    ///   - encoder: the encoder. Nil, the default, is for what is not `Sendable`, or not `Encodable` outside the main actor: a
    ///     plain `JSONEncoder`, which cannot be replaced later. A manager with an encoder of its own refuses such a request.
    public func json(_ value: some Encodable, encoder: JSONEncoder? = nil) -> Self {
        let request = settingJSON { try (encoder ?? JSONEncoder()).encode(value) }
        guard encoder == nil, case .data(let data)? = request.core.body else { return request }
        let name = String(describing: type(of: value))
        return request.changed {
            $0.body = .json { encoder in
                guard encoder != nil else { return data }
                throw EncodingError.refusal(
                    "\(name) is not Sendable, so the manager's encoder cannot have it; name one: json(_:encoder:)",
                    at: [])
            }
        }
    }

    /// Sets a body of text in UTF-8, and its content type unless that is nil.
    public func body(_ text: String, contentType: String? = "text/plain; charset=utf-8") -> Self {
        body(Data(text.utf8), contentType: contentType)
    }

    /// Sets a body of fields, as a form in a browser sends them: `application/x-www-form-urlencoded`, in UTF-8.
    ///
    /// - Parameter fields: in this order; a name may occur several times, and a nil value is sent as an empty one.
    public func form(_ fields: [URLQueryItem]) -> Self {
        body(FormFields.encoded(fields), contentType: "application/x-www-form-urlencoded")
    }

    /// Sends what a stream gives, read while it is sent, and sets the content type unless that is nil.
    ///
    /// A stream that fails, gives fewer bytes than declared or more, ends the request with `.bodyUnreadable`; the server
    /// never sees such a body as complete. To know that there are no more, the last bytes are held back until the stream
    /// says that it ends.
    ///
    /// - Parameters:
    ///   - byteCount: the length; nil when it is not known, which sends the body in chunks (RFC 9112, section 7.1). With 0
    ///     nothing is asked of the stream.
    ///   - canRepeat: whether `stream` gives the same bytes each time it is called, so that the body can follow a redirect
    ///     or be sent again. A body that cannot is sent once, whatever comes of it: where it would be needed a second time
    ///     the request ends with `.bodyNotReplayable`, and a retry does not take place.
    ///   - contentType: the value of `Content-Type`; nil leaves the field alone.
    ///   - stream: makes an unopened stream, for each attempt; nil when there is none.
    ///     Called on a queue of the request's own, where the stream is read; over URLSession on Linux that is the
    ///     loader's one queue, so that a stream that waits holds up every other transfer there.
    public func body(
        byteCount: Int64? = nil, canRepeat: Bool = true, contentType: String? = "application/octet-stream",
        stream: @escaping @Sendable () -> InputStream?
    ) -> Self {
        body(.stream(byteCount: byteCount, canRepeat: canRepeat, stream), contentType: contentType)
    }

    /// Sends the chunks of a sequence as they come, and sets the content type unless that is nil.
    ///
    /// The sequence is asked for no more than a few chunks, or 64 KiB of small ones, ahead of what the network takes. Chunks
    /// that are there together go out together. One that throws, or gives fewer bytes than declared or more, ends the
    /// request with `.bodyUnreadable`; the server never sees such a body as complete. With a declared length the last chunk
    /// is held back until the sequence ends. While nothing comes the idle timeout runs. It is asked in tasks with the
    /// priority of the one that calls this function; when the request ends first, the task that waits for the next chunk is
    /// cancelled.
    ///
    /// URLSession on Linux cannot wait for bytes: there the request is refused with `.invalidRequest`.
    ///
    /// - Parameters:
    ///   - chunks: asked for an iterator once for each attempt.
    ///   - byteCount: the length; nil when it is not known, which sends the body in chunks (RFC 9112, section 7.1). With 0
    ///     nothing is asked of the sequence.
    ///   - canRepeat: whether another iterator gives the same bytes, so that the body can follow a redirect or be sent
    ///     again; what becomes of one that cannot, see ``body(byteCount:canRepeat:contentType:stream:)``.
    ///   - contentType: the value of `Content-Type`; nil leaves the field alone.
    public func body<Chunks: AsyncSequence & Sendable>(
        _ chunks: Chunks, byteCount: Int64? = nil, canRepeat: Bool = false,
        contentType: String? = "application/octet-stream"
    ) -> Self where Chunks.Element == Data {
        body(.sequence(chunks, byteCount: byteCount, canRepeat: canRepeat), contentType: contentType)
    }

    /// Sends the bytes of a sequence, gathered into chunks of 16 KiB.
    ///
    /// Everything else is as for a sequence of `Data`, which is the better one for bytes that come now and then and should
    /// go out at once, and the faster one.
    ///
    /// - Parameters:
    ///   - bytes: asked for an iterator once for each attempt.
    ///   - byteCount: the length, or nil.
    ///   - canRepeat: whether another iterator gives the same bytes.
    ///   - contentType: the value of `Content-Type`; nil leaves the field alone.
    public func body<Bytes: AsyncSequence & Sendable>(
        _ bytes: Bytes, byteCount: Int64? = nil, canRepeat: Bool = false,
        contentType: String? = "application/octet-stream"
    ) -> Self where Bytes.Element == UInt8 {
        body(ByteChunks(bytes: bytes), byteCount: byteCount, canRepeat: canRepeat, contentType: contentType)
    }

    /// Sends a form in parts, files among them read while they are sent, as `multipart/form-data` (RFC 7578).
    ///
    /// A file that is missing, unreadable, a directory, or changes its size while it is sent, ends the request with
    /// `.bodyUnreadable`.
    public func multipart(_ form: MultipartForm) -> Self {
        changed {
            $0.body = .multipart(form)
            $0.headerFields["Content-Type"] = form.contentType
            $0.defect = $0.defect ?? form.defect
        }
    }

    private func body(_ stream: BodyStream, contentType: String?) -> Self {
        changed {
            $0.take(stream)
            if let contentType { $0.headerFields["Content-Type"] = contentType }
        }
    }
}

extension RequestCore {
    mutating func setJSON(_ body: GivenBody) {
        self.body = body
        headerFields["Content-Type"] = "application/json"
    }

    /// Has the request send a stream.
    mutating func take(_ stream: BodyStream) {
        // The bytes of an empty one would not be asked for, and so not be missed.
        body = stream.byteCount == 0 ? .data(Data()) : .stream(stream)
        if let byteCount = stream.byteCount, byteCount < 0 { defect = "the length of the body is negative" }
    }
}
