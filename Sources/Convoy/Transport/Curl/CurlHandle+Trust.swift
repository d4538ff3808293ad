// Whose certificates a handle takes.
#if canImport(CLibcurl)
    import CLibcurl

    extension CurlHandle {
        /// Whom it trusts of servers.
        func setUpTrust(_ trust: ConnectionOptions.Trust, _ file: String?) throws(RequestError) {
            if trust == .unverified { try setZero(CurlOption.sslVerifyPeer, CurlOption.sslVerifyHost) }
            guard let file else { return }
            try check("trust", convoy_set_string(easy, CurlOption.caInfo, file))
            // The system's directory of certificates is not meant.
            try check("trust", convoy_set_string(easy, CurlOption.caPath, nil))
        }

        /// Whom it trusts of proxies that are reached by TLS.
        func setUpProxyTrust(_ trust: ConnectionOptions.Trust, _ file: String?) throws(RequestError) {
            if trust == .unverified { try setZero(CurlOption.proxySSLVerifyPeer, CurlOption.proxySSLVerifyHost) }
            guard let file else { return }
            try check("trust", convoy_set_string(easy, CurlOption.proxyCAInfo, file))
            try check("trust", convoy_set_string(easy, CurlOption.proxyCAPath, nil))
        }

        private func setZero(_ options: Int32...) throws(RequestError) {
            for option in options { try check("trust", convoy_set_long(easy, option, 0)) }
        }
    }
#endif
