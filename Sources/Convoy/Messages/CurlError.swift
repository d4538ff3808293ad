// libcurl's error, beneath an error of the library.
#if canImport(CLibcurl)
    /// libcurl's error code and text.
    ///
    /// This is the ``RequestError/underlying`` error of a failure that libcurl reported without an error number of the
    /// system. With such a number, the underlying error is a `POSIXError`.
    public struct CurlError: Error, Sendable, Hashable {
        /// libcurl's error code, a `CURLcode`.
        public let code: Int
        /// libcurl's text, without user names and passwords.
        public let message: String
    }
#endif
