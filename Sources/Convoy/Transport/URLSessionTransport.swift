// URLSession as a transport, with one session and one delegate for each value of the options.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Transfers bytes with `URLSession`.
///
/// The session for the default options lives as long as the process. On Apple platforms each other value of
/// ``ConnectionOptions`` has its own session while a manager uses it. Cache, cookie and credential storage are off.
/// Redirects and 401 are returned as responses. Convoy handles them above the transport, in the same way on every
/// platform.
///
/// On Linux, URLSession has bugs that no client can work around. The process ends if a server closes the connection
/// inside the header, sends trailers, or declares a length of 2^63-1. A body that arrives faster than it is read
/// blocks the loader. Idle timeouts count whole seconds, and a transfer cannot be paused. A POST is sent twice if its
/// reused connection is closed. The body of a redirect without a usable `Location` is lost. A gzip body that is cut off
/// counts as complete.
public final class URLSessionTransport: Transport {
    /// The transport that all managers with default options share.
    public static let shared = URLSessionTransport()

    private let session: URLSession
    private let delegate: SessionDelegate

    #if canImport(Security)
        convenience init(_ security: SessionSecurity = .standard) {
            self.init(SessionDelegate(security)) { security.apply(to: $0) }
        }

        func waitingForConnectivity() -> URLSessionTransport {
            var security = delegate.security
            security.waitsForConnectivity = true
            return URLSessionTransport(security)
        }
    #else
        private convenience init() { self.init(SessionDelegate()) { _ in } }
    #endif

    private init(_ delegate: SessionDelegate, setUp: (URLSessionConfiguration) -> Void) {
        self.delegate = delegate
        let configuration = URLSessionConfiguration.ephemeral
        configuration.urlCache = nil
        configuration.httpCookieStorage = nil
        configuration.httpShouldSetCookies = false
        configuration.urlCredentialStorage = nil
        // The managers limit the requests for each host: a task that waits inside URLSession uses up its idle timeout.
        configuration.httpMaximumConnectionsPerHost = 1_024
        setUp(configuration)
        #if canImport(FoundationNetworking)
            let queue = InlineCallbackQueue()
        #else
            let queue = OperationQueue()
        #endif
        queue.maxConcurrentOperationCount = 1
        session = URLSession(configuration: configuration, delegate: delegate, delegateQueue: queue)
    }

    // A session retains its delegate until the session is invalidated.
    deinit { session.finishTasksAndInvalidate() }

    /// Whether a suspended task continues where it was.
    ///
    /// False on Linux, where a resumed task starts over, and its timeout runs while it is suspended.
    public var pausesInPlace: Bool {
        #if canImport(FoundationNetworking)
            false
        #else
            true
        #endif
    }

    /// Makes a task: a data task, or on Apple platforms an upload task for a body that is not in memory.
    ///
    /// - Throws: `.invalidRequest` for a GET with a body, which URLSession rejects, for an attempt timeout, and on
    ///   Linux for a body from a sequence.
    public func makeTask(
        for request: PreparedRequest, client: any TransportClient
    ) throws(RequestError) -> URLSessionTask {
        var reason: String?
        #if canImport(FoundationNetworking)
            if case .stream(let stream)? = request.body, stream.comesInItsOwnTime {
                reason = "URLSession on Linux cannot wait for the chunks of a body; use another transport"
            }
        #endif
        if request.attemptTimeout != nil {
            reason = "the URLSession transport has no attemptTimeout(_:); use another one"
        }
        if request.method.rawValue.equalsIgnoringCase("GET"), let body = request.body, body.byteCount != 0 {
            reason = "URLSession does not send a GET request with a body"
        }
        if let reason { throw RequestError(.invalidRequest, "nothing was sent: \(reason)") }
        let body = request.body.map { LoaderBody($0) }
        let task = makeTask(for: request, body)
        delegate.register(client, for: task, request, body: body)
        return task
    }

    private func makeTask(for request: PreparedRequest, _ body: LoaderBody?) -> URLSessionDataTask {
        #if canImport(Darwin)
            switch request.body {
            case .data?, nil: break
            // The system streams a file and knows its length.
            case .file(let file, _): return session.uploadTask(with: URLRequest(request, body), fromFile: file)
            case .joined?, .stream?:
                // The delegate provides the stream when URLSession requests it.
                let task = session.uploadTask(withStreamedRequest: URLRequest(request, body))
                body?.onFailure { [weak task] in task?.cancel() }
                return task
            }
        #endif
        return session.dataTask(with: URLRequest(request, body))
    }
}

#if canImport(FoundationNetworking)
    // Foundation on Linux would make an operation of each callback, which costs more than the request. The callbacks
    // never call a task.
    private final class InlineCallbackQueue: OperationQueue, @unchecked Sendable {
        // @unchecked: `OperationQueue` requires it. There is no state.
        override func addOperation(_ block: @escaping @Sendable () -> Void) { block() }
    }
#endif

extension URL {
    /// swift-corelibs-foundation does not recognise `HTTP` (RFC 3986, section 3.1).
    fileprivate var withLowercaseScheme: URL {
        guard let scheme, scheme != scheme.lowercased() else { return self }
        return URL(string: scheme.lowercased() + absoluteString.dropFirst(scheme.count)) ?? self
    }
}

extension URLRequest {
    fileprivate init(_ request: PreparedRequest, _ loaderBody: LoaderBody?) {
        self.init(url: request.url.withLowercaseScheme, cachePolicy: .reloadIgnoringLocalCacheData)
        httpMethod = request.method.rawValue
        httpShouldHandleCookies = false
        for field in request.headerFields where !field.isFraming {
            addValue(field.value, forHTTPHeaderField: field.name)
        }
        #if canImport(FoundationNetworking)
            // URLSession on Linux truncates the interval to whole seconds, so the interval is rounded up.
            timeoutInterval = max(1, request.idleTimeout.seconds.rounded(.up))
            if let body = request.body, !(body.byteCount == 0 && request.method == .get) {
                // URLSession on Linux does not rewind `Data` when it sends the request again on a new connection. The
                // blank makes libcurl omit "Transfer-Encoding: chunked".
                httpBodyStream = loaderBody?.makeStream()
                if let byteCount = body.byteCount {
                    setValue(String(byteCount), forHTTPHeaderField: "Content-Length")
                    setValue(" ", forHTTPHeaderField: "Transfer-Encoding")
                }
                // A blank content type keeps URLSession on Linux from labelling every body as a form.
                if !request.headerFields.contains("Content-Type") { setValue(" ", forHTTPHeaderField: "Content-Type") }
            }
        #else
            timeoutInterval = request.idleTimeout.seconds
            switch request.body {
            case .data(let data): httpBody = data
            case .joined?, .stream?:
                if let byteCount = request.body?.byteCount {
                    setValue(String(byteCount), forHTTPHeaderField: "Content-Length")
                }
            case .file?, nil: break
            }
        #endif
    }
}
