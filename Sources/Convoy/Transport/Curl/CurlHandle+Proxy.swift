// Which requests go to a proxy, and how libcurl finds it.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// - Thread: its engine's.
    extension CurlHandle {
        /// Whether the environment of the process names a proxy, at the first request.
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

        /// Whether plain requests go to an HTTP proxy, whatever their host; only libcurl reads the exceptions.
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
                // Otherwise libcurl would read the environment for each request.
                if !Self.environmentHasProxy { convoy_set_string(easy, CurlOption.proxy, "") }
            case .direct: try check("proxy", convoy_set_string(easy, CurlOption.proxy, ""))
            case .server(let url, let userName, let password):
                try check("proxy", convoy_set_string(easy, CurlOption.proxy, url.absoluteString))
                // Ignores `no_proxy`, which would bypass the proxy.
                try check("proxy", convoy_set_string(easy, CurlOption.noProxy, ""))
                if userName != nil || password != nil {
                    // Every version decodes this option, unlike the separate options for name and password.
                    let parts = [userName ?? "", password ?? ""].map(\.percentEncoded)
                    let credentials = parts.joined(separator: ":")
                    try check("proxy", convoy_set_string(easy, CurlOption.proxyUserPassword, credentials))
                }
            }
            // Proxies with TLS get the same trust as servers. A libcurl without support for them cannot reach any.
            let isSecure = convoy_set_long(easy, CurlOption.proxySSLVersion, tlsVersion) == 0
            if isSecure { try setUpProxyTrust(options.trust, trustFile) }
        }
    }
#endif
