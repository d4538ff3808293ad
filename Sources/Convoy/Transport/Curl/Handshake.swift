// What is seen of TLS handshakes while a connection is made.
#if canImport(CLibcurl)
    import Foundation

    /// What is seen of a TLS handshake.
    ///
    /// For a connection that ends in the middle of it libcurl has the same code as for a refusal.
    struct Handshake {
        /// Those that were opened, in order.
        var sockets: [Int32] = []
        var hasBegun = false
        /// One side has said why it ends it.
        var hasAlert = false
        /// The server has sent a fatal alert, perhaps after the handshake: TLS 1.3 asks for certificates late.
        var isRefused = false
        /// Nothing more will come.
        var isAtEnd = false
        /// What the last one has agreed on: that with the server, where one with a proxy came first.
        var session: TLSSession?

        var isCut: Bool { hasBegun && !hasAlert && isAtEnd }

        mutating func noteAlert(isOwn: Bool, isFatal: Bool) {
            if !isOwn, isFatal { isRefused = true }
            if isOwn { look() }
            // Newer versions of OpenSSL answer the end of a connection with one.
            if !isOwn || !isAtEnd { hasAlert = true }
        }

        /// Looks whether a connection has ended; only until the request has been sent.
        mutating func look() {
            var byte: UInt8 = 0
            isAtEnd = isAtEnd || sockets.contains { recv($0, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) == 0 }
        }
    }

    /// What a TLS handshake has agreed on, as libcurl says it inline: of no other way its versions have in common.
    ///
    /// A pure value, for people only. Where a libcurl has other words, nothing is known.
    struct TLSSession: Equatable {
        /// `1.3`, say.
        var version: String
        /// As the TLS library calls it.
        var cipher: String

        /// Reads `SSL connection using TLSv1.3 / TLS_AES_256_GCM_SHA384`; newer versions of libcurl say more behind it, and
        /// GnuTLS writes `TLS1.3`.
        init?(_ text: UnsafeRawBufferPointer) {
            // Most log lines are none of these, and there are many.
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
