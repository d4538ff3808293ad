// Interprets libcurl's error codes.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// The same event has different codes and texts in different versions of libcurl, so the code is combined with
    /// Convoy's own observations: how far the transfer was, and whether it had timed out.
    struct CurlFailure {
        /// From `waiting` on, the request has been sent, at least in part.
        enum Stage { case connecting, waiting, receiving }

        var code: CURLcode
        var stage = Stage.connecting
        var isHTTPS = false
        var goesThroughProxy = false
        /// If not, libcurl's timeout code means the connect timeout.
        var isTimeOver = false
        var isRequestTooLarge = false
        /// Whether the connection ended during the TLS handshake, before either side had sent an alert.
        var isHandshakeCut = false
        /// Whether the server has sent a fatal TLS alert (RFC 8446, section 6.2).
        var isRefusedByAlert = false
        var hasBegunHandshake = true
        /// The answer to the request for a tunnel; 0 without one.
        var proxyStatusCode = 0
        var systemError: Int32 = 0

        var meaning: (code: RequestError.Code, what: String) {
            if code == Self.timedOut, isTimeOver { return (.timedOut, Self.timeIsOver) }
            if isRequestTooLarge {
                return (.invalidRequest, "nothing was sent: the request's header is longer than 1 MiB, libcurl's limit")
            }
            if isRefusedByAlert, Self.lossCodes.contains(code) {
                return (.tlsFailed, "the server ended the TLS connection with an alert")
            }
            return stage == .connecting ? meaningBeforeSending : meaningAfterSending
        }

        static let timeIsOver = "the attempt timeout has passed"

        fileprivate static let timedOut: CURLcode = 28
        /// Also the code for a header that exceeds one of libcurl's limits.
        fileprivate static let outOfMemory: CURLcode = 27

        /// Other numbers may be left over from an address that libcurl tried earlier.
        static let lossNumbers = [ECONNRESET, EPIPE, ETIMEDOUT, ECONNABORTED]
        private var isLost: Bool { Self.lossNumbers.contains(systemError) }

        private var hasNoTunnel: Bool { isHTTPS && goesThroughProxy && (proxyStatusCode == 0 || !hasBegunHandshake) }

        private var meaningBeforeSending: (RequestError.Code, String) {
            if proxyStatusCode >= 300 {
                return (.proxyFailed, "the proxy answered \(proxyStatusCode) to the request for a connection")
            }
            switch code {
            // With a proxy, codes 6 and 7 are about the proxy.
            case 5,
                6 where goesThroughProxy:
                return (.proxyFailed, "the address of the proxy is invalid, or its name could not be resolved")
            case 94: return (.proxyFailed, "the proxy rejected the credentials")
            // A SOCKS proxy failed. libcurl's message names the cause.
            case 97: return (.proxyFailed, "no connection could be made through the proxy")
            case 7 where goesThroughProxy: return (.proxyFailed, "no connection to the proxy could be made")
            case Self.timedOut where goesThroughProxy && proxyStatusCode == 0:
                return (.proxyFailed, "no connection through the proxy was made within the connect timeout")
            case 6: return (.connectionFailed, "the name of the host could not be resolved")
            case 7: return (.connectionFailed, noConnection)
            case Self.timedOut: return (.connectionFailed, "no connection was made within the connect timeout")
            case 3: return (.invalidRequest, "nothing was sent: libcurl does not accept the URL")
            case Self.outOfMemory: return (.transportFailed, "nothing was sent: libcurl is out of memory")
            case _ where Self.lossCodes.contains(code) && hasNoTunnel:
                return (.proxyFailed, "the proxy closed the connection before it answered")
            case _ where Self.lossCodes.contains(code):
                return (.connectionLost, "the connection was lost before the request was sent")
            // The proxy's response to the tunnel request is invalid.
            case 8 where hasNoTunnel, 61 where hasNoTunnel, 100 where hasNoTunnel:
                return (.proxyFailed, "the proxy's response could not be parsed")
            case 90: return (.tlsFailed, "the server's public key is not one of the pinned keys")
            default: break
            }
            let isOther = [1, 2, 4, 42, 48, 99].contains(code) || !isHTTPS && !Self.tlsCodes.contains(code)
            return isOther ? (.transportFailed, "libcurl failed with code \(code)") : securingFailed
        }

        private var noConnection: String {
            switch systemError {
            case ECONNREFUSED: "the connection was refused"
            case ENETUNREACH: "the network cannot be reached"
            case EHOSTUNREACH: "the host cannot be reached"
            default: "no connection could be made"
            }
        }

        private var securingFailed: (RequestError.Code, String) {
            if code == 35, isLost || isHandshakeCut {
                return (.connectionLost, "the connection was lost in the TLS handshake")
            }
            // Without its answer, the proxy itself may be the one that does not speak TLS.
            return goesThroughProxy && proxyStatusCode == 0
                ? (.tlsFailed, "no trusted connection to the proxy, or through it, could be made")
                : (.tlsFailed, "no trusted connection could be made")
        }

        private static let lossCodes: Set<CURLcode> = [16, 18, 52, 55, 56, 92, 95]
        private static let tlsCodes: Set<CURLcode> = [35, 53, 54, 58, 59, 60, 66, 77, 80, 82, 83, 90, 91, 98]

        private var meaningAfterSending: (RequestError.Code, String) {
            let hasHead = stage == .receiving
            switch code {
            // A reused connection was dead, and libcurl could not open a new one.
            case 5, 6, 7, Self.timedOut, 97:
                return (.connectionLost, "the connection was lost, and no other could be made")
            case 52: return (.connectionLost, "the connection was closed before a response")
            case 18: return (.connectionLost, "the connection was closed in the middle of the response")
            case 55: return (.connectionLost, "the connection was lost while sending")
            // Over plain HTTP, code 56 without a system error means that the framing is invalid.
            case 56 where !isLost && hasHead && !isHTTPS: return (.badResponse, "the body of the response is malformed")
            case 56: return (.connectionLost, "the connection was lost")
            case 16, 92, 95: return (.connectionLost, "the server ended the stream")
            case 65: return (.connectionLost, "the connection was lost, and the body cannot be sent again")
            case Self.outOfMemory where !hasHead:
                return (.badResponse, "a line of the response's header is longer than 100 KiB, libcurl's limit")
            case 100 where !hasHead: return (.badResponse, "the header of the response is too large")
            // 43 means an invalid trailer.
            case 1, 8, 43, 61, 100: return (.badResponse, "the response could not be parsed")
            case _ where Self.tlsCodes.contains(code): return securingFailed
            default: return (.transportFailed, "libcurl failed with code \(code)")
            }
        }
    }

    extension CurlTransfer {
        func error(of code: CURLcode, _ handle: CurlHandle) -> RequestError {
            // Without a pre-request callback, a connection may mean that the request was sent.
            let mayBeSent = !handle.asksBeforeSending && handle.number(CURLINFO_PRETRANSFER_TIME_T) > 0
            let wasSent = timesSent > 0 || mayBeSent
            let system = Int32(clamping: handle.number(CURLINFO_OS_ERRNO))
            // The error number of `socket()` counts: other code may have released descriptors since then.
            let problem = place.socketError != 0 ? place.socketError : system
            // Name lookup and certificate loading need several descriptors and leave no error number. Any other
            // transfer needs one socket.
            let isPlain = !request.isHTTPS && code != 5 && code != 6
            if !wasSent, !hasHead, let descriptorLimit = RequestError.shortage(problem, needing: isPlain ? 1 : 4) {
                return descriptorLimit
            }
            let failure = CurlFailure(
                code: code, stage: hasHead ? .receiving : wasSent ? .waiting : .connecting, isHTTPS: request.isHTTPS,
                goesThroughProxy: handle.goesThroughProxy, isTimeOver: isTimeOver,
                isRequestTooLarge: [CurlFailure.outOfMemory, 100].contains(code) && request.headerBytes > 1_000_000,
                isHandshakeCut: place.handshake.isCut, isRefusedByAlert: place.handshake.isRefused,
                hasBegunHandshake: place.handshake.hasBegun, proxyStatusCode: handle.number(CURLINFO_HTTP_CONNECTCODE),
                systemError: system)
            let (kind, what) = failure.meaning
            let said = handle.message(of: request)
            let text = said.isEmpty ? CurlLibrary.message(of: code) : said
            // For an invalid trailer (43) libcurl's text is about an argument, and for a long header about memory.
            let shown = [43, CurlFailure.outOfMemory].contains(code) && said.isEmpty ? what : "\(what) (\(text))"
            // A failed name lookup (5 for a proxy, 6) sets no error number, so `system` is about something else.
            let number = [5, 6].contains(code) ? nil : POSIXErrorCode(rawValue: system)
            let underlying = number.map { POSIXError($0) as any Error }
            return RequestError(
                kind, shown, underlying: underlying ?? CurlError(code: Int(code), message: text),
                isRetryable: kind == .proxyFailed ? failure.proxyStatusCode == 0 && ![94, 97].contains(code) : nil)
        }

        func isTimeOver(_ code: CURLcode) -> Bool { code == CurlFailure.timedOut && isTimeOver }

        private var isTimeOver: Bool {
            // libcurl's timers fire up to a millisecond early. Two milliseconds leave a margin.
            timeLeft.map { $0 <= .milliseconds(2) } ?? false
        }
    }

    extension PreparedRequest {
        fileprivate var headerBytes: Int {
            headerFields.reduce(url.absoluteString.utf8.count) { $0 + $1.name.utf8.count + $1.value.utf8.count }
        }
    }

    // No error code of libcurl shows which requests a server has not processed. The texts exist since libcurl 7.88.
    // With a version that uses other texts, such a request fails instead of being sent again.
    enum CurlLogLine: Equatable {
        case stream(Int)
        /// The server processes no stream above this one (RFC 9113, section 6.8); graceful with the error code
        /// `NO_ERROR`.
        case goAway(lastStream: Int, isGraceful: Bool)
        /// The server has not processed the request (RFC 9113, section 8.7).
        case refused
        /// The server takes the request only over HTTP/1.1 (RFC 9113, section 7), and has not processed it. libcurl
        /// then repeats it so.
        case downgrade
        /// The connection was dead, and libcurl looks for another.
        case retry
        case closing
        /// libcurl keeps too many connections. The next one that it closes is the oldest, not the request's own.
        case closesOldest
        case environmentProxy

        private static let beginnings: [(text: String, line: CurlLogLine?)] = [
            ("Uses proxy env variable no_proxy", nil), ("Uses proxy env variable NO_PROXY", nil),
            ("Uses proxy env variable ", .environmentProxy), ("Downgrades to HTTP/1.1", .downgrade),
            ("REFUSED_STREAM, retrying", .refused), ("Connection died, retrying", .retry),
            ("Closing connection", .closing), ("Connection cache is full", .closesOldest),
        ]

        init?(_ text: UnsafeRawBufferPointer) {
            // A fast check comes first, because most of the many log lines match none of these.
            guard let first = text.first, "[rCDRU".utf8.contains(first) else { return nil }
            let words = String(decoding: text.prefix(128), as: UTF8.self)
            func number(after prefix: String) -> Int? {
                words.range(of: prefix).flatMap { Int(words[$0.upperBound...].prefix { $0.isASCII && $0.isNumber }) }
            }
            if words.hasPrefix("[") || words.hasPrefix("Using Stream ID: ") {
                let prefix = words.contains("] OPENED stream") ? "[HTTP/2] [" : "Using Stream ID: "
                guard words.hasPrefix(prefix), let stream = number(after: prefix) else { return nil }
                self = .stream(stream)
            } else if words.hasPrefix("r") {
                // Some versions of libcurl misspell "received" as "recveived".
                guard words.contains("ved GOAWAY, "), let last = number(after: "last_stream=") else { return nil }
                self = .goAway(lastStream: last, isGraceful: words.contains("error=0,"))
            } else {
                guard let line = Self.beginnings.first(where: { words.hasPrefix($0.text) })?.line else { return nil }
                self = line
            }
        }
    }
#endif
