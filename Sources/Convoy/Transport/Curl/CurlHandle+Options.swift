// Sets the options that are the same for all requests of a handle.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// - Thread: the engine's.
    extension CurlHandle {
        /// Sets the options that are the same for all requests.
        ///
        /// Throws an error that names an option that this libcurl does not support.
        func setUp() throws(RequestError) {
            // libcurl must use no signals, because any thread of the process could receive them.
            convoy_set_long(easy, CurlOption.noSignal, 1)
            // With this option of libcurl 7.87 and later, removing a transfer does not wait for its name lookup.
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
            // 6 is CURL_SSLVERSION_TLSv1_2. 7 is _TLSv1_3, set as minimum and maximum, because older libcurls with
            // GnuTLS read a minimum of 1.3 alone as 1.2.
            let version = options.minimumTLSVersion == .tls12 ? 6 : 7 | 7 << 16
            try check("minimumTLSVersion", convoy_set_long(easy, CurlOption.sslVersion, version))
            let timeout = options.connectTimeout.wholeMilliseconds
            try check("connectTimeout", convoy_set_long(easy, CurlOption.connectTimeoutMilliseconds, timeout))
            let age = Int(clamping: Int64(options.idleConnectionTime.seconds.rounded(.up)))
            convoy_set_long(easy, CurlOption.maxAgeOfConnection, min(age, 1 << 30))
            try setUpTrust(
                CurlOption.sslVerifyPeer, CurlOption.sslVerifyHost, CurlOption.caInfo, CurlOption.caPath)
            if !options.pinnedPublicKeys.isEmpty {
                let pins = options.pinnedPublicKeys.sorted().map { "sha256//" + $0 }.joined(separator: ";")
                try check("pinnedPublicKeys", convoy_set_string(easy, CurlOption.pinnedPublicKey, pins))
            }
            if let certificate = options.clientCertificate { try setUp(certificate) }
            if !options.hostOverrides.isEmpty {
                // Of two entries with the same host and port, libcurl uses the last, as documented for `hostOverrides`.
                guard let list = HeaderList(options.hostOverrides.map(\.entry)) else { throw Self.outOfMemory }
                hostOverrides = list
                try check("hostOverrides", convoy_set_list(easy, CurlOption.resolve, list.first))
            }
            try setUpProxy(tlsVersion: version)
        }

        private func setUp(_ certificate: ConnectionOptions.ClientCertificate) throws(RequestError) {
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

        private func setUpProxy(tlsVersion: Int) throws(RequestError) {
            switch options.proxy {
            case .environment:
                guard !ConnectionOptions.environmentHasProxy else { break }
                // The empty values stop libcurl from reading the environment for each request.
                for option in [CurlOption.proxy, CurlOption.noProxy] { convoy_set_string(easy, option, "") }
            case .direct:
                for option in [CurlOption.proxy, CurlOption.noProxy] {
                    try check("proxy", convoy_set_string(easy, option, ""))
                }
            case .server(let url, let userName, let password):
                try check("proxy", convoy_set_string(easy, CurlOption.proxy, url.absoluteString))
                // An empty value makes libcurl ignore `no_proxy`, by which the environment could exclude hosts from the
                // proxy.
                try check("proxy", convoy_set_string(easy, CurlOption.noProxy, ""))
                if userName != nil || password != nil {
                    // Every version percent-decodes this option, unlike the separate options for name and password.
                    let parts = [userName ?? "", password ?? ""].map(\.percentEncoded)
                    let credentials = parts.joined(separator: ":")
                    try check("proxy", convoy_set_string(easy, CurlOption.proxyUserPassword, credentials))
                }
            }
            // HTTPS proxies get the same trust as servers. If libcurl rejects this option, it does not support HTTPS
            // proxies.
            guard convoy_set_long(easy, CurlOption.proxySSLVersion, tlsVersion) == 0 else { return }
            try setUpTrust(
                CurlOption.proxySSLVerifyPeer, CurlOption.proxySSLVerifyHost, CurlOption.proxyCAInfo,
                CurlOption.proxyCAPath)
        }

        /// Sets which certificates the handle trusts, for servers or for HTTPS proxies.
        ///
        /// The parameters are libcurl's numbers of the options for servers, or of those for HTTPS proxies.
        private func setUpTrust(
            _ verifyPeer: Int32, _ verifyHost: Int32, _ file: Int32, _ directory: Int32
        ) throws(RequestError) {
            if options.trust == .unverified {
                for option in [verifyPeer, verifyHost] { try check("trust", convoy_set_long(easy, option, 0)) }
            }
            guard let trustFile else { return }
            try check("trust", convoy_set_string(easy, file, trustFile))
            // Without this call, libcurl would also trust the system's directory of certificates.
            try check("trust", convoy_set_string(easy, directory, nil))
        }
    }

    extension ConnectionOptions {
        /// Whether the environment names a proxy; read once, at the first use.
        fileprivate static let environmentHasProxy = {
            let environment = ProcessInfo.processInfo.environment
            return ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"].contains {
                environment[$0]?.isEmpty == false
            }
        }()

        var mayUseProxy: Bool { if case .server = proxy { true } else { mayUseEnvironmentProxy } }

        var mayUseEnvironmentProxy: Bool { if case .environment = proxy { Self.environmentHasProxy } else { false } }

        /// Whether all plain HTTP requests go to an HTTP proxy.
        ///
        /// For a proxy from the environment the value is false if `no_proxy` is set, because only libcurl evaluates it.
        var sendsToProxy: Bool {
            if case .server(let url, _, _) = proxy { return url.scheme?.lowercased().hasPrefix("http") == true }
            guard case .environment = proxy else { return false }
            let environment = ProcessInfo.processInfo.environment
            func isSet(_ name: String) -> Bool { environment[name]?.isEmpty == false }
            guard mayUseProxy, !isSet("no_proxy"), !isSet("NO_PROXY") else { return false }
            let name = ["http_proxy", "all_proxy", "ALL_PROXY"].first(where: isSet)
            return name.flatMap { environment[$0] }.map { !$0.lowercased().hasPrefix("socks") } ?? false
        }
    }
#endif
