// The system's libcurl: its version, and the numbers of its options.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    enum CurlLibrary {
        /// The first access, on any thread, initialises the library.
        static let defect: RequestError? = {
            let version = curl_version_info(3)?.pointee
            let found = version.flatMap { String(validatingCString: $0.version) } ?? "of an unknown version"
            // curl_multi_poll exists since 7.66. Versions before 7.68 were never tested.
            guard let version, version.version_num >= 0x07_44_00, convoy_has_poll() != 0 else {
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
        /// response begins with a folded line (``CurlTransfer/hear(_:_:)``).
        static let remembersFreedLine = (0x07_54_00..<0x08_01_00).contains(version)

        // Whether libcurl reports a response as complete when its HTTP/2 connection fails (``CurlTransfer/mayBeCut``).
        // Versions before 7.88 do so too, but do not log a GOAWAY, so Convoy cannot detect it.
        static let acceptsCutStreams = (0x07_58_00...0x07_58_01).contains(version)

        /// Before 7.77.0 a stored session could belong to a freed transfer (CVE-2021-22901), or to a proxy instead of
        /// the server (CVE-2021-22890).
        static let keepsSessions = version >= 0x07_4d_00

        // RFC 1035. Before 8.4.0, libcurl writes a longer name past its buffer when it connects to a SOCKS proxy
        // (CVE-2023-38545).
        static let maxHostBytes = 255

        static func message(of code: CURLcode) -> String {
            // For code 43 libcurl's text is about the program, not about the cause.
            if code == 43 { return "it does not accept that value" }
            return curl_easy_strerror(code).flatMap { String(validatingCString: $0) } ?? "error \(code)"
        }
    }

    enum CurlOption {
        static let userAgent: Int32 = 10_018
        static let verbose: Int32 = 41
        static let requestTarget: Int32 = 10_266
        static let writeData: Int32 = 10_001
        static let url: Int32 = 10_002
        static let proxy: Int32 = 10_004
        static let errorBuffer: Int32 = 10_010
        static let writeFunction: Int32 = 20_011
        static let readFunction: Int32 = 20_012
        static let forbidReuse: Int32 = 75
        static let quickExit: Int32 = 322
        static let pathAsIs: Int32 = 234
        static let maxAgeOfConnection: Int32 = 288
        static let httpHeader: Int32 = 10_023
        static let sslCert: Int32 = 10_025
        static let sslCertType: Int32 = 10_086
        static let keyPassword: Int32 = 10_026
        static let customRequest: Int32 = 10_036
        static let noBody: Int32 = 44
        static let upload: Int32 = 46
        static let headerFunction: Int32 = 20_079
        static let httpGet: Int32 = 80
        static let httpVersion: Int32 = 84
        static let sslKey: Int32 = 10_087
        static let keepSessions: Int32 = 150
        static let bufferSize: Int32 = 98
        static let noSignal: Int32 = 99
        static let noProgress: Int32 = 43
        static let inFileSize: Int32 = 30_115
        static let timeoutMilliseconds: Int32 = 155
        static let connectTimeoutMilliseconds: Int32 = 156
        static let contentDecoding: Int32 = 158
        static let proxyUserPassword: Int32 = 10_006
        static let noProxy: Int32 = 10_177
        static let tcpKeepAlive: Int32 = 213
        static let pinnedPublicKey: Int32 = 10_230
        static let pipeWait: Int32 = 237
        static let tlsOptions: Int32 = 216
        static let resolve: Int32 = 10_203
        static let suppressConnectHeaders: Int32 = 265
        static let uploadBufferSize: Int32 = 280
        static let multiMaxConnects: Int32 = 6
        /// The contexts of the callbacks write, header, read, seek, pre-request, open, debug and progress, and the private
        /// pointer.
        static let contexts: [Int32] = [
            writeData, 10_029, 10_009, 10_168, 10_313, 10_164, 10_095, 10_057, 10_103,
        ]
    }

    /// The options for TLS with servers, and those for TLS with HTTPS proxies.
    struct CurlTLSOptions {
        let version, verifyPeer, verifyHost, trustFile, trustDirectory: Int32

        static let server = Self(
            version: 32, verifyPeer: 64, verifyHost: 81, trustFile: 10_065, trustDirectory: 10_097)
        static let proxy = Self(
            version: 250, verifyPeer: 248, verifyHost: 249, trustFile: 10_246, trustDirectory: 10_247)
    }

    enum CurlInfo {
        static let httpConnectCode: Int32 = 0x20_0016
        static let osErrno: Int32 = 0x20_0019
        static let usedProxy: Int32 = 0x20_0042
        static let privatePointer: Int32 = 0x10_0015
        static let localPort: Int32 = 0x20_002a
        static let activeSocket: Int32 = 0x50_002c
        static let uploadedBytes: Int32 = 0x60_0007
        static let preTransferTime: Int32 = 0x60_0035
    }

    enum CurlCallbackResult {
        static let pause = 0x1000_0001
        static let abort = 0x1000_0000
    }
#endif
