// libcurl's error, beneath an error of the library.
#if canImport(CLibcurl)
    /// libcurl's error code and text: the ``RequestError/underlying`` error of a failure that libcurl reported.
    public struct CurlError: Error, Sendable, Hashable {
        /// The CURLcode.
        public let code: Int
        /// libcurl's text, without user names and passwords.
        public let message: String
    }
#endif
