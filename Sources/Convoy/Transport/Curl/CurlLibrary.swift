// The system's libcurl: its version, and the numbers of its options.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    enum CurlLibrary {
        /// The first access, on any thread, initialises the library.
        static let defect: RequestError? = {
            let version = curl_version_info(3)?.pointee
            let found = version.flatMap { String(validatingCString: $0.version) } ?? "of an unknown version"
            // Versions before 7.68 were never tested. curl_multi_poll exists since 7.66.
            guard let version, version.version_num >= 0x07_44_00 else {
                return RequestError(
                    .transportFailed,
                    "nothing was sent: libcurl \(found) is too old, Convoy needs 7.68.0; "
                        + "update the system's libcurl, or choose the URLSession transport")
            }
            // 3 is CURL_GLOBAL_DEFAULT. libcurl counts the calls, so FoundationNetworking's own call does no harm.
            let code = curl_global_init(3)
            guard code == 0 else {
                return RequestError(
                    .transportFailed,
                    "nothing was sent: libcurl \(found) could not be initialised: \(message(of: code))")
            }
            convoy_watch_exit()
            return nil
        }()

        /// The version number: 0x08_01_01 for 8.1.1.
        static let version = curl_version_info(3)?.pointee.version_num ?? 0

        static let usesGnuTLS = {
            guard let name = curl_version_info(3)?.pointee.ssl_version else { return false }
            return String(validatingCString: name)?.contains("GnuTLS") == true
        }()

        // The following constants mark defects of some versions that Convoy works around. The page on versions of
        // libcurl lists these and others.

        /// From 7.84.0 on and before 8.1.0, an easy handle appends to the freed last line of its previous response if a
        /// response begins with a folded line (``CurlTransfer/handleDebug(_:_:)``).
        static let remembersFreedLine = (0x07_54_00..<0x08_01_00).contains(version)

        // Whether libcurl reports a response as complete when its HTTP/2 connection fails (``CurlTransfer/mayBeCut``).
        // Versions before 7.88 do so too, but do not log a GOAWAY, so Convoy cannot detect it.
        static let acceptsCutStreams = (0x07_58_00...0x07_58_01).contains(version)

        /// Before 7.77.0 a stored session could belong to a freed transfer (CVE-2021-22901), or to a proxy instead of
        /// the server (CVE-2021-22890).
        static let keepsSessions = version >= 0x07_4d_00

        static func message(of code: CURLcode) -> String {
            // For code 43 libcurl's text is about the program, not about the cause.
            if code == 43 { return "it does not accept that value" }
            return curl_easy_strerror(code).flatMap { String(validatingCString: $0) } ?? "error \(code)"
        }
    }
#endif
