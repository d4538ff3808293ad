// Observes TLS handshakes while a connection is made.
#if canImport(CLibcurl)
    import Foundation

    /// The observed progress of a TLS handshake.
    ///
    /// If a connection ends during the handshake, libcurl returns the same code as for a handshake that a side rejects.
    /// This type tells the two apart.
    struct Handshake {
        /// The opened sockets, in order.
        var sockets: [Int32] = []
        var hasBegun = false
        /// Whether one side has sent an alert.
        var hasAlert = false
        /// Whether the server has sent a fatal alert.
        ///
        /// With TLS 1.3 the alert may follow the handshake, because the server checks the client's certificate late.
        var isRefused = false
        /// Whether the connection has ended.
        var isAtEnd = false
        /// The session of the last handshake.
        ///
        /// The handshake with an HTTPS proxy precedes the handshake with the server.
        var session: TLSSession?

        var isCut: Bool { hasBegun && !hasAlert && isAtEnd }

        mutating func noteAlert(isOwn: Bool, isFatal: Bool) {
            if !isOwn, isFatal { isRefused = true }
            if isOwn { look() }
            // Newer versions of OpenSSL send an alert of their own when the connection ends. That alert does not count.
            if !isOwn || !isAtEnd { hasAlert = true }
        }

        /// Checks whether a connection has ended.
        ///
        /// Called for each alert of this side, and for log lines between the start of the handshake and the sending of
        /// the request.
        mutating func look() {
            var byte: UInt8 = 0
            isAtEnd = isAtEnd || sockets.contains { recv($0, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) == 0 }
        }
    }

    /// The result of a TLS handshake, read from libcurl's log lines.
    ///
    /// No other source exists in all versions of libcurl. The result is for display only, and missing if a version uses
    /// another text.
    struct TLSSession: Equatable {
        /// The version, such as `1.3`.
        var version: String
        /// The TLS library's name of the cipher.
        var cipher: String

        /// Parses `SSL connection using TLSv1.3 / TLS_AES_256_GCM_SHA384`.
        ///
        /// Newer versions of libcurl append more, and GnuTLS writes `TLS1.3`.
        init?(_ text: UnsafeRawBufferPointer) {
            // A fast check comes first, because most of the many log lines do not match.
            guard text.first == UInt8(ascii: "S") else { return nil }
            let prefix = "SSL connection using TLS"
            let words = String(decoding: text.prefix(256), as: UTF8.self)
            guard words.hasPrefix(prefix) else { return nil }
            let parts = words.dropFirst(prefix.count).split(separator: " / ").map {
                $0.trimmingCharacters(in: .whitespacesAndNewlines)
            }
            guard let first = parts.first else { return nil }
            version = String(first.drop { $0 == "v" })
            cipher = parts.dropFirst().first ?? ""
            let isVersion = version.allSatisfy { $0.isASCII && $0.isNumber || $0 == "." }
            guard isVersion, version.first?.isNumber == true, cipher != "(NONE)" else { return nil }
        }
    }
#endif
