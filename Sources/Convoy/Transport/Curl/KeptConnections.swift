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

            /// Hashes the local port, which alone distinguishes nearly all connections.
            func hash(into hasher: inout Hasher) { hasher.combine(localPort) }
        }

        private(set) var sockets: [Key: Int32] = [:]
        /// The connection of each socket in ``sockets``.
        ///
        /// If the system reuses a socket number, ``note(_:socket:)`` finds and removes the old connection here.
        private var connections: [Int32: Key] = [:]

        /// Records the socket of a connection whose transfer has ended.
        mutating func note(_ connection: Key, socket: Int32) {
            guard connection.localPort > 0, socket >= 0 else { return }
            // Removing the old connection limits the entries to the number of descriptors of the process.
            if let old = connections.updateValue(connection, forKey: socket), old != connection { sockets[old] = nil }
            // An earlier connection with the same ports may be stored with another socket. That socket is removed.
            if let old = sockets.updateValue(socket, forKey: connection), old != socket { connections[old] = nil }
        }

        /// Whether the server has sent bytes on an idle connection, or has closed it.
        static func isUnusable(_ connection: Key, _ socket: Int32) -> Bool {
            var byte: UInt8 = 0
            let count = recv(socket, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT))
            // The system may have given the socket number to another connection. The local ports then differ.
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
