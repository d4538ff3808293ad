// Keeps requests of different generations on different connections.
#if canImport(CLibcurl)
    import CLibcurl

    extension CurlHandle {
        /// Prevents libcurl from sharing a connection with requests of another generation, as `SharedConnections`
        /// counts them.
        ///
        /// From 7.83.1 on, libcurl shares a connection only between equal TLS options. Three bits of the options differ
        /// here, which only the TLS library of Windows uses: CURLSSLOPT_NO_REVOKE, _REVOKE_BEST_EFFORT and
        /// _AUTO_CLIENT_CERT.
        func setGeneration(_ generation: Int) {
            guard generation != self.generation else { return }
            self.generation = generation
            let bits = (generation & 1) << 1 | (generation & 2) << 2 | (generation & 4) << 3
            convoy_set_long(easy, CurlOption.tlsOptions, bits)
        }
    }
#endif
