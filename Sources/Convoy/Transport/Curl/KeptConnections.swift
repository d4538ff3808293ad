// Finds idle connections that must not be reused, because the server has sent bytes or has closed them.
#if canImport(CLibcurl)
    import Foundation

    /// The sockets of idle connections, which later requests may reuse.
    ///
    /// libcurl reuses a connection with unread bytes and reads them as the start of the next response. Extra bytes from
    /// a server would become the response to the next request (RFC 9112, section 6.3). Some versions of libcurl do not
    /// notice that the server has closed a connection, and a POST on it would be lost. So Convoy checks each connection
    /// just before a request is sent on it.
    struct KeptConnections {
        /// Identifies a connection by the data that libcurl reports before its use.
        struct Key: Hashable {
            let remoteAddress: String
            let remotePort: Int32
            let localPort: Int32

            /// The local port alone distinguishes nearly all connections.
            func hash(into hasher: inout Hasher) { hasher.combine(localPort) }
        }

        private(set) var sockets: [Key: Int32] = [:]
        /// The reverse map.
        ///
        /// When a socket number is reused, its old connection is removed.
        private var connections: [Int32: Key] = [:]

        /// Records the socket of a connection whose transfer has ended.
        mutating func note(_ connection: Key, socket: Int32) {
            guard connection.localPort > 0, socket >= 0 else { return }
            // Removing the old connection limits the entries to the number of descriptors of the process.
            if let old = connections.updateValue(connection, forKey: socket), old != connection { sockets[old] = nil }
            // Another socket may have had this port.
            if let old = sockets.updateValue(socket, forKey: connection), old != socket { connections[old] = nil }
        }

        /// Whether bytes or a close are waiting on a connection.
        static func isUnusable(_ connection: Key, _ socket: Int32) -> Bool {
            var byte: UInt8 = 0
            let count = recv(socket, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT))
            // Another socket may have received this number since it was recorded. Its port is then different.
            return (count >= 0 || errno == ECONNRESET) && localPort(of: socket) == connection.localPort
        }

        private static func localPort(of socket: Int32) -> Int32? {
            var address = sockaddr_storage()
            var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
            let isKnown = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(socket, $0, &length) == 0 }
            }
            guard isKnown else { return nil }
            // The port has the same offset for IPv4 and IPv6.
            return withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                    Int32(UInt16(bigEndian: $0.pointee.sin_port))
                }
            }
        }
    }
#endif
