// The platform's own loader: one session, one delegate, data tasks only.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Moves bytes with `URLSession`.
///
/// One session for the life of the process, and one for each other ``ConnectionOptions``, with cache, cookie and credential storage off. Redirects and 401 come back as
/// answers: what to do about them is decided above the transport, the same on every platform.
///
/// On Linux, URLSession has faults that no client of it can mend. A server that closes the connection in the middle of the
/// header, sends trailers, or declares a length of 2^63-1 ends the process; a body that comes faster than it is read keeps
/// the loader from anything else; idle timeouts count in whole seconds; a transfer cannot be paused; a POST over a kept
/// connection that ends under it is sent twice; the body of a redirect without a usable `Location` is lost.
/// The conformance suite lists them as known.
public final class URLSessionTransport: Transport {
    /// The transport all managers share.
    public static let shared = URLSessionTransport()

    private let session: URLSession
    private let delegate: SessionDelegate

    #if canImport(Security)
        /// A transport with a session of its own.
        convenience init(_ security: SessionSecurity = .standard) {
            self.init(SessionDelegate(security)) { security.apply(to: $0) }
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
        // Never the limit: a task that waits inside the loader uses up its idle timeout. Managers limit each host.
        configuration.httpMaximumConnectionsPerHost = 1_024
        setUp(configuration)
        session = URLSession(configuration: configuration, delegate: delegate, delegateQueue: Self.callbackQueue())
    }

    // A session keeps its delegate until it is told.
    deinit { session.finishTasksAndInvalidate() }

    /// Whether a suspended task goes on where it was: not on Linux, where it starts over and its timeout runs on.
    public var pausesInPlace: Bool {
        #if canImport(FoundationNetworking)
            false
        #else
            true
        #endif
    }

    /// Makes a data task.
    ///
    /// - Throws: `.invalidRequest` for a GET with a body, which URLSession refuses, for an attempt timeout, and on Linux
    ///   for a body from a sequence.
    public func makeTask(
        for request: PreparedRequest, client: any TransportClient
    ) throws(RequestError) -> URLSessionTask {
        if request.method.rawValue.equalsIgnoringCase("GET"), let body = request.body, body.byteCount != 0 {
            throw RequestError(.invalidRequest, "nothing was sent: URLSession does not send a GET request with a body")
        }
        if request.attemptTimeout != nil {
            throw RequestError(
                .invalidRequest,
                "nothing was sent: the URLSession transport has no attemptTimeout(_:); use another one")
        }
        #if canImport(FoundationNetworking)
            if case .stream(let stream)? = request.body, stream.comesInItsOwnTime {
                throw RequestError(
                    .invalidRequest,
                    "nothing was sent: URLSession on Linux cannot wait for the chunks of a body; use another transport")
            }
        #endif
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
                // The delegate is asked for the stream when it is needed.
                let task = session.uploadTask(withStreamedRequest: URLRequest(request, body))
                body?.onFailure { [weak task] in task?.cancel() }
                return task
            }
        #endif
        return session.dataTask(with: URLRequest(request, body))
    }

    private static func callbackQueue() -> OperationQueue {
        #if canImport(FoundationNetworking)
            return InlineCallbackQueue()
        #else
            let queue = OperationQueue()
            queue.maxConcurrentOperationCount = 1
            return queue
        #endif
    }
}

#if canImport(FoundationNetworking)
    /// Runs the delegate's callbacks at once, on the loader's own queue: an operation each, as corelibs makes of them, costs
    /// more than the request.
    ///
    /// What runs there keeps bytes and hands over; it never calls a task.
    private final class InlineCallbackQueue: OperationQueue, @unchecked Sendable {
        // @unchecked: `OperationQueue` forces it; there is no state.

        override init() {
            super.init()
            maxConcurrentOperationCount = 1
        }

        override func addOperation(_ block: @escaping @Sendable () -> Void) { block() }
    }
#endif

extension URL {
    /// The same URL; for corelibs, which takes `HTTP` for a scheme that it does not know (RFC 3986, section 3.1).
    fileprivate var withLowercaseScheme: URL {
        guard let scheme, scheme != scheme.lowercased() else { return self }
        return URL(string: scheme.lowercased() + absoluteString.dropFirst(scheme.count)) ?? self
    }
}

extension URLRequest {
    /// The loader's form of a prepared request.
    fileprivate init(_ request: PreparedRequest, _ loaderBody: LoaderBody?) {
        self.init(url: request.url.withLowercaseScheme, cachePolicy: .reloadIgnoringLocalCacheData)
        httpMethod = request.method.rawValue
        httpShouldHandleCookies = false
        for field in request.headerFields where !field.isFraming {
            addValue(field.value, forHTTPHeaderField: field.name)
        }
        #if canImport(FoundationNetworking)
            // corelibs counts whole seconds and takes a fraction of one for none; `.infinity` traps.
            timeoutInterval = max(1, request.idleTimeout.seconds.rounded(.up))
            if let body = request.body, !(body.byteCount == 0 && request.method == .get) {
                // A stream, because corelibs forgets to rewind Data when it sends again on a fresh connection; with the
                // length declared, and the blank that makes libcurl leave out "Transfer-Encoding: chunked".
                httpBodyStream = loaderBody?.makeStream()
                if let byteCount = body.byteCount {
                    setValue(String(byteCount), forHTTPHeaderField: "Content-Length")
                    setValue(" ", forHTTPHeaderField: "Transfer-Encoding")
                }
                // The same blank keeps corelibs from calling any body a form.
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
