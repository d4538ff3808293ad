// Bytes that arrive on an idle connection.
#if canImport(CLibcurl)
    import Foundation

    /// The sockets of connections that have been kept for the next request.
    ///
    /// libcurl takes a connection with bytes waiting for a good one, and the bytes for the beginning of the next answer: a
    /// server that sends more than its answer would answer the next request with it (RFC 9112, section 6.3). Not every
    /// version sees that the server has closed a connection, on which a POST would be lost. So a connection is looked at
    /// just before a request goes out on it.
    struct KeptConnections {
        /// A connection by what libcurl tells of one that is about to be used.
        struct Key: Hashable {
            let remoteAddress: String
            let remotePort: Int32
            let localPort: Int32
        }

        private var sockets: [Key: Int32] = [:]
        /// The same the other way round: a number that is used again has lost its connection.
        private var connections: [Int32: Key] = [:]

        /// Remembers the socket of a connection whose transfer has ended.
        mutating func note(_ connection: Key, socket: Int32) {
            guard connection.localPort > 0, socket >= 0 else { return }
            // So that there are never more than the process has descriptors.
            if let old = connections.updateValue(connection, forKey: socket), old != connection { sockets[old] = nil }
            // The port may have been another socket's.
            if let old = sockets.updateValue(socket, forKey: connection), old != socket { connections[old] = nil }
        }

        /// Whether bytes, or the end, wait on a connection.
        ///
        /// - Parameter isQuiet: whether it is known of a socket that neither does.
        func isUnusable(_ connection: Key, unless isQuiet: (Int32) -> Bool) -> Bool {
            guard let socket = sockets[connection], !isQuiet(socket) else { return false }
            var byte: UInt8 = 0
            let count = recv(socket, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT))
            // The number may have become another socket's since: then its port is another too.
            return (count >= 0 || errno == ECONNRESET) && Self.localPort(of: socket) == connection.localPort
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
