// One libcurl easy handle, which transfers use one after the other.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// Owns an easy handle, its callbacks and the memory it points to.
    ///
    /// Options that are the same for all requests are set once. Options of a request are set again for the next.
    ///
    /// - Thread: the engine's.
    final class CurlHandle {
        let easy: OpaquePointer
        /// The transfer that receives the callbacks; nil between two transfers.
        @exclusivity(unchecked) var transfer: CurlTransfer?
        private var headerList: HeaderList?
        /// Retained, because libcurl stores a pointer to the list.
        private var hostOverrides: HeaderList?
        private let errorText = UnsafeMutablePointer<CChar>.allocate(capacity: CurlHandle.errorTextSize)
        /// The default `User-Agent` of requests.
        static let userAgent = "Convoy"
        /// libcurl's CURL_ERROR_SIZE.
        private static let errorTextSize = 256

        let options: ConnectionOptions
        let trustFile: String?
        /// Whether libcurl has a pre-request callback, which is called before a request is sent.
        private(set) var asksBeforeSending = true
        /// Whether libcurl has repeated a request with this handle.
        ///
        /// Up to 8.16, libcurl counts the repetitions of all requests of a handle and fails the sixth. So such a handle
        /// is not reused.
        var isWorn = false
        private var isVerbose = false
        private var bufferSize = 0
        var generation = 0
        /// How the connection of this transfer ends; nil if that does not matter.
        var connectionEnd: ConnectionEnd?

        /// Makes a handle.
        ///
        /// - Parameter trustFile: the path of ``ConnectionOptions/trust``, which is expensive to compute.
        /// - Throws: `.transportFailed` if this libcurl does not support an option, or is out of memory.
        init(_ options: ConnectionOptions, trustFile: String?) throws(RequestError) {
            self.options = options
            self.trustFile = trustFile
            guard let easy = curl_easy_init() else {
                errorText.deallocate()
                throw RequestError(.transportFailed, "nothing was sent: libcurl is out of memory")
            }
            self.easy = easy
            errorText.initialize(repeating: 0, count: Self.errorTextSize)
            setUpCallbacks()
            setUp()
            try setUp(options)
        }

        deinit {
            curl_easy_cleanup(easy)
            errorText.deallocate()
        }

        /// libcurl's text for the last failure, without credentials; empty if it has none.
        func message(of request: PreparedRequest) -> String {
            let text = String(validatingCString: errorText) ?? ""
            return text.isEmpty ? "" : QuotedCredentials(of: request.url, options).removed(from: text) ?? ""
        }

        /// Whether every connection of this transfer goes to a proxy.
        var goesThroughProxy: Bool {
            if case .server = options.proxy { return true }
            // libcurl reports this since 8.7. Earlier versions cannot distinguish an environment proxy from a server.
            return long(CurlInfo.usedProxy) != 0
        }

        private func setUpCallbacks() {
            let context = Unmanaged.passUnretained(self).toOpaque()
            for option in [
                CurlOption.writeData, CurlOption.headerData, CurlOption.readData, CurlOption.seekData,
                CurlOption.prereqData, CurlOption.openSocketData, CurlOption.debugData, CurlOption.privatePointer,
                CurlOption.progressData,
            ] { convoy_set_pointer(easy, option, context) }
            convoy_set_pointer(easy, CurlOption.errorBuffer, errorText)
            convoy_set_data_callback(easy, CurlOption.headerFunction) { bytes, size, count, context in
                CurlHandle.transfer(of: context)?.receiveHeaderLine(.init(start: bytes, count: size * count)) ?? 0
            }
            convoy_set_data_callback(easy, CurlOption.writeFunction) { bytes, size, count, context in
                CurlHandle.transfer(of: context)?.receiveBody(.init(start: bytes, count: size * count)) ?? 0
            }
            convoy_set_data_callback(easy, CurlOption.readFunction) { bytes, size, count, context in
                CurlHandle.transfer(of: context)?.giveBody(.init(start: bytes, count: size * count))
                    ?? CurlCallbackResult.abort
            }
            convoy_set_seek_callback(easy) { context, offset, origin in
                guard origin == 0, let transfer = CurlHandle.transfer(of: context) else { return 1 }
                return transfer.rewindBody(to: offset) ? 0 : 1
            }
            convoy_set_progress_callback(easy) { context, _, _, _, _ in
                CurlHandle.handle(of: context)?.noteEnd()
                return 0
            }
            let code = convoy_set_prereq_callback(easy) { context, remoteAddress, _, remotePort, localPort in
                let address = remoteAddress.flatMap { String(validatingCString: $0) } ?? ""
                let connection = KeptConnections.Key(
                    remoteAddress: address, remotePort: remotePort, localPort: localPort)
                return CurlHandle.transfer(of: context)?.mayBeSent(on: connection) == true ? 0 : 1
            }
            // Before 7.80 libcurl has no such callback. Nothing can then check a reused connection or stop a second
            // send of a POST.
            asksBeforeSending = code == 0
            convoy_set_open_callback(easy) { context, _, address in
                guard let address else { return -1 }
                return CurlHandle.transfer(of: context)?.openSocket(for: address.pointee) ?? -1
            }
            convoy_set_debug_callback(easy) { _, kind, text, count, context in
                // libcurl also calls this for header lines and body chunks, with kinds 1 to 4.
                if kind == 1, CurlLibrary.remembersFreedLine {
                    CurlHandle.transfer(of: context)?.unfoldFirstField(.init(start: text, count: count))
                }
                guard kind == 0 || kind > 4 else { return 0 }
                CurlHandle.transfer(of: context)?.hear(kind, .init(start: text, count: count))
                return 0
            }
        }

        private static func handle(of context: UnsafeMutableRawPointer?) -> CurlHandle? {
            context.map { Unmanaged<CurlHandle>.fromOpaque($0).takeUnretainedValue() }
        }

        private static func transfer(of context: UnsafeMutableRawPointer?) -> CurlTransfer? {
            handle(of: context)?.transfer
        }

        /// Sets the options that are the same for all handles.
        private func setUp() {
            // No signals, because any thread of the process could receive them.
            convoy_set_long(easy, CurlOption.noSignal, 1)
            // With this option, removing a transfer does not wait for a name lookup; libcurl 7.87 or later.
            convoy_set_long(easy, CurlOption.quickExit, 1)
            convoy_set_long(easy, CurlOption.tcpKeepAlive, 1)
            convoy_set_long(easy, CurlOption.uploadBufferSize, 256 << 10)
            convoy_set_long(easy, CurlOption.suppressConnectHeaders, 1)
            // The path is sent exactly as in the request, because it may be part of a signature.
            convoy_set_long(easy, CurlOption.pathAsIs, 1)
            // Convoy decodes the body, because libcurl accepts truncated data as complete.
            convoy_set_long(easy, CurlOption.contentDecoding, 0)
            if !CurlLibrary.keepsSessions { convoy_set_long(easy, CurlOption.keepSessions, 0) }
            // A `User-Agent` field of a request replaces this value.
            convoy_set_string(easy, CurlOption.userAgent, Self.userAgent)
        }

        /// Sets the connection options; throws an error that names an unsupported option.
        private func setUp(_ options: ConnectionOptions) throws(RequestError) {
            // 6 is CURL_SSLVERSION_TLSv1_2. 7 is _TLSv1_3, set as minimum and maximum, because older libcurls with
            // GnuTLS read a minimum of 1.3 alone as 1.2.
            let version = options.minimumTLSVersion == .tls12 ? 6 : 7 | 7 << 16
            try check("minimumTLSVersion", convoy_set_long(easy, CurlOption.sslVersion, version))
            let timeout = options.connectTimeout.wholeMilliseconds
            try check("connectTimeout", convoy_set_long(easy, CurlOption.connectTimeoutMilliseconds, timeout))
            let age = Int(clamping: Int64(options.idleConnectionTime.seconds.rounded(.up)))
            convoy_set_long(easy, CurlOption.maxAgeOfConnection, min(age, 1 << 30))
            try setUpTrust(options.trust, trustFile)
            if !options.pinnedPublicKeys.isEmpty {
                let pins = options.pinnedPublicKeys.sorted().map { "sha256//" + $0 }.joined(separator: ";")
                try check("pinnedPublicKeys", convoy_set_string(easy, CurlOption.pinnedPublicKey, pins))
            }
            if let certificate = options.clientCertificate {
                let name = "clientCertificate"
                try check(name, convoy_set_string(easy, CurlOption.sslCert, certificate.certificateFile.path))
                switch certificate.format {
                case .pem: try check(name, convoy_set_string(easy, CurlOption.sslKey, certificate.privateKeyFile.path))
                case .archive: try check(name, convoy_set_string(easy, CurlOption.sslCertType, "P12"))
                }
                // Without a password, OpenSSL would prompt at the terminal for the password of an encrypted key. An
                // empty password prevents the prompt. GnuTLS never prompts, but treats a key with an empty password as
                // encrypted.
                let password = certificate.password ?? (CurlLibrary.usesGnuTLS ? nil : "")
                try check(name, convoy_set_string(easy, CurlOption.keyPassword, password))
            }
            hostOverrides = options.hostOverrides.isEmpty ? nil : try options.hostOverrideList()
            if let list = hostOverrides {
                try check("hostOverrides", convoy_set_list(easy, CurlOption.resolve, list.first))
            }
            try setUpProxy(options, version)
        }

        func check(_ name: String, _ code: CURLcode) throws(RequestError) {
            guard code != 0 else { return }
            throw RequestError(
                .transportFailed, "this libcurl does not support \(name): \(CurlLibrary.message(of: code))")
        }

        /// Sets the options of this request and resets those of the previous request; false if libcurl rejects an
        /// option.
        func prepare(for transfer: CurlTransfer, _ headerLists: inout HeaderListCache) -> Bool {
            let request = transfer.request
            self.transfer = transfer
            errorText.pointee = 0
            convoy_set_long(easy, CurlOption.forbidReuse, asksBeforeSending ? 0 : 1)
            // 4 is CURL_HTTP_VERSION_2TLS, 2 is _1_1. Without TLS both mean HTTP/1.1. But with 2TLS, older versions
            // believe a plain response that claims HTTP/2, and send several requests at once on its connection.
            let version = transfer.isHTTPS && options.httpVersion == .automatic ? 4 : 2
            if connectionEnd != nil { stopWatchingEnd() }
            setBufferSize(forLargeBody: transfer.client?.expectsLargeBody == true)
            var isTaken = true
            func take(_ code: CURLcode) { isTaken = isTaken && code == 0 }
            take(convoy_set_string(easy, CurlOption.url, request.url.absoluteString))
            take(convoy_set_long(easy, CurlOption.httpVersion, version))
            // Resets method, body and "no body" to a plain GET.
            take(convoy_set_long(easy, CurlOption.httpGet, 1))
            if request.method == .head {
                take(convoy_set_long(easy, CurlOption.noBody, 1))
            } else if transfer.sendsBody {
                take(convoy_set_long(easy, CurlOption.upload, 1))
                // A body of unknown length is sent in chunks.
                take(convoy_set_int64(easy, CurlOption.inFileSize, transfer.bodyLength ?? -1))
            }
            let isImplied = request.method == .head || (request.method == .get && !transfer.sendsBody)
            take(convoy_set_string(easy, CurlOption.customRequest, isImplied ? nil : request.method.rawValue))
            // Before 7.80, libcurl makes later requests wait for the first connection. Since then ``SharedConnections``
            // does.
            convoy_set_long(easy, CurlOption.pipeWait, transfer.isShareable && !asksBeforeSending ? 1 : 0)
            setVerbose(transfer.isHTTPS)
            if transfer.isShareable { setGeneration(transfer.place.generation) }
            take(
                convoy_set_long(
                    easy, CurlOption.timeoutMilliseconds, transfer.timeLeft.map(\.wholeMilliseconds) ?? 0))
            let target = mayUseProxy && sendsToProxy ? request.targetWithEmptyQuery : nil
            take(convoy_set_string(easy, CurlOption.requestTarget, target))
            guard let list = headerLists.list(for: transfer, host: mayUseProxy ? request.hostField : nil) else {
                return false
            }
            if list !== headerList { take(convoy_set_list(easy, CurlOption.httpHeader, list.first)) }
            headerList = list
            return isTaken
        }

        /// Sets whether libcurl calls the debug callback.
        func setVerbose(_ isVerbose: Bool) {
            guard isVerbose != self.isVerbose else { return }
            self.isVerbose = isVerbose
            convoy_set_long(easy, CurlOption.verbose, isVerbose ? 1 : 0)
        }

        /// Sets how many bytes libcurl reads at once.
        ///
        /// Older versions of libcurl allocate the buffer for each request, and the C library returns a large buffer to
        /// the system. So only a large body uses a large buffer; the small one stays in the processor's cache.
        private func setBufferSize(forLargeBody isLarge: Bool) {
            let size = isLarge ? 128 << 10 : 16 << 10
            guard size != bufferSize else { return }
            bufferSize = size
            convoy_set_long(easy, CurlOption.bufferSize, size)
        }

        /// Closes the connection after this transfer.
        func forbidReuse() { convoy_set_long(easy, CurlOption.forbidReuse, 1) }
    }

    extension Duration {
        /// The milliseconds, rounded up and at least one, because libcurl reads zero as no limit.
        fileprivate var wholeMilliseconds: Int {
            Int(clamping: Int64(min(max(1, (self / .milliseconds(1)).rounded(.up)), 1e9)))
        }
    }
#endif
