// One libcurl easy handle, which transfers use one after the other.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// Owns an easy handle, its callbacks and the memory it points to.
    ///
    /// Options that are the same for all requests are set once. The other options are set for each request, but most of
    /// them are skipped between two plain requests.
    ///
    /// - Thread: the engine's.
    final class CurlHandle {
        let easy: OpaquePointer
        /// The transfer that receives the callbacks; nil between two transfers.
        @exclusivity(unchecked) var transfer: CurlTransfer?
        private var headerList: HeaderList?
        /// The list for `CURLOPT_RESOLVE`, retained because libcurl stores a pointer to it.
        var hostOverrides: HeaderList?
        private let errorText = UnsafeMutablePointer<CChar>.allocate(capacity: CurlHandle.errorTextSize)
        /// The default `User-Agent` of requests.
        static let userAgent = "Convoy"
        static let outOfMemory = RequestError(.transportFailed, "nothing was sent: libcurl is out of memory")
        /// libcurl's CURL_ERROR_SIZE.
        private static let errorTextSize = 256

        let options: ConnectionOptions
        let trustFile: String?
        /// Whether libcurl has a pre-request callback, which is called before a request is sent.
        private(set) var asksBeforeSending = true
        /// Whether libcurl has repeated a request with this handle, or has tried to.
        ///
        /// Up to 8.16, libcurl counts the repetitions of all requests of a handle and fails the sixth. So such a handle
        /// is not reused.
        var isWorn = false
        private var isVerbose = false
        /// Whether libcurl's options are those of a plain request: a GET over plain HTTP without options of its own.
        private var isPlain = false
        /// The generation of connections that the handle's TLS options encode; see ``SharedConnections``.
        private var generation = 0
        /// Whether the peer has sent no `close_notify` so far; nil unless the body ends with its TLS connection.
        var endsUnannounced: Bool?

        /// Whether libcurl has logged that it uses a proxy of the environment for this transfer.
        var usesEnvironmentProxy = false

        /// Makes a handle.
        ///
        /// - Parameter trustFile: the value of `options.trustFile`, which is expensive to compute.
        /// - Throws: `.transportFailed` if this libcurl does not support an option, or is out of memory.
        init(_ options: ConnectionOptions, trustFile: String?) throws(RequestError) {
            self.options = options
            self.trustFile = trustFile
            guard let easy = curl_easy_init() else {
                errorText.deallocate()
                throw Self.outOfMemory
            }
            self.easy = easy
            errorText.initialize(repeating: 0, count: Self.errorTextSize)
            setUpCallbacks()
            try setUp()
        }

        deinit {
            curl_easy_cleanup(easy)
            errorText.deallocate()
        }

        /// libcurl's text for the last failure, without credentials; empty if there is no text, or none that can be
        /// shown.
        func message(of request: PreparedRequest) -> String {
            let text = String(validatingCString: errorText) ?? ""
            return text.isEmpty ? "" : QuotedCredentials(of: request.url, options).removed(from: text) ?? ""
        }

        /// Whether every connection of this transfer goes to a proxy.
        var goesThroughProxy: Bool {
            if case .server = options.proxy { return true }
            // Since 8.7 libcurl reports whether a proxy was used. Before that, only its log lines show it.
            return usesEnvironmentProxy || long(CurlInfo.usedProxy) != 0
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
                CurlHandle.transfer(of: context)?.handle?.noteEnd()
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
                CurlHandle.transfer(of: context)?.hear(kind, .init(start: text, count: count))
                return 0
            }
        }

        /// The transfer of the handle that libcurl passes to a callback.
        static func transfer(of context: UnsafeMutableRawPointer?) -> CurlTransfer? {
            context.flatMap { Unmanaged<CurlHandle>.fromOpaque($0).takeUnretainedValue().transfer }
        }

        func check(_ name: String, _ code: CURLcode) throws(RequestError) {
            guard code != 0 else { return }
            throw RequestError(
                .transportFailed, "this libcurl does not support \(name): \(CurlLibrary.message(of: code))")
        }

        /// Sets the options of this request; false if libcurl rejects an option.
        func prepare(for transfer: CurlTransfer, _ headerLists: inout HeaderListCache) -> Bool {
            let request = transfer.request
            self.transfer = transfer
            errorText.pointee = 0
            stopWatchingEnd()
            usesEnvironmentProxy = false
            setVerbose(transfer.isHTTPS || options.mayUseEnvironmentProxy)
            // Unlike an implicit conversion, `withCString` copies nothing.
            var problem = request.url.absoluteString.withCString { convoy_set_string(easy, CurlOption.url, $0) }
            let mayUseProxy = options.mayUseProxy
            let target = mayUseProxy && options.sendsToProxy ? request.targetWithEmptyQuery : nil
            let hasLargeResponse = transfer.client?.expectsLargeBody == true
            // If this request and the previous one need none of the further options, these are not set again.
            let isPlain =
                !transfer.isHTTPS && !transfer.sendsBody && request.method == .get && request.attemptTimeout == nil
                && target == nil && !hasLargeResponse
            if !isPlain || !self.isPlain { problem |= set(transfer, target, hasLargeResponse: hasLargeResponse) }
            self.isPlain = isPlain && problem == 0
            guard let list = headerLists.list(for: transfer, host: mayUseProxy ? request.hostField : nil) else {
                return false
            }
            if list !== headerList { problem |= convoy_set_list(easy, CurlOption.httpHeader, list.first) }
            headerList = list
            return problem == 0
        }

        /// Sets the options that a plain request does not need, or resets them; returns 0 if libcurl accepts all.
        private func set(_ transfer: CurlTransfer, _ target: String?, hasLargeResponse: Bool) -> CURLcode {
            let method = transfer.request.method
            convoy_set_long(easy, CurlOption.forbidReuse, asksBeforeSending ? 0 : 1)
            // 4 is CURL_HTTP_VERSION_2TLS, 2 is _1_1. Without TLS both mean HTTP/1.1. But with 4, older libcurl
            // versions accept an HTTP/2 status line without TLS, and send several requests at once on that connection.
            var problem = convoy_set_long(easy, CurlOption.httpVersion, transfer.isShareable ? 4 : 2)
            // Resets method, body and "no body" to a plain GET.
            problem |= convoy_set_long(easy, CurlOption.httpGet, 1)
            if method == .head {
                problem |= convoy_set_long(easy, CurlOption.noBody, 1)
            } else if transfer.sendsBody {
                problem |= convoy_set_long(easy, CurlOption.upload, 1)
                // A body of unknown length is sent in chunks.
                problem |= convoy_set_int64(easy, CurlOption.inFileSize, transfer.bodyLength ?? -1)
            }
            let isImplied = method == .head || (method == .get && !transfer.sendsBody)
            problem |= convoy_set_string(easy, CurlOption.customRequest, isImplied ? nil : method.rawValue)
            // Before libcurl 7.80, this option makes later requests wait for the first connection. From 7.80 on,
            // ``SharedConnections`` makes them wait.
            convoy_set_long(easy, CurlOption.pipeWait, transfer.isShareable && !asksBeforeSending ? 1 : 0)
            // From 7.83.1 on, libcurl shares a connection only between equal TLS options. So requests of different
            // generations, as ``SharedConnections`` counts them, differ in three bits, which only the TLS library of
            // Windows uses: CURLSSLOPT_NO_REVOKE, _REVOKE_BEST_EFFORT and _AUTO_CLIENT_CERT.
            if transfer.place.generation != generation {
                generation = transfer.place.generation
                let bits = (generation & 1) << 1 | (generation & 2) << 2 | (generation & 4) << 3
                convoy_set_long(easy, CurlOption.tlsOptions, bits)
            }
            // Older versions of libcurl allocate the receive buffer for each request. The C library returns a large
            // buffer to the system each time, which is slow. So only a request with a large response uses one. A small
            // buffer stays in the processor's cache.
            convoy_set_long(easy, CurlOption.bufferSize, hasLargeResponse ? 128 << 10 : 16 << 10)
            let timeLeft = transfer.timeLeft.map(\.wholeMilliseconds) ?? 0
            problem |= convoy_set_long(easy, CurlOption.timeoutMilliseconds, timeLeft)
            return problem | convoy_set_string(easy, CurlOption.requestTarget, target)
        }

        /// Sets whether libcurl calls the debug callback.
        func setVerbose(_ isVerbose: Bool) {
            guard isVerbose != self.isVerbose else { return }
            self.isVerbose = isVerbose
            convoy_set_long(easy, CurlOption.verbose, isVerbose ? 1 : 0)
        }

        /// Makes libcurl close the connection after this transfer.
        func forbidReuse() {
            isPlain = false
            convoy_set_long(easy, CurlOption.forbidReuse, 1)
        }
    }

    extension Duration {
        /// The milliseconds, rounded up, from 1 to 1,000,000,000.
        ///
        /// libcurl reads zero as no limit.
        var wholeMilliseconds: Int {
            Int(clamping: Int64(min(max(1, (self / .milliseconds(1)).rounded(.up)), 1e9)))
        }
    }
#endif
