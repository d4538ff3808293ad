// What libcurl reports, beneath an error of ours.
#if canImport(CLibcurl)
    /// What libcurl reported, as a code of its own: the ``RequestError/underlying`` error of a failure that it noticed.
    public struct CurlError: Error, Sendable, Hashable {
        /// A CURLcode.
        public let code: Int
        /// libcurl's own words, without user names and passwords.
        public let message: String
    }
#endif
