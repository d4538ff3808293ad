// What moves the bytes: the seam between operations and loaders.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Makes the task that moves the bytes of one attempt.
///
/// An operation owns the task and uses nothing of it but `resume`, `suspend`, `cancel` and its properties; everything that
/// arrives goes to the client. Write one to replay recorded answers or to move bytes another way; `StubTransport` is the
/// smallest example, and the conformance suite in `Tests/ConvoyTests/Transport` says what is expected.
///
/// ## Concurrency
/// `makeTask` is called from any thread, with no lock held.
public protocol Transport: AnyObject, Sendable {
    /// Whether a task that is suspended and resumed goes on where it was. Where it does not, operations end the attempt
    /// and begin another.
    var pausesInPlace: Bool { get }

    /// Whether tasks may be made, resumed and cancelled from within a client's callbacks, on the transport's own thread; false
    /// unless you say so.
    ///
    /// A request is then started by the end of another, without a change of threads: `makeTask`, `resume()` and `cancel()`
    /// may run on the transport's thread, and must not wait. `cancel()` may come while `suspend()` or `resume()` runs.
    var isReentrant: Bool { get }

    /// Makes a suspended task for an attempt.
    ///
    /// After `resume()`, the client hears of the response, the body and, exactly once and last, the end. After
    /// `cancel()`, whenever it comes, the end still follows; the operation does not wait for it. A task that was never
    /// resumed may end in silence.
    ///
    /// - Throws: `.invalidRequest` when this transport cannot send the request.
    func makeTask(
        for request: PreparedRequest, client: any TransportClient
    ) throws(RequestError) -> URLSessionTask
}

/// Hears what happens to one attempt.
///
/// One call at a time; the thread is the transport's.
public protocol TransportClient: AnyObject, Sendable {
    /// The head of a response. It may come again, after an interim response for example; the body then starts afresh.
    func didReceive(_ head: ResponseHead)
    /// How many bytes of the body should come in one call, at most; it may change at any time.
    ///
    /// A limit of bytes a second is kept the more evenly the smaller the pieces are. A transport that brings more breaks
    /// nothing: what comes is waited for.
    var maxPieceBytes: Int { get }
    /// How many bytes of the body the client waits for; nil for all of it.
    ///
    /// A transport asks once it knows that the body is longer than 64 KiB, and closes the HTTP/1.1 connection of one that is
    /// longer than this.
    var maxBodyBytes: Int64? { get }
    /// The next bytes of the body, content-decoded.
    ///
    /// More may come after false: what the transport has in hands.
    ///
    /// - Returns: whether more may come. After false a transport with ``Transport/pausesInPlace`` holds its task as if
    ///   `suspend()` had been called, then calls ``didHold()``.
    func didReceive(_ data: Data) -> Bool
    /// The task is held, because no more was wanted; from now on the client may call its `resume()`.
    func didHold()
    /// How many bytes of the request's body have been sent so far.
    func didSend(totalBytes: Int64)
    /// What was measured; before the end, from transports that measure.
    func didCollect(_ metrics: TransferMetrics)
    /// The end; nil when the response is complete. Nothing follows.
    func didFinish(_ error: RequestError?)
}

extension Transport {
    /// By default the transport is called from elsewhere.
    public var isReentrant: Bool { false }
}

extension TransportClient {
    /// By default pieces may have any size.
    public var maxPieceBytes: Int { .max }
    /// By default the whole body is waited for.
    public var maxBodyBytes: Int64? { nil }
    /// By default measurements are dropped.
    public func didCollect(_: TransferMetrics) {}
}
