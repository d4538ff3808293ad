// Which certificates a handle trusts.
#if canImport(CLibcurl)
    import CLibcurl

    extension CurlHandle {
        /// Sets which servers the handle trusts.
        func setUpTrust(_ trust: ConnectionOptions.Trust, _ file: String?) throws(RequestError) {
            if trust == .unverified { try setZero(CurlOption.sslVerifyPeer, CurlOption.sslVerifyHost) }
            guard let file else { return }
            try check("trust", convoy_set_string(easy, CurlOption.caInfo, file))
            // The system's directory of certificates must not be trusted too.
            try check("trust", convoy_set_string(easy, CurlOption.caPath, nil))
        }

        /// Sets which HTTPS proxies the handle trusts.
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
