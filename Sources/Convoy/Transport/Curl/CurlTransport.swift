// The transport over the system's libcurl.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation
    import FoundationNetworking
    import Synchronization

    /// Moves bytes with the system's libcurl, which FoundationNetworking loads anyway.
    ///
    /// Linux only. <doc:WhatIsAccepted> lists deviations from the standards that it accepts in responses.
    ///
    /// A server can crash URLSession on Linux, but not this transport. It also has timeouts in milliseconds, pausing in
    /// place, exact timings, and all ``ConnectionOptions``.
    ///
    /// ```swift
    /// let transport = try CurlTransport(options)
    /// let manager = RequestManager(
    ///     configuration: .init(transport: .custom(transport)))
    /// ```
    ///
    /// The transport decodes bodies coded with gzip, deflate, br or zstd, if the system has the libraries. Truncated,
    /// damaged or trailing data fails with `.badResponse`, and so does an unknown coding (``Response/undecodedCoding``
    /// says which stay). Interim responses are passed to the client, except `101`, which fails with `.badResponse`.
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
            _ = try CurlHandle(options)
            self.init(unchecked: options)
        }

        private init(unchecked options: ConnectionOptions) { engines = CurlEngines.shared(for: options) }

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

        package func makeTransfer(
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
            // RFC 1035. Before 8.4.0, libcurl writes a longer name past its buffer when it connects to a SOCKS proxy
            // (CVE-2023-38545). `hostKey` includes scheme and port; if it is short enough, so is the host.
            let limit = 255
            if request.hostKey.utf8.count > limit, let host = request.url.host(), host.utf8.count > limit {
                throw RequestError(
                    .invalidRequest, "nothing was sent: the host name has more than \(limit) bytes")
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

    final class CurlEngines: Sendable {
        private static let registry = Locked<[ConnectionOptions: @Sendable () -> CurlEngines?]>([:])

        private let engines: [CurlEngine]

        static func shared(for options: ConnectionOptions) -> CurlEngines {
            // The engines stay retained until the lock is released, because releasing the last reference closes them.
            let (engines, others) = registry.withLock { registry in
                let others = registry.compactMapValues { $0() }
                registry = registry.filter { others[$0.key] != nil }
                let engines = others[options] ?? CurlEngines(options)
                registry[options] = { [weak engines] in engines }
                return (engines, others)
            }
            return withExtendedLifetime(others) { engines }
        }

        private init(_ options: ConnectionOptions) {
            engines = (0..<max(1, options.engineCount)).map { _ in CurlEngine(options) }
        }

        deinit { for engine in engines { engine.close() } }

        // Over TLS a connection may carry many requests at once, so one engine serves a host. Otherwise the first engine
        // with fewer than 32 tasks does, so that its last connection is reused.
        func engine(for request: PreparedRequest) -> CurlEngine {
            guard engines.count > 1 else { return engines[0] }
            if request.isHTTPS { return engines[Int(request.hostKey.hashValue.magnitude % UInt(engines.count))] }
            let counted = engines.lazy.map { ($0, $0.tasks.load(ordering: .relaxed)) }
            return (counted.first { $0.1 < 32 } ?? counted.min { $0.1 < $1.1 })?.0 ?? engines[0]
        }
    }

    extension ConnectionOptions {
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
        fileprivate var readingDefect: String? {
            guard isFileURL else { return "\(redactedString) is not a file URL" }
            return access(path, R_OK) == 0
                ? nil : "the file \(path) cannot be read: \(String(cString: strerror(errno)))"
        }
    }

    // The thread starts with the first request, and ends after ``ConnectionOptions/idleConnectionTime`` without work,
    // or without work when all transports with its options have been released. It never runs user code or waits for a
    // disk.
    final class CurlEngine: Sendable {
        private struct Inbox {
            var transfers: [CurlTransfer] = []
            var isAwake = false
            /// Wakes the thread; nil without a thread, or before the thread can be woken.
            var wakeup: Wakeup?
            var isClosing = false
        }

        private let inbox = Locked(Inbox())
        /// The result of `convoy_fork_count()` when the thread was started; -1 without a thread.
        private let forkCount = Atomic<Int32>(-1)
        let tasks = Atomic(0)
        let options: ConnectionOptions

        init(_ options: ConnectionOptions) { self.options = options }

        // MARK: From any thread

        func look(at transfer: CurlTransfer, adding new: DesiredTransferState) {
            guard !transfer.changeDesired(adding: new.union(.queued)).contains(.queued) else { return }
            let (startsThread, wakeup): (Bool, Wakeup?) = inbox.withLock { inbox in
                inbox.transfers.append(transfer)
                guard !inbox.isAwake else { return (false, nil) }
                inbox.isAwake = true
                if inbox.wakeup == nil { forkCount.store(convoy_fork_count(), ordering: .relaxed) }
                return (inbox.wakeup == nil, inbox.wakeup)
            }
            // Outside the lock, because the woken thread locks the inbox at once.
            wakeup?.signal()
            if startsThread { startThread() }
        }

        /// Whether this process was forked from the one that owns the thread.
        var isOfAnotherProcess: Bool {
            let count = forkCount.load(ordering: .relaxed)
            return count != -1 && count != convoy_fork_count()
        }

        func close() {
            let wakeup = inbox.withLock { inbox in
                inbox.isClosing = true
                return inbox.wakeup
            }
            wakeup?.signal()
        }

        private func startThread() {
            // Foundation's `Thread` is not used, because it does not report a failure to start.
            var attributes = pthread_attr_t()
            pthread_attr_init(&attributes)
            defer { pthread_attr_destroy(&attributes) }
            pthread_attr_setstacksize(&attributes, 512 << 10)
            pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
            let engine = Unmanaged.passRetained(self)
            var thread = pthread_t()
            let problem = pthread_create(
                &thread, &attributes,
                { context in
                    if let context { Unmanaged<CurlEngine>.fromOpaque(context).takeRetainedValue().runThread() }
                    return nil
                }, engine.toOpaque())
            guard problem != 0 else { return }
            engine.release()
            refuseAll(problem)
        }

        // MARK: On the engine's thread

        private func runThread() {
            convoy_prepare_thread("convoy.curl")
            let loop: CurlLoop
            do throws(POSIXError) {
                loop = try CurlLoop(options)
            } catch {
                return refuseAll(error.code.rawValue)
            }
            var hasSleptIdle = false
            WakeUps.postponing {
                while let transfers = take(for: loop, hasSleptIdle) {
                    loop.turn(transfers)
                    let sleeps = inbox.withLock { inbox in
                        inbox.isAwake =
                            !inbox.transfers.isEmpty || loop.looksAgain || (inbox.isClosing && loop.isIdle)
                        return !inbox.isAwake
                    }
                    hasSleptIdle = loop.wait(sleeps: sleeps)
                }
            }
            convoy_end_thread()
            withExtendedLifetime(loop) {}
        }

        private func take(for loop: CurlLoop, _ hasSleptIdle: Bool) -> [CurlTransfer]? {
            inbox.withLock { inbox in
                let ends = inbox.transfers.isEmpty && loop.isIdle && (hasSleptIdle || inbox.isClosing)
                // If this thread ends, the next request starts another thread with its own loop.
                inbox.wakeup = ends ? nil : loop.sockets.wakeup
                inbox.isAwake = !ends
                if ends { forkCount.store(-1, ordering: .relaxed) }
                defer { inbox.transfers = [] }
                return ends ? nil : inbox.transfers
            }
        }

        private func refuseAll(_ problem: Int32) {
            let transfers = inbox.withLock { inbox in
                forkCount.store(-1, ordering: .relaxed)
                defer { (inbox.transfers, inbox.isAwake) = ([], false) }
                return inbox.transfers
            }
            for transfer in transfers { transfer.refuse(problem) }
        }
    }
#endif
