// What a server says when nobody has asked.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// The sockets of connections that have been kept for the next request.
    ///
    /// libcurl takes a connection with bytes waiting for a good one, and the bytes for the beginning of the next answer: a
    /// server that sends more than its answer would answer the next request with it (RFC 9112, section 6.3). A connection
    /// is looked at just before a request goes out on it.
    struct KeptConnections {
        /// By local port, which is what libcurl tells of a connection that is about to be used.
        private var sockets: [Int32: Int32] = [:]

        /// Remembers the connection of a transfer that has ended.
        mutating func note(_ handle: CurlHandle) {
            let port = Int32(clamping: handle.long(CurlInfo.localPort))
            let socket = handle.activeSocket
            if port > 0, socket >= 0 { sockets[port] = socket }
        }

        /// Whether bytes wait on the connection with a local port.
        func hasUnreadInput(onPort port: Int32) -> Bool {
            guard let socket = sockets[port] else { return false }
            var byte: UInt8 = 0
            // The number may have become another socket's since: then its port is another too.
            return recv(socket, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) > 0
                && Self.localPort(of: socket) == port
        }

        private static func localPort(of socket: Int32) -> Int32? {
            var address = sockaddr_storage()
            var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
            let isKnown = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(socket, $0, &length) == 0 }
            }
            guard isKnown else { return nil }
            // At the same place for IPv4 and IPv6.
            return withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                    Int32(UInt16(bigEndian: $0.pointee.sin_port))
                }
            }
        }
    }
#endif
