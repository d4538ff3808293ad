// Where the body goes and what it becomes.
import Foundation

extension Request {
    /// The same request with an output made by a function of yours.
    ///
    /// - Parameter decode: makes the output of a complete body; what it throws becomes `.decodingFailed`.
    /// - Thread: one of the library's, never a transport's.
    public func decoding<NewOutput: Sendable>(
        _ decode: @escaping @Sendable (_ body: Data, _ head: ResponseHead) throws -> NewOutput
    ) -> Request<NewOutput> {
        decoding(as: DecodingIdentity(), decode)
    }

    /// The same, with what tells it from other ways of decoding.
    func decoding<NewOutput: Sendable>(
        as identity: any AnyObject & Sendable,
        _ decode: @escaping @Sendable (_ body: Data, _ head: ResponseHead) throws -> NewOutput
    ) -> Request<NewOutput> {
        let decodable = changed { core in
            core.decodesAtOnce = false
            if case .memory = core.destination { return }
            core.defect = core.defect ?? "decoding(_:) needs the body in memory, and it goes elsewhere; use map(_:)"
        }
        return Request<NewOutput>(core: decodable.core, identity: identity) { body, head in
            try decode(body.data, head)
        }
    }

    /// The same request with its output changed by a function of yours.
    public func map<NewOutput: Sendable>(
        _ transform: @escaping @Sendable (Output) throws -> NewOutput
    ) -> Request<NewOutput> {
        let decode = self.decode
        let core = changed { $0.decodesAtOnce = false }.core
        return Request<NewOutput>(core: core, identity: DecodingIdentity()) { body, head in
            try transform(decode(body, head))
        }
    }

    /// The same request with a body kept as it is sent where its content coding is not known, instead of the error
    /// `.badResponse`; ``Response/undecodedCoding`` tells which coding the bytes have.
    ///
    /// Known codings are decoded as without it, and nothing is asked for: no `Accept-Encoding` is sent for it. What decodes
    /// the output gets the bytes as they are. URLSession decodes bodies by itself: on Linux its loader may refuse such a body.
    public func keepingUnknownCodings() -> Self { changed { $0.policies.keepsUnknownCodings = true } }

    /// The same request for its status and header fields only; the body is received and dropped.
    public func ignoringBody() -> Request<Void> {
        Request<Void>(core: to(.nowhere)) { _, _ in }
    }

    /// The same request with the body written to an `OutputStream`.
    ///
    /// The output is what a stream to memory holds at the end, or nil for any other stream. The stream is made when an
    /// acceptable answer arrives, and again should the body start afresh; it is opened, written and closed here. Every
    /// write is checked: -1, or 0 from a stream at capacity, ends the request with `.destinationUnwritable`.
    ///
    /// - Parameter makeStream: makes an unopened stream. It and the stream are used on one queue of the operation's own;
    ///   a stream that blocks delays no other request, and at most 64 MiB wait for it.
    public func written(to makeStream: @escaping @Sendable () -> OutputStream) -> Request<Data?> {
        Request<Data?>(core: to(.stream(makeStream))) { body, _ in body.storedData }
    }

    func to(_ destination: BodyDestination) -> RequestCore {
        changed { core in
            core.destination = destination
            core.decodesAtOnce = true
        }.core
    }
}
