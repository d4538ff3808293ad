// Which requests go to a proxy, and how libcurl finds the proxy.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// - Thread: the engine's.
    extension CurlHandle {
        /// Whether the environment names a proxy; read once, at the first request.
        private static let environmentHasProxy = {
            let environment = ProcessInfo.processInfo.environment
            return ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"].contains {
                environment[$0]?.isEmpty == false
            }
        }()

        static func mayUseProxy(_ options: ConnectionOptions) -> Bool {
            switch options.proxy {
            case .direct: false
            case .server: true
            case .environment: environmentHasProxy
            }
        }

        var mayUseProxy: Bool { Self.mayUseProxy(options) }

        /// Whether all plain HTTP requests go to an HTTP proxy; false with `no_proxy`, which only libcurl evaluates.
        var sendsToProxy: Bool {
            if case .server(let url, _, _) = options.proxy { return url.scheme?.lowercased().hasPrefix("http") == true }
            guard case .environment = options.proxy else { return false }
            let environment = ProcessInfo.processInfo.environment
            func isSet(_ name: String) -> Bool { environment[name]?.isEmpty == false }
            guard mayUseProxy, !isSet("no_proxy"), !isSet("NO_PROXY") else { return false }
            let name = ["http_proxy", "all_proxy", "ALL_PROXY"].first(where: isSet)
            return name.flatMap { environment[$0] }.map { !$0.lowercased().hasPrefix("socks") } ?? false
        }

        func setUpProxy(_ options: ConnectionOptions, _ tlsVersion: Int) throws(RequestError) {
            switch options.proxy {
            case .environment:
                // An empty proxy stops libcurl from reading the environment for each request.
                if !Self.environmentHasProxy { convoy_set_string(easy, CurlOption.proxy, "") }
            case .direct: try check("proxy", convoy_set_string(easy, CurlOption.proxy, ""))
            case .server(let url, let userName, let password):
                try check("proxy", convoy_set_string(easy, CurlOption.proxy, url.absoluteString))
                // An empty value makes libcurl ignore `no_proxy`, which would bypass the proxy.
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
            let isSecure = convoy_set_long(easy, CurlOption.proxySSLVersion, tlsVersion) == 0
            if isSecure { try setUpProxyTrust(options.trust, trustFile) }
        }
    }
#endif
