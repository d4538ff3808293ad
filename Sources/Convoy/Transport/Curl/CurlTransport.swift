// The transport that no server can crash: libcurl, the system's.
#if canImport(CLibcurl)
    import Foundation
    import FoundationNetworking

    /// Moves bytes with the system's libcurl, the library that FoundationNetworking has loaded anyway.
    ///
    /// Linux only. <doc:WhatIsAccepted> tells what it takes of answers that are not as the standards have them.
    ///
    /// URLSession on Linux can be brought down by a server; this cannot. It also has what URLSession lacks there:
    /// timeouts in milliseconds, pausing in place, exact timings, private certificate authorities, pinned keys, client
    /// certificates, proxies: see ``ConnectionOptions``.
    ///
    /// ```swift
    /// let transport = try CurlTransport(options)
    /// let manager = RequestManager(
    ///     configuration: .init(transport: .custom(transport)))
    /// ```
    ///
    /// Bodies coded with gzip, deflate, br or zstd are decoded, as far as the system has the libraries; a coding that is cut
    /// short or damaged is a `.badResponse`, and so is one that is not known, unless the request itself names it in
    /// `Accept-Encoding`. A request for `identity`, as downloads are, gets the bytes of a known coding as they are sent.
    /// Interim responses other than `101` are passed over.
    ///
    /// ## Concurrency
    /// Use it from any thread. One thread for each engine moves bytes; none of the caller's code runs there. After `fork()`
    /// without `exec()` there is no such thread in the child: requests are refused there with `.transportFailed` once the
    /// parent has sent any, as with every library that owns threads.
    public final class CurlTransport: Transport, DirectTransport {
        /// The transport with the default options, which managers share that ask for nothing else.
        public static let shared = CurlTransport(unchecked: ConnectionOptions())

        private let engines: CurlEngines

        /// Makes a transport with options of yours.
        ///
        /// Transports with equal options share their connections.
        ///
        /// - Throws: `.transportFailed` when the system's libcurl is too old, a file of the options cannot be read, or an
        ///   option makes no sense; the message names it.
        public convenience init(_ options: ConnectionOptions = ConnectionOptions()) throws(RequestError) {
            if let defect = CurlLibrary.defect { throw defect }
            if let defect = options.defect { throw RequestError(.transportFailed, defect) }
            // A libcurl that cannot do what an option asks says so now.
            _ = try CurlHandle(options, trustFile: options.trustFile)
            self.init(unchecked: options)
        }

        private init(unchecked options: ConnectionOptions) {
            engines = CurlEngines.shared(for: options)
        }

        /// A transfer that is suspended goes on where it was.
        public var pausesInPlace: Bool { true }
        /// A task that is made or resumed only leaves a note for the transfer thread.
        public var isReentrant: Bool { true }

        /// Makes a task.
        ///
        /// - Throws: `.transportFailed` when the system's libcurl is too old, or in a forked process; `.invalidRequest` for a
        ///   `Proxy-Authorization` field, which an origin could get to see, and for the name of a host that is longer than
        ///   names can be.
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
                    "nothing was sent: a Proxy-Authorization field could be seen by the server; give user name and "
                        + "password with the proxy's address, for example in the environment"
                )
            }
            // The key names scheme and port too: mostly it tells without the host having to be cut out.
            guard
                request.hostKey.utf8.count <= CurlLibrary.maxHostBytes
                    || request.url.host()?.utf8.count ?? 0 <= CurlLibrary.maxHostBytes
            else {
                throw RequestError(
                    .invalidRequest,
                    "nothing was sent: the name of the host has more than \(CurlLibrary.maxHostBytes) bytes")
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
            // Held until the lock has been given back: the last one to hold engines closes them.
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

        /// As many transfers of plain HTTP as one thread takes before another shares the work.
        private static let share = 4

        /// The caller of a request.
        ///
        /// Over TLS a connection may carry many requests at once, so one engine serves a host. Without, a connection
        /// carries one: the first engine that has little to do takes it, and finds the connection of the last one.
        func engine(for request: PreparedRequest) -> CurlEngine {
            guard engines.count > 1 else { return engines[0] }
            if request.isHTTPS { return engines[Int(request.hostKey.hashValue.magnitude % UInt(engines.count))] }
            var (best, least) = (engines[0], Int.max)
            for engine in engines {
                let count = engine.taskCount
                if count < Self.share { return engine }
                if count < least { (best, least) = (engine, count) }
            }
            return best
        }
    }

    extension ConnectionOptions {
        /// The path of the certificates that are trusted; nil for the system's.
        var trustFile: String? { if case .certificates(let file) = trust { file.path } else { nil } }

        /// Why no transport can be made with these, or nil.
        var defect: String? {
            if connectTimeout <= .zero { return "connectTimeout is not positive" }
            if idleConnectionTime <= .zero { return "idleConnectionTime is not positive" }
            if maxHeaderBytes <= 0 || maxHeaderFieldCount <= 0 {
                return "the limits of the header are not positive"
            }
            // More is refused by newer libcurls, whatever is asked.
            if maxHeaderBytes > 300 << 10 || maxHeaderFieldCount > 5_000 {
                return "the limits of the header are more than libcurl's own, 300 KiB and 5,000 fields"
            }
            if !(1...64).contains(engineCount) { return "engineCount is \(engineCount), not 1 to 64" }
            if case .certificates(let file) = trust, let defect = file.readingDefect { return "trust: \(defect)" }
            if let certificate = clientCertificate {
                // It would be read as PEM.
                if certificate.format == .archive, CurlLibrary.usesGnuTLS {
                    return "clientCertificate: libcurl with GnuTLS reads no PKCS #12 archives; give two PEM files"
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
                    return "proxy: user name or password contain control characters"
                }
                let schemes = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"]
                guard schemes.contains(url.scheme?.lowercased() ?? ""), url.host != nil else {
                    return "proxy: \(url.redactedString) is not http, https or SOCKS and a host"
                }
                // libcurl's own default for a proxy is 1080, which is unexpected.
                guard let port = url.port, (1...65_535).contains(port) else {
                    return "proxy: \(url.redactedString) has no valid port"
                }
                guard url.user == nil, url.password == nil else {
                    return "proxy: give user name and password beside the URL, not in it"
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
