// The protocols between operations and transports.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Makes the task that transfers the bytes of one attempt.
///
/// An operation owns the task and uses only its `resume`, `suspend`, `cancel` and properties. The task passes
/// everything that it receives to the client. Write a transport to replay recorded responses or to use another HTTP
/// library. `StubTransport` of ConvoyTesting is the smallest example, and the conformance suite in
/// `Tests/ConvoyTests/Transport` defines the expected behaviour.
///
/// ## Concurrency
/// `makeTask` is called from any thread, without a lock.
public protocol Transport: AnyObject, Sendable {
    /// Whether a resumed task continues where it was suspended.
    ///
    /// If false, suspending an operation ends its attempt, and resuming the operation starts another.
    var pausesInPlace: Bool { get }

    /// Whether tasks may be made, resumed and cancelled inside a client's callbacks, on the transport's own thread;
    /// false by default.
    ///
    /// If true, the end of one request starts the next without a change of threads, so `makeTask`, `resume()` and
    /// `cancel()` must not block. `cancel()` may be called while `suspend()` or `resume()` runs.
    var isReentrant: Bool { get }

    /// Makes a suspended task for an attempt.
    ///
    /// After `resume()`, the client receives the response, the body and, exactly once and last, the end. After
    /// `cancel()` the end still follows, but the operation does not wait for it. A task that was never resumed need
    /// not report an end.
    ///
    /// - Throws: `.invalidRequest` when this transport cannot send the request.
    func makeTask(
        for request: PreparedRequest, client: any TransportClient
    ) throws(RequestError) -> URLSessionTask
}

/// Receives the events of one attempt.
///
/// There is one call at a time, on the transport's thread.
public protocol TransportClient: AnyObject, Sendable {
    /// Receives the head of a response; another one, for example after an interim response, starts the body over.
    func didReceive(_ head: ResponseHead)
    /// Whether the body probably has many bytes, so that a transport should read many at once; read before the request
    /// is sent.
    var expectsLargeBody: Bool { get }
    /// The preferred maximum number of body bytes for one call, which may change at any time.
    ///
    /// Smaller chunks make the speed of a rate-limited transfer more even. After larger ones the client waits longer.
    var maxChunkBytes: Int { get }
    /// The maximum length of a body that the client reads to its end; nil for any length.
    ///
    /// A transport reads this property when it knows that the body is longer than 64 KiB. If the body exceeds the
    /// limit, the transport closes its HTTP/1.1 connection.
    var maxBodyBytes: Int64? { get }
    /// Receives the next bytes of the body, content-decoded.
    ///
    /// After false the client may still receive bytes that the transport had already read.
    ///
    /// - Returns: whether to continue. After false a transport with ``Transport/pausesInPlace`` pauses its task as if
    ///   `suspend()` had been called, then calls ``didPause()``.
    func didReceive(_ data: Data) -> Bool
    /// Called when the task has paused because `didReceive` returned false; from now on the client may call `resume()`.
    func didPause()
    /// Receives the number of bytes of the request's body that were sent so far.
    func didSend(totalBytes: Int64)
    /// Receives measurements before the end, from transports that measure.
    func didCollect(_ metrics: TransferMetrics)
    /// Receives the end of the attempt, last: an error, or nil when the response is complete.
    func didFinish(_ error: RequestError?)
}

extension Transport {
    /// By default the client's callbacks must not call the transport.
    public var isReentrant: Bool { false }
}

extension TransportClient {
    /// By default a body is expected to be small.
    public var expectsLargeBody: Bool { false }
    /// By default chunks may have any size.
    public var maxChunkBytes: Int { .max }
    /// By default every body is read to its end.
    public var maxBodyBytes: Int64? { nil }
    /// By default measurements are ignored.
    public func didCollect(_: TransferMetrics) {}
}

// `URLSessionTask` conforms. Convoy's own transports make one only in ``makeSessionTask()``, because on Linux it costs
// a dispatch queue and a dozen allocations.
package protocol TransferTask: AnyObject, Sendable {
    func resume()
    func suspend()
    func cancel()
    /// The task for the operation's owner, possibly a new one for each call.
    func makeSessionTask() -> URLSessionTask
}

extension URLSessionTask: TransferTask {
    package func makeSessionTask() -> URLSessionTask { self }
}

package final class TransferSessionTask: URLSessionDataTask, @unchecked Sendable {
    // @unchecked: `URLSessionTask` requires it. The properties never change.
    private let transfer: any TransferTask
    private let request: PreparedRequest
    private let currentState: @Sendable () -> URLSessionTask.State

    package init(
        _ transfer: any TransferTask, for request: PreparedRequest,
        state: @escaping @Sendable () -> URLSessionTask.State
    ) {
        (self.transfer, self.request, currentState) = (transfer, request, state)
        super.init()
    }

    override package var originalRequest: URLRequest? {
        var request = URLRequest(url: request.url)
        request.httpMethod = self.request.method.rawValue
        return request
    }

    override package var currentRequest: URLRequest? { originalRequest }
    override package var state: URLSessionTask.State { currentState() }

    override package func resume() { transfer.resume() }
    override package func suspend() { transfer.suspend() }
    override package func cancel() { transfer.cancel() }
}

package protocol DirectTransport: Transport {
    func makeTransfer(
        for request: PreparedRequest, client: any TransportClient
    ) throws(RequestError) -> any TransferTask
}

/// The transport of a manager.
public enum TransportChoice: Sendable {
    /// The platform's best transport: libcurl on Linux, URLSession elsewhere, with the default ``ConnectionOptions``.
    ///
    /// If the system's libcurl is too old, every request fails with `.transportFailed`, and the message says so.
    case automatic
    /// URLSession with the default ``ConnectionOptions``.
    case urlSession
    /// Your own transport, a stub, or a transport made with options.
    case custom(any Transport)

    /// The best transport of the platform with your options.
    ///
    /// - Throws: `.transportFailed` when the transport does not support an option, or cannot use a file of the options.
    ///   The message names the option.
    public static func connecting(with options: ConnectionOptions) throws(RequestError) -> TransportChoice {
        #if canImport(CLibcurl)
            .custom(try CurlTransport(options))
        #else
            try urlSession(with: options)
        #endif
    }

    /// URLSession with your options.
    ///
    /// ``ConnectionOptions`` lists what it supports on Apple platforms; that code is type-checked but was never run.
    ///
    /// - Throws: `.transportFailed` for every other option that differs from the default, on Linux for all of them.
    ///   Also for a file that cannot be read or used. The message names the option.
    public static func urlSession(with options: ConnectionOptions) throws(RequestError) -> TransportChoice {
        var names = options.namesOfChanges
        #if canImport(Security)
            names.removeAll(where: SessionSecurity.honoured.contains)
        #endif
        guard names.isEmpty else {
            throw RequestError(
                .transportFailed,
                "the URLSession transport cannot honour \(names.joined(separator: ", ")); use another transport")
        }
        #if canImport(Security)
            if options != ConnectionOptions() { return .custom(try URLSessionTransport.shared(for: options)) }
        #endif
        return .urlSession
    }

    /// The same transport with a session that waits for a network; nil if the transport cannot.
    var waitingForConnectivity: (any Transport)? {
        #if canImport(Security)
            (transport as? URLSessionTransport)?.waitingForConnectivity()
        #else
            nil
        #endif
    }

    var transport: any Transport {
        switch self {
        case .automatic:
            #if canImport(CLibcurl)
                CurlTransport.shared
            #else
                URLSessionTransport.shared
            #endif
        case .urlSession: URLSessionTransport.shared
        case .custom(let transport): transport
        }
    }
}
