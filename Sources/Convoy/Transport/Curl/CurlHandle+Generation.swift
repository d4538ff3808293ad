// Which connections of an origin a request may share.
#if canImport(CLibcurl)
    import CLibcurl

    extension CurlHandle {
        /// Has libcurl share no connection with requests of another generation.
        ///
        /// From 7.83.1 on it shares one between equal TLS options only. These three bits are heard by Windows's TLS alone:
        /// CURLSSLOPT_NO_REVOKE, _REVOKE_BEST_EFFORT and _AUTO_CLIENT_CERT.
        func setGeneration(_ generation: Int) {
            guard generation != self.generation else { return }
            self.generation = generation
            let bits = (generation & 1) << 1 | (generation & 2) << 2 | (generation & 4) << 3
            convoy_set_long(easy, CurlOption.tlsOptions, bits)
        }
    }
#endif
