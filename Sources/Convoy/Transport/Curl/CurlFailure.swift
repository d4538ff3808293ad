// What libcurl's codes mean.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    extension RequestError {
        /// The error for a transfer that libcurl ended with a code; decided by codes, never by texts.
        ///
        /// - Parameter hasHead: whether the head of the answer had arrived.
        init(_ code: CURLcode, of handle: CurlHandle, _ request: PreparedRequest, hasHead: Bool) {
            let system = handle.long(CurlInfo.osErrno)
            let (kind, what) = Self.kind(of: code, handle, request, hasHead: hasHead, system: Int32(clamping: system))
            let text = handle.message.isEmpty ? CurlLibrary.message(of: code) : handle.message
            // Looking up a name leaves no number of the system's.
            let number = code == 6 ? nil : POSIXErrorCode(rawValue: Int32(clamping: system))
            let underlying = number.map { POSIXError($0) as any Error }
            self.init(
                kind, "\(what) (\(text))", underlying: underlying ?? CurlError(code: Int(code), message: text),
                isRetryable: kind == .proxyFailed ? handle.long(CurlInfo.httpConnectCode) == 0 : nil)
        }

        private static func kind(
            of code: CURLcode, _ handle: CurlHandle, _ request: PreparedRequest, hasHead: Bool, system: Int32
        ) -> (Code, String) {
            // What sending or receiving can meet; another is left over from an address that was tried before.
            let isLost = [ECONNRESET, EPIPE, ETIMEDOUT, ECONNABORTED].contains(system)
            let connectCode = handle.long(CurlInfo.httpConnectCode)
            switch code {
            case 5: return (.proxyFailed, "the name of the proxy could not be resolved")
            case 6: return (.connectionFailed, "the name of the host could not be resolved")
            case 7 where handle.hasProxy: return (.proxyFailed, "no connection to the proxy could be made")
            case 7: return (.connectionFailed, "no connection could be made")
            case 97: return (.proxyFailed, "the proxy refused")
            // libcurl's timers ring up to a millisecond early.
            case 28
            where !handle.hasConnected
                && handle.metrics.total + .milliseconds(2) < request.transferTimeout ?? .seconds(1 << 40):
                return (.connectionFailed, "no connection was there within the connect timeout")
            case 28: return (.deadlineExceeded, "the time for the transfer was over")
            // Written by the proxy to our CONNECT.
            case 56 where connectCode >= 300:
                return (.proxyFailed, "the proxy answered \(connectCode) to the request for a connection")
            case 35 where isLost: return (.connectionLost, "the connection was lost in the TLS handshake")
            case 53, 54, 58, 59, 60, 66, 77, 80, 82, 83, 91, 98, 35:
                return (.tlsFailed, "no trusted connection could be made")
            case 90: return (.tlsFailed, "the server's public key is none of the pinned ones")
            case 52: return (.connectionLost, "the connection was closed before an answer")
            case 18: return (.connectionLost, "the connection was closed in the middle of the answer")
            case 55: return (.connectionLost, "the connection was lost while sending")
            // Without an error of the system's, over plain HTTP, it is the framing that is wrong.
            case 56 where !isLost && hasHead && !request.isHTTPS:
                return (.badResponse, "the body of the answer is malformed")
            case 56: return (.connectionLost, "the connection was lost")
            case 16, 92, 95: return (.connectionLost, "the server ended the stream")
            case 27 where !hasHead, 100 where !hasHead: return (.badResponse, "the header of the answer is too large")
            // 43: of a trailer that is none.
            case 1, 8, 43, 61, 100: return (.badResponse, "the answer could not be understood")
            case 65: return (.connectionLost, "the connection was lost, and the body cannot be sent again")
            case 3: return (.invalidRequest, "nothing was sent: libcurl does not take the URL")
            default: return (.transportFailed, "libcurl gave up with its code \(code)")
            }
        }
    }

    /// What libcurl reported, for those who know its codes.
    public struct CurlError: Error, Sendable, Hashable {
        /// A CURLcode.
        public let code: Int
        /// libcurl's own words.
        public let message: String
    }
#endif
