// One libcurl easy handle, which transfers use one after the other.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    // Options that are the same for all requests are set once, the others for each request, but most of them are
    // skipped between two plain requests. Only the engine's thread uses a handle.
    final class CurlHandle {
        let easy: OpaquePointer
        @exclusivity(unchecked) var transfer: CurlTransfer?
        /// The header lines, and what they were made of; the last value is the `Host` field, or nil if libcurl writes it.
        private var header: (list: HeaderList, source: (HeaderFields, Set<String>, sendsBody: Bool, host: String?))?
        var hostOverrides: HeaderList?
        /// CURL_ERROR_SIZE is 256.
        private let errorText: UnsafeMutablePointer<CChar>
        static let userAgent = "Convoy"
        private static let outOfMemory = RequestError(.transportFailed, "nothing was sent: libcurl is out of memory")

        let options: ConnectionOptions
        private(set) var asksBeforeSending = true
        /// Up to 8.16, libcurl counts the repetitions of all requests of a handle and fails the sixth, so such a handle
        /// is not reused.
        var isWorn = false
        private var isVerbose = false
        /// Whether libcurl's options are those of a plain request: a GET over plain HTTP without options of its own.
        private var isPlain = false
        /// The generation of connections that the handle's TLS options encode; see ``SharedConnections``.
        private var generation = 0
        /// Whether the peer has sent no `close_notify` so far; nil unless the body ends with its TLS connection.
        private var endsUnannounced: Bool?
        /// Whether libcurl has logged that it uses a proxy of the environment for this transfer.
        var usesEnvironmentProxy = false

        init(_ options: ConnectionOptions) throws(RequestError) {
            self.options = options
            guard let easy = curl_easy_init() else { throw Self.outOfMemory }
            self.easy = easy
            errorText = .allocate(capacity: 256)
            errorText.initialize(repeating: 0, count: 256)
            setUpCallbacks()
            try setUp()
        }

        deinit {
            curl_easy_cleanup(easy)
            errorText.deallocate()
        }

        /// libcurl's text for the last failure; empty if it has credentials that cannot be removed.
        func message(of request: PreparedRequest) -> String {
            let text = String(validatingCString: errorText) ?? ""
            return text.isEmpty ? "" : QuotedCredentials(of: request.url, options).removed(from: text) ?? ""
        }

        var goesThroughProxy: Bool {
            if case .server = options.proxy { return true }
            // Since 8.7 libcurl reports whether a proxy was used. Before that, only its log lines show it.
            return usesEnvironmentProxy || number(CURLINFO_USED_PROXY) != 0
        }

        private func setUpCallbacks() {
            convoy_set_pointer(easy, CURLOPT_ERRORBUFFER, errorText)
            let callbacks = convoy_callbacks(
                header: { bytes, size, count, context in
                    CurlHandle.transfer(of: context)?.receiveHeaderLine(.init(start: bytes, count: size * count)) ?? 0
                },
                write: { bytes, size, count, context in
                    CurlHandle.transfer(of: context)?.receiveBody(.init(start: bytes, count: size * count)) ?? 0
                },
                read: { bytes, size, count, context in
                    CurlHandle.transfer(of: context)?.giveBody(.init(start: bytes, count: size * count))
                        ?? CURL_READFUNC_ABORT
                },
                seek: { context, offset, origin in
                    guard origin == 0, let transfer = CurlHandle.transfer(of: context) else { return 1 }
                    return transfer.rewindBody(to: offset) ? 0 : 1
                },
                prereq: { context, remoteAddress, _, remotePort, localPort in
                    let address = remoteAddress.flatMap { String(validatingCString: $0) } ?? ""
                    let connection = ConnectionKey(remoteAddress: address, remotePort: remotePort, localPort: localPort)
                    return CurlHandle.transfer(of: context)?.mayBeSent(on: connection) == true ? 0 : 1
                },
                open: { context, _, address in
                    address.flatMap { CurlHandle.transfer(of: context)?.openSocket(for: $0.pointee) } ?? -1
                },
                debug: { _, kind, text, count, context in
                    CurlHandle.transfer(of: context)?.handleDebug(kind, .init(start: text, count: count))
                    return 0
                },
                progress: { context, _, _, _, _ in
                    CurlHandle.transfer(of: context)?.handle?.noteEnd()
                    return 0
                })
            // Before 7.80 libcurl has no pre-request callback. Nothing can then check a reused connection or stop a
            // second send of a POST.
            asksBeforeSending = convoy_set_callbacks(easy, Unmanaged.passUnretained(self).toOpaque(), callbacks) == 0
        }

        static func transfer(of context: UnsafeMutableRawPointer?) -> CurlTransfer? {
            context.flatMap { Unmanaged<CurlHandle>.fromOpaque($0).takeUnretainedValue().transfer }
        }

        func check(_ name: String, _ code: CURLcode) throws(RequestError) {
            guard code != 0 else { return }
            throw RequestError(
                .transportFailed, "this libcurl does not support \(name): \(CurlLibrary.message(of: code))")
        }

        @discardableResult
        private func set(_ option: CURLoption, _ value: Int) -> CURLcode {
            convoy_set_number(easy, option, Int64(value))
        }

        func prepare(for transfer: CurlTransfer) -> Bool {
            let request = transfer.request
            self.transfer = transfer
            errorText.pointee = 0
            watchEnd(false)
            usesEnvironmentProxy = false
            setVerbose(transfer.isHTTPS || options.mayUseEnvironmentProxy)
            // Unlike an implicit conversion, this copies nothing.
            var problem = request.url.absoluteString.withCString { convoy_set_pointer(easy, CURLOPT_URL, $0) }
            let mayUseProxy = options.mayUseProxy
            let target = mayUseProxy && options.sendsToProxy ? request.targetWithEmptyQuery : nil
            let hasLargeResponse = transfer.client?.expectsLargeBody == true
            let isPlain =
                !transfer.isHTTPS && !transfer.sendsBody && request.method == .get && request.attemptTimeout == nil
                && target == nil && !hasLargeResponse
            if !isPlain || !self.isPlain { problem |= set(transfer, target, hasLargeResponse: hasLargeResponse) }
            self.isPlain = isPlain && problem == 0
            let host = mayUseProxy ? request.hostField : nil
            let wanted = (request.headerFields, request.omittedFields, sendsBody: transfer.sendsBody, host: host)
            if let header, header.source == wanted { return problem == 0 }
            let lines = (host.map { ["Host: \($0)"] } ?? []) + transfer.headerLines
            guard let list = HeaderList(lines) else { return false }
            problem |= convoy_set_pointer(easy, CURLOPT_HTTPHEADER, list.first)
            header = (list, wanted)
            return problem == 0
        }

        private func set(_ transfer: CurlTransfer, _ target: String?, hasLargeResponse: Bool) -> CURLcode {
            let method = transfer.request.method
            set(CURLOPT_FORBID_REUSE, asksBeforeSending ? 0 : 1)
            // 4 is CURL_HTTP_VERSION_2TLS, 2 is _1_1. Without TLS both mean HTTP/1.1. But with 4, older libcurl
            // versions accept an HTTP/2 status line without TLS, and send several requests at once on that connection.
            var problem = set(CURLOPT_HTTP_VERSION, transfer.isShareable ? 4 : 2)
            // Resets method, body and "no body" to a plain GET.
            problem |= set(CURLOPT_HTTPGET, 1)
            if method == .head {
                problem |= set(CURLOPT_NOBODY, 1)
            } else if transfer.sendsBody {
                problem |= set(CURLOPT_UPLOAD, 1)
                // A body of unknown length is sent in chunks.
                problem |= convoy_set_number(easy, CURLOPT_INFILESIZE_LARGE, transfer.bodyLength ?? -1)
            }
            let isImplied = method == .head || (method == .get && !transfer.sendsBody)
            problem |= convoy_set_pointer(easy, CURLOPT_CUSTOMREQUEST, isImplied ? nil : method.rawValue)
            // Before libcurl 7.80, this option makes later requests wait for the first connection. From 7.80 on,
            // ``SharedConnections`` makes them wait.
            set(CURLOPT_PIPEWAIT, transfer.isShareable && !asksBeforeSending ? 1 : 0)
            // From 7.83.1 on, libcurl shares a connection only between equal TLS options. So requests of different
            // generations, as ``SharedConnections`` counts them, differ in three bits, which only the TLS library of
            // Windows uses: CURLSSLOPT_NO_REVOKE, _REVOKE_BEST_EFFORT and _AUTO_CLIENT_CERT.
            if transfer.place.generation != generation {
                generation = transfer.place.generation
                let bits = (generation & 1) << 1 | (generation & 2) << 2 | (generation & 4) << 3
                set(CURLOPT_SSL_OPTIONS, bits)
            }
            // Older versions of libcurl allocate the receive buffer for each request, which is slow for a large one. A
            // small buffer stays in the processor's cache.
            set(CURLOPT_BUFFERSIZE, hasLargeResponse ? 128 << 10 : 16 << 10)
            let timeLeft = transfer.timeLeft.map(\.wholeMilliseconds) ?? 0
            problem |= set(CURLOPT_TIMEOUT_MS, timeLeft)
            return problem | convoy_set_pointer(easy, CURLOPT_REQUEST_TARGET, target)
        }

        func setVerbose(_ isVerbose: Bool) {
            guard isVerbose != self.isVerbose else { return }
            self.isVerbose = isVerbose
            set(CURLOPT_VERBOSE, isVerbose ? 1 : 0)
        }

        func forbidReuse() {
            isPlain = false
            set(CURLOPT_FORBID_REUSE, 1)
        }

        private func setUp() throws(RequestError) {
            // libcurl must use no signals, because any thread of the process could receive them.
            set(CURLOPT_NOSIGNAL, 1)
            // With this option of libcurl 7.87 and later, removing a transfer does not wait for its name lookup.
            set(CURLOPT_QUICK_EXIT, 1)
            set(CURLOPT_TCP_KEEPALIVE, 1)
            set(CURLOPT_UPLOAD_BUFFERSIZE, 256 << 10)
            set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
            // The path is sent exactly as in the request, because it may be part of a signature.
            set(CURLOPT_PATH_AS_IS, 1)
            set(CURLOPT_HTTP_CONTENT_DECODING, 0)
            if !CurlLibrary.keepsSessions { set(CURLOPT_SSL_SESSIONID_CACHE, 0) }
            // A `User-Agent` field of a request replaces this value.
            convoy_set_pointer(easy, CURLOPT_USERAGENT, Self.userAgent)
            try check("minimumTLSVersion", set(CURLOPT_SSLVERSION, tlsVersion))
            let timeout = options.connectTimeout.wholeMilliseconds
            try check("connectTimeout", set(CURLOPT_CONNECTTIMEOUT_MS, timeout))
            let age = Int(clamping: Int64(options.idleConnectionTime.seconds.rounded(.up)))
            set(CURLOPT_MAXAGE_CONN, min(age, 1 << 30))
            try setUpTrust(CURLOPT_SSL_VERIFYPEER, CURLOPT_SSL_VERIFYHOST, CURLOPT_CAINFO, CURLOPT_CAPATH)
            if !options.pinnedPublicKeys.isEmpty {
                let pins = options.pinnedPublicKeys.sorted().map { "sha256//" + $0 }.joined(separator: ";")
                try check("pinnedPublicKeys", convoy_set_pointer(easy, CURLOPT_PINNEDPUBLICKEY, pins))
            }
            if let certificate = options.clientCertificate { try setUp(certificate) }
            if !options.hostOverrides.isEmpty {
                guard let list = HeaderList(options.hostOverrides.map(\.entry)) else { throw Self.outOfMemory }
                hostOverrides = list
                try check("hostOverrides", convoy_set_pointer(easy, CURLOPT_RESOLVE, list.first))
            }
            try setUpProxy()
        }

        private func setUp(_ certificate: ConnectionOptions.ClientCertificate) throws(RequestError) {
            let name = "clientCertificate"
            try check(name, convoy_set_pointer(easy, CURLOPT_SSLCERT, certificate.certificateFile.path))
            switch certificate.format {
            case .pem: try check(name, convoy_set_pointer(easy, CURLOPT_SSLKEY, certificate.privateKeyFile.path))
            case .archive: try check(name, convoy_set_pointer(easy, CURLOPT_SSLCERTTYPE, "P12"))
            }
            // Without a password, OpenSSL would prompt at the terminal for that of an encrypted key. GnuTLS never
            // prompts, but treats a key with an empty password as encrypted.
            let password = certificate.password ?? (CurlLibrary.usesGnuTLS ? nil : "")
            try check(name, convoy_set_pointer(easy, CURLOPT_KEYPASSWD, password))
        }

        /// 6 is CURL_SSLVERSION_TLSv1_2.
        ///
        /// 7 is _TLSv1_3, set as minimum and maximum, because older libcurls with GnuTLS read a minimum of 1.3 alone as
        /// 1.2.
        private var tlsVersion: Int { options.minimumTLSVersion == .tls12 ? 6 : 7 | 7 << 16 }

        private func setUpProxy() throws(RequestError) {
            switch options.proxy {
            case .environment where options.mayUseProxy: break
            case .environment, .direct:
                // The empty values stop libcurl from reading the environment for each request.
                for option in [CURLOPT_PROXY, CURLOPT_NOPROXY] {
                    let code = convoy_set_pointer(easy, option, "")
                    if options.proxy == .direct { try check("proxy", code) }
                }
            case .server(let url, let userName, let password):
                try check("proxy", convoy_set_pointer(easy, CURLOPT_PROXY, url.absoluteString))
                // An empty value makes libcurl ignore `no_proxy`, by which the environment could exclude hosts from the
                // proxy.
                try check("proxy", convoy_set_pointer(easy, CURLOPT_NOPROXY, ""))
                if userName != nil || password != nil {
                    // Every version percent-decodes this option, unlike the separate options for name and password.
                    let parts = [userName ?? "", password ?? ""].map(\.percentEncoded)
                    let credentials = parts.joined(separator: ":")
                    try check("proxy", convoy_set_pointer(easy, CURLOPT_PROXYUSERPWD, credentials))
                }
            }
            // HTTPS proxies get the same trust as servers. If libcurl rejects this option, it does not support HTTPS
            // proxies.
            guard set(CURLOPT_PROXY_SSLVERSION, tlsVersion) == 0 else { return }
            try setUpTrust(
                CURLOPT_PROXY_SSL_VERIFYPEER, CURLOPT_PROXY_SSL_VERIFYHOST, CURLOPT_PROXY_CAINFO, CURLOPT_PROXY_CAPATH)
        }

        private func setUpTrust(
            _ verifyPeer: CURLoption, _ verifyHost: CURLoption, _ file: CURLoption, _ directory: CURLoption
        ) throws(RequestError) {
            if options.trust == .unverified {
                for option in [verifyPeer, verifyHost] { try check("trust", set(option, 0)) }
            }
            guard case .certificates(let certificates) = options.trust else { return }
            try check("trust", convoy_set_pointer(easy, file, certificates.path))
            // Without this call, libcurl would also trust the system's directory of certificates.
            try check("trust", convoy_set_pointer(easy, directory, nil))
        }

        /// libcurl then calls `noteEnd()` repeatedly; after the end, the connection cannot be queried any more.
        func watchEnd(_ isWatched: Bool = true) {
            guard isWatched || endsUnannounced != nil else { return }
            endsUnannounced = isWatched ? false : nil
            set(CURLOPT_NOPROGRESS, isWatched ? 0 : 1)
        }

        func noteEnd() { if endsUnannounced != nil { endsUnannounced = convoy_has_close_notify(easy) == 0 } }

        // Without `close_notify`, the body may be incomplete (RFC 9112, section 9.8). libcurl reports such an end as
        // success, or as code 56 without a system error. After success, the state of the TLS library decides.
        func endsSilently(_ code: CURLcode) -> Bool {
            guard endsUnannounced != nil, code != 0 else { return endsUnannounced == true }
            return code == 56 && !CurlFailure.lossNumbers.contains(Int32(clamping: number(CURLINFO_OS_ERRNO)))
        }

        /// If two of these differ, sending has made progress between them.
        struct SendingMark: Equatable {
            var sentBytes: Int
            var queuedBytes: Int32
        }

        var sendingMark: SendingMark {
            SendingMark(sentBytes: number(CURLINFO_SIZE_UPLOAD_T), queuedBytes: convoy_queued_bytes(activeSocket))
        }

        var activeSocket: Int32 { Int32(clamping: number(CURLINFO_ACTIVESOCKET)) }

        func number(_ info: CURLINFO) -> Int { Int(convoy_get_number(easy, info)) }

        func measure(_ metrics: inout TransferMetrics, _ session: TLSSession?) {
            let time = { (info: CURLINFO) in Duration.microseconds(self.number(info)) }
            let hasOpened = number(CURLINFO_NUM_CONNECTS) > 0
            (metrics.firstByte, metrics.total) = (time(CURLINFO_STARTTRANSFER_TIME_T), time(CURLINFO_TOTAL_TIME_T))
            metrics.sentHeaderBytes = Int64(number(CURLINFO_REQUEST_SIZE))
            // The count of opened connections is 0 for a reused connection, but also if libcurl could not connect. In
            // the second case, no bytes have moved.
            metrics.isReusedConnection = !hasOpened && (metrics.sentHeaderBytes > 0 || metrics.firstByte > .zero)
            if hasOpened {
                metrics.nameLookup = time(CURLINFO_NAMELOOKUP_TIME_T)
                metrics.connect = time(CURLINFO_CONNECT_TIME_T)
                metrics.secureConnect = time(CURLINFO_APPCONNECT_TIME_T)
            }
            if !metrics.isReusedConnection, let session {
                (metrics.tlsVersion, metrics.tlsCipher) = (session.version, session.cipher)
            }
            switch number(CURLINFO_HTTP_VERSION) {
            case 1: metrics.httpVersion = "1.0"
            case 2: metrics.httpVersion = "1.1"
            case 3: metrics.httpVersion = "2"
            case 30: metrics.httpVersion = "3"
            default: break
            }
            let address = convoy_get_pointer(easy, CURLINFO_PRIMARY_IP)?.assumingMemoryBound(to: CChar.self)
            metrics.remoteAddress = address.flatMap { String(validatingCString: $0) } ?? ""
            metrics.remotePort = number(CURLINFO_PRIMARY_PORT)
            metrics.receivedHeaderBytes = Int64(number(CURLINFO_HEADER_SIZE))
        }
    }

    extension Duration {
        /// Rounded up, from 1 to 1,000,000,000; libcurl reads zero as no limit.
        var wholeMilliseconds: Int { Int(clamping: Int64(min(max(1, (self / .milliseconds(1)).rounded(.up)), 1e9))) }
    }

    extension ConnectionOptions {
        /// Whether the environment names a proxy; read once, at the first use.
        private static let environmentHasProxy =
            variable("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY") != nil

        private static func variable(_ names: String...) -> String? {
            let environment = ProcessInfo.processInfo.environment
            return names.lazy.compactMap { environment[$0] }.first { !$0.isEmpty }
        }

        var mayUseProxy: Bool { if case .server = proxy { true } else { mayUseEnvironmentProxy } }

        var mayUseEnvironmentProxy: Bool { if case .environment = proxy { Self.environmentHasProxy } else { false } }

        /// For a proxy from the environment the value is false if `no_proxy` is set, because only libcurl evaluates it.
        var sendsToProxy: Bool {
            if case .server(let url, _, _) = proxy { return url.scheme?.lowercased().hasPrefix("http") == true }
            guard mayUseEnvironmentProxy, Self.variable("no_proxy", "NO_PROXY") == nil,
                let proxy = Self.variable("http_proxy", "all_proxy", "ALL_PROXY")
            else { return false }
            return !proxy.lowercased().hasPrefix("socks")
        }
    }

    /// Header lines, or entries of `CURLOPT_RESOLVE`; libcurl stores a pointer to the list, so a handle retains it.
    final class HeaderList {
        let first: UnsafeMutablePointer<curl_slist>?

        init?(_ lines: [String]) {
            var list: UnsafeMutablePointer<curl_slist>?
            for line in lines {
                guard let longer = curl_slist_append(list, line) else {
                    curl_slist_free_all(list)
                    return nil
                }
                list = longer
            }
            first = list
        }

        deinit { curl_slist_free_all(first) }
    }

    /// Provides the bytes of a body from its start, without ever blocking the engine's thread.
    protocol UploadSource: AnyObject {
        // Returns the number of copied bytes, 0 at the end, or nil if none are available yet. In that case the source
        // notifies the transfer when it has bytes.
        func take(into buffer: UnsafeMutableRawBufferPointer) -> Result<Int, RequestError>?
        /// A source of the same bytes from their start, possibly the same object; nil if they cannot be read again.
        func rewound() -> (any UploadSource)?
    }

    extension DataReader: UploadSource {
        func take(into buffer: UnsafeMutableRawBufferPointer) -> Result<Int, RequestError>? { read(into: buffer) }
        func rewound() -> (any UploadSource)? { DataReader(data) }
    }

    extension ConnectionOptions.HostOverride {
        var entry: String {
            let addresses = addresses.map { $0.contains(":") && !$0.hasPrefix("[") ? "[\($0)]" : $0 }
            return "\(host):\(port):\(addresses.joined(separator: ","))"
        }

        var defect: String? {
            // For libcurl, `*` means every host, `-` before the name removes an entry, and `+` makes it expire.
            let isName = host.utf8.allSatisfy {
                ($0 | 0x20).isASCIILetter || 0x30...0x39 ~= $0 || ".-_".utf8.contains($0)
            }
            guard isName, !host.isEmpty, !host.hasPrefix("-") else {
                return "\(host.debugDescription) is not a host name"
            }
            guard (1...65_535).contains(port) else { return "\(port) is not a port" }
            guard !addresses.isEmpty else { return "\(host) has no address" }
            return addresses.first { !Self.isAddress($0) }.map { "\($0.debugDescription) is not an address" }
        }

        private static func isAddress(_ text: String) -> Bool {
            // C code would not see bytes after a NUL.
            guard !text.utf8.contains(0) else { return false }
            var (four, six) = (in_addr(), in6_addr())
            let bare = text.hasPrefix("[") && text.hasSuffix("]") ? String(text.dropFirst().dropLast()) : text
            return inet_pton(AF_INET, text, &four) == 1 || inet_pton(AF_INET6, bare, &six) == 1
        }
    }

    extension PreparedRequest {
        var isHTTPS: Bool { hostKey.hasPrefix("https:") }

        /// Its method expects a body (RFC 9110, section 8.6).
        var announcesNoBody: Bool { body == nil && (method == .post || method == .put || method == .patch) }

        /// On a reused proxy connection, libcurl 8 and earlier puts the brackets of the previous request's IPv6 address
        /// around any name.
        var hostField: String? {
            guard !isHTTPS, !headerFields.contains("Host"), !omittedFields.contains("host"),
                let host = url.host(percentEncoded: true), !host.isEmpty,
                host.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), !host.contains("%")
            else { return nil }
            let name = host.contains(":") && !host.hasPrefix("[") ? "[\(host)]" : host
            return url.port.map { $0 == 80 ? name : "\(name):\($0)" } ?? name
        }

        /// libcurl rebuilds the URL for a proxy, and loses the question mark of an empty query.
        var targetWithEmptyQuery: String? {
            let text = url.absoluteString.prefix { $0 != "#" }
            guard text.hasSuffix("?"), !text.dropLast().contains("?"), let hostField else { return nil }
            let path = url.path(percentEncoded: true)
            return "http://\(hostField)\(path.isEmpty ? "/" : path)?"
        }
    }
#endif
