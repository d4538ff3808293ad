// Listeners that the test server cannot provide.
#if canImport(CLibcurl)
    import Foundation
    import Testing

    /// A port on 127.0.0.1 that does not answer SYN, because its accept queue is full.
    final class BlackHole: Sendable {
        let port: Int
        private let descriptors: [Int32]

        init() throws {
            let (listener, port) = try LoopbackSocket.bound()
            self.port = port
            // One connection fills the queue of length zero. The last client hangs, which shows that the queue is
            // full.
            let clients = try (0..<4).map { _ in try LoopbackSocket.unbound(AF_INET) }
            descriptors = [listener] + clients
            try #require(listen(listener, 0) == 0)
            for client in clients {
                _ = fcntl(client, F_SETFL, fcntl(client, F_GETFL) | O_NONBLOCK)
                _ = LoopbackSocket.withAddress(port: port) { connect(client, $0, $1) }
            }
            var last = pollfd(fd: clients[3], events: Int16(POLLOUT), revents: 0)
            try #require(poll(&last, 1, 0) == 0)
        }

        deinit { for descriptor in descriptors { close(descriptor) } }
    }

    /// A server on [::1] that sends one response to each connection.
    ///
    /// The same port of 127.0.0.1 refuses connections.
    final class IPv6OnlyServer: Sendable {
        let port: Int
        private let listener: Int32
        private let refusing: Int32

        /// Returns nil without IPv6.
        init?(answering answer: String) throws {
            (refusing, port) = try LoopbackSocket.bound()
            guard let listener = LoopbackSocket.listeningOnIPv6(port: port) else {
                close(refusing)
                return nil
            }
            self.listener = listener
            Thread.detachNewThread {
                while true {
                    let connection = accept(listener, nil, nil)
                    guard connection >= 0 else { break }
                    var request = Data()
                    var buffer = [UInt8](repeating: 0, count: 4_096)
                    while request.range(of: Data("\r\n\r\n".utf8)) == nil {
                        let count = recv(connection, &buffer, buffer.count, 0)
                        guard count > 0 else { break }
                        request.append(contentsOf: buffer[..<count])
                    }
                    _ = answer.withCString { send(connection, $0, strlen($0), Int32(MSG_NOSIGNAL)) }
                    close(connection)
                }
                close(listener)
            }
        }

        deinit {
            // Wakes the accepting thread, which closes the listener. Closing it here could let another socket reuse
            // the descriptor.
            shutdown(listener, Int32(SHUT_RDWR))
            close(refusing)
        }
    }

    enum LoopbackSocket {
        static func unbound(_ family: Int32) throws -> Int32 {
            let descriptor = socket(family, Int32(SOCK_STREAM.rawValue), 0)
            guard descriptor >= 0 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            return descriptor
        }

        /// A bound socket on a free port of 127.0.0.1.
        static func bound() throws -> (descriptor: Int32, port: Int) {
            let descriptor = try unbound(AF_INET)
            try #require(withAddress(port: 0) { bind(descriptor, $0, $1) } == 0)
            var address = sockaddr_in()
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let isNamed = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) == 0 }
            }
            try #require(isNamed)
            return (descriptor, Int(UInt16(bigEndian: address.sin_port)))
        }

        static func listeningOnIPv6(port: Int) -> Int32? {
            guard let descriptor = try? unbound(AF_INET6) else { return nil }
            var address = sockaddr_in6()
            address.sin6_family = sa_family_t(AF_INET6)
            address.sin6_port = UInt16(port).bigEndian
            _ = inet_pton(AF_INET6, "::1", &address.sin6_addr)
            let length = socklen_t(MemoryLayout<sockaddr_in6>.size)
            let isBound = withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, length) == 0 }
            }
            guard isBound, listen(descriptor, 16) == 0 else {
                close(descriptor)
                return nil
            }
            return descriptor
        }

        static func withAddress(port: Int, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = UInt16(port).bigEndian
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            return withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
        }
    }
#endif
