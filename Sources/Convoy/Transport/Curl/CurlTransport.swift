// The transport over the system's libcurl.
#if canImport(CLibcurl)
    import Foundation
    import FoundationNetworking

    /// Moves bytes with the system's libcurl, which FoundationNetworking loads anyway.
    ///
    /// Linux only. <doc:WhatIsAccepted> lists the responses that the transport accepts although they deviate from
    /// the standards.
    ///
    /// A server can crash URLSession on Linux, but not this transport. The transport also has what URLSession lacks on
    /// Linux: timeouts in milliseconds, pausing in place, exact timings, private certificate authorities, pinned keys,
    /// client certificates and proxies. See ``ConnectionOptions``.
    ///
    /// ```swift
    /// let transport = try CurlTransport(options)
    /// let manager = RequestManager(
    ///     configuration: .init(transport: .custom(transport)))
    /// ```
    ///
    /// The transport decodes bodies coded with gzip, deflate, br or zstd, if the system has the libraries. Truncated or
    /// damaged data fails with `.badResponse`. So does an unknown coding, unless the request uses
    /// `keepingUnknownCodings()`, or its `Accept-Encoding` has the coding or `*`. A request for `identity`, as
    /// downloads send, receives the bytes of any coding unchanged. Interim responses are passed to the client, except
    /// `101`, which fails with `.badResponse`.
    ///
    /// ## Concurrency
    /// Use the transport from any thread. Each engine has one thread that moves bytes and never runs the caller's code.
    /// After `fork()` without `exec()`, the child has no such thread. If the thread ran in the parent, requests of the
    /// child fail with `.transportFailed`.
    public final class CurlTransport: Transport, DirectTransport {
        /// The transport with the default options, which all managers without other options share.
        public static let shared = CurlTransport(unchecked: ConnectionOptions())

        private let engines: CurlEngines

        /// Makes a transport with your options.
        ///
        /// Transports with equal options share their connections.
        ///
        /// - Throws: `.transportFailed` if the system's libcurl is too old or does not support an option, if a file of
        ///   the options cannot be read, or if an option is invalid. The message names the cause.
        public convenience init(_ options: ConnectionOptions = ConnectionOptions()) throws(RequestError) {
            if let defect = CurlLibrary.defect { throw defect }
            if let defect = options.defect { throw RequestError(.transportFailed, defect) }
            // Making this handle fails if this libcurl does not support an option.
            _ = try CurlHandle(options, trustFile: options.trustFile)
            self.init(unchecked: options)
        }

        private init(unchecked options: ConnectionOptions) {
            engines = CurlEngines.shared(for: options)
        }

        /// True, because a suspended transfer resumes where it stopped.
        public var pausesInPlace: Bool { true }
        /// True, because making, resuming or cancelling a task never waits for the transfer thread.
        public var isReentrant: Bool { true }

        /// Makes a task.
        ///
        /// - Throws: `.transportFailed` if the system's libcurl is too old, or in a forked process. `.invalidRequest`
        ///   for a `Proxy-Authorization` field, which an origin could receive, and for a host name that is too long.
        public func makeTask(
            for request: PreparedRequest, client: any TransportClient
        ) throws(RequestError) -> URLSessionTask {
            try makeTransfer(for: request, client: client).makeSessionTask()
        }

        func makeTransfer(
            for request: PreparedRequest, client: any TransportClient
        ) throws(RequestError) -> any TransferTask {
            if let defect = CurlLibrary.defect { throw defect }
            if request.headerFields.contains("Proxy-Authorization") {
                throw RequestError(
                    .invalidRequest,
                    "nothing was sent: the server could read a Proxy-Authorization field; set user name and password "
                        + "with the proxy's address, for example in the environment"
                )
            }
            // `hostKey` includes scheme and port. If it is short enough, so is the host, which need not be extracted.
            guard
                request.hostKey.utf8.count <= CurlLibrary.maxHostBytes
                    || request.url.host()?.utf8.count ?? 0 <= CurlLibrary.maxHostBytes
            else {
                throw RequestError(
                    .invalidRequest,
                    "nothing was sent: the host name has more than \(CurlLibrary.maxHostBytes) bytes")
            }
            let engine = engines.engine(for: request)
            guard !engine.isOfAnotherProcess else {
                throw RequestError(
                    .transportFailed,
                    "nothing was sent: this process was forked from one that sends requests; call exec() after fork()")
            }
            return CurlTransfer(request, client: client, engine: engine)
        }
    }

    /// The engines of all transports with the same options.
    final class CurlEngines: Sendable {
        private struct WeakEngines {
            weak var engines: CurlEngines?
        }

        private static let registry = Locked<[ConnectionOptions: WeakEngines]>([:])

        private let engines: [CurlEngine]

        static func shared(for options: ConnectionOptions) -> CurlEngines {
            // The engines stay retained until the lock is released, because releasing the last reference closes them.
            let (engines, others) = registry.withLock { registry in
                let others = registry.mapValues(\.engines)
                registry = registry.filter { others[$0.key].flatMap { $0 } != nil }
                let engines = others[options].flatMap { $0 } ?? CurlEngines(options)
                registry[options] = WeakEngines(engines: engines)
                return (engines, others)
            }
            return withExtendedLifetime(others) { engines }
        }

        private init(_ options: ConnectionOptions) {
            engines = (0..<max(1, options.engineCount)).map { _ in CurlEngine(options) }
        }

        deinit { for engine in engines { engine.close() } }

        /// The number of transfers of an engine at which another engine receives the next plain HTTP request.
        private static let share = 32

        /// Selects the engine for a request.
        ///
        /// Over TLS a connection may carry many requests at once, so one engine serves a host. Without TLS a connection
        /// carries one request at a time. The first engine with fewer than `share` tasks then serves the request, so
        /// that its last connection is reused.
        func engine(for request: PreparedRequest) -> CurlEngine {
            guard engines.count > 1 else { return engines[0] }
            if request.isHTTPS { return engines[Int(request.hostKey.hashValue.magnitude % UInt(engines.count))] }
            var (best, least) = (engines[0], Int.max)
            for engine in engines {
                let count = engine.tasks.load(ordering: .relaxed)
                if count < Self.share { return engine }
                if count < least { (best, least) = (engine, count) }
            }
            return best
        }
    }

    extension ConnectionOptions {
        /// The path of the file with the trusted certificates; nil without such a file.
        var trustFile: String? { if case .certificates(let file) = trust { file.path } else { nil } }

        /// Why no transport can be made with these options, or nil.
        var defect: String? {
            if connectTimeout <= .zero { return "connectTimeout is not positive" }
            if idleConnectionTime <= .zero { return "idleConnectionTime is not positive" }
            if maxHeaderBytes <= 0 || maxHeaderFieldCount <= 0 {
                return "the limits of the header are not positive"
            }
            // Newer versions of libcurl reject larger headers, whatever these options say.
            if maxHeaderBytes > 300 << 10 || maxHeaderFieldCount > 5_000 {
                return "the limits of the header exceed libcurl's own, 300 KiB and 5,000 fields"
            }
            if !(1...64).contains(engineCount) { return "engineCount is \(engineCount), not 1 to 64" }
            if case .certificates(let file) = trust, let defect = file.readingDefect { return "trust: \(defect)" }
            if let certificate = clientCertificate {
                // libcurl with GnuTLS would read the archive as PEM.
                if certificate.format == .archive, CurlLibrary.usesGnuTLS {
                    return "clientCertificate: libcurl with GnuTLS cannot read PKCS #12 archives; use two PEM files"
                }
                for file in [certificate.certificateFile, certificate.privateKeyFile] {
                    if let defect = file.readingDefect { return "clientCertificate: \(defect)" }
                }
            }
            if let defect = hostOverrides.lazy.compactMap(\.defect).first { return "hostOverrides: \(defect)" }
            for pin in pinnedPublicKeys where Data(base64Encoded: pin)?.count != 32 {
                return "pinnedPublicKeys: \(pin.debugDescription) is not the base64 of a SHA-256"
            }
            if case .server(let url, let userName, let password) = proxy {
                if [userName, password].contains(where: { $0?.utf8.contains { $0 < 0x20 } == true }) {
                    return "proxy: the user name or password contains control characters"
                }
                let schemes = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"]
                guard schemes.contains(url.scheme?.lowercased() ?? ""), url.host != nil else {
                    return "proxy: \(url.redactedString) is not http, https or SOCKS and a host"
                }
                // The port is required, because libcurl's default port for a proxy, 1080, is unexpected.
                guard let port = url.port, (1...65_535).contains(port) else {
                    return "proxy: \(url.redactedString) has no valid port"
                }
                guard url.user == nil, url.password == nil else {
                    return "proxy: set user name and password as properties, not in the URL"
                }
            }
            return nil
        }
    }

    extension URL {
        /// Why a file cannot be read, or nil.
        fileprivate var readingDefect: String? {
            guard isFileURL else { return "\(redactedString) is not a file URL" }
            return access(path, R_OK) == 0
                ? nil : "the file \(path) cannot be read: \(String(cString: strerror(errno)))"
        }
    }
#endif
