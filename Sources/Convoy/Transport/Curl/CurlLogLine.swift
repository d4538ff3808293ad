// Facts that libcurl reports only in log lines.
#if canImport(CLibcurl)
    import Foundation

    /// A log line of libcurl about the connection of a request.
    ///
    /// Together, these lines show which requests a server has not processed. No error code of libcurl reports this.
    ///
    /// The texts that ``init(_:)`` reads exist since libcurl 7.88. With a version that uses other texts, such a request
    /// fails instead of being sent again.
    enum CurlLogLine: Equatable {
        /// libcurl has opened this stream for the request.
        case stream(Int)
        /// The server ends the connection, and processes no stream above this one (RFC 9113, section 6.8).
        ///
        /// The end is graceful if the GOAWAY has the error code `NO_ERROR`.
        case goAway(lastStream: Int, isGraceful: Bool)
        /// The server has not processed the request (RFC 9113, section 8.7).
        case refused
        /// The server takes the request only over HTTP/1.1 (RFC 9113, section 7), and has not processed it.
        ///
        /// libcurl then repeats the request over HTTP/1.1.
        case downgrade
        /// The connection was dead, and libcurl looks for another.
        case retry
        /// libcurl closes a connection at the end of the request.
        case closing
        /// libcurl keeps too many connections. The next one that it closes is the oldest, not the request's own.
        case closesOldest
        /// libcurl takes the proxy for the request from a variable of the environment.
        case environmentProxy

        init?(_ text: UnsafeRawBufferPointer) {
            // A fast check comes first, because most of the many log lines match none of these.
            switch text.first {
            case UInt8(ascii: "U"):
                if let number = Self.number(in: text, after: "Using Stream ID: ") {
                    self = .stream(number)
                } else if Self.hasPrefix(text, "Uses proxy env variable "),
                    !Self.hasPrefix(text, "Uses proxy env variable no_proxy"),
                    !Self.hasPrefix(text, "Uses proxy env variable NO_PROXY")
                {
                    self = .environmentProxy
                } else {
                    return nil
                }
            case UInt8(ascii: "["):
                let words = String(decoding: text.prefix(64), as: UTF8.self)
                guard words.hasPrefix("[HTTP/2] ["), words.contains("] OPENED stream"),
                    let number = Self.number(in: text, after: "[HTTP/2] [")
                else { return nil }
                self = .stream(number)
            case UInt8(ascii: "r"):
                // Some versions of libcurl misspell "received" as "recveived".
                let words = String(decoding: text.prefix(128), as: UTF8.self)
                guard words.contains("ved GOAWAY, "), let range = words.range(of: "last_stream="),
                    let number = Int(words[range.upperBound...].prefix { $0.isASCII && $0.isNumber })
                else { return nil }
                self = .goAway(lastStream: number, isGraceful: words.contains("error=0,"))
            case UInt8(ascii: "D"):
                guard Self.hasPrefix(text, "Downgrades to HTTP/1.1") else { return nil }
                self = .downgrade
            case UInt8(ascii: "R"):
                guard Self.hasPrefix(text, "REFUSED_STREAM, retrying") else { return nil }
                self = .refused
            case UInt8(ascii: "C"):
                if Self.hasPrefix(text, "Connection died, retrying") {
                    self = .retry
                } else if Self.hasPrefix(text, "Closing connection") {
                    self = .closing
                } else if Self.hasPrefix(text, "Connection cache is full") {
                    self = .closesOldest
                } else {
                    return nil
                }
            default: return nil
            }
        }

        private static func hasPrefix(_ text: UnsafeRawBufferPointer, _ prefix: StaticString) -> Bool {
            guard let start = text.baseAddress, text.count >= prefix.utf8CodeUnitCount else { return false }
            return memcmp(start, prefix.utf8Start, prefix.utf8CodeUnitCount) == 0
        }

        private static func number(in text: UnsafeRawBufferPointer, after prefix: StaticString) -> Int? {
            guard hasPrefix(text, prefix) else { return nil }
            let digits = text.dropFirst(prefix.utf8CodeUnitCount).prefix { (0x30...0x39).contains($0) }
            return Int(String(decoding: digits, as: UTF8.self))
        }
    }
#endif
