import Foundation
import Testing

@testable import ConvoyTesting

#if os(Linux)
    /// An HTTP proxy on 127.0.0.1 that only connects to 127.0.0.1.
    ///
    /// It forwards one GET request for each connection, and opens tunnels for CONNECT.
    final class ProxyServer: Sendable {
        enum Mode: Sendable {
            case open
            /// Responds with 407 to missing or wrong credentials.
            case requiringCredentials(userName: String, password: String)
            /// Accepts connections and sends nothing.
            case silent
            case closing
        }

        private let listener: LoopbackListener
        private let log: EventLog<String>

        var port: Int { listener.port }
        var connectionCount: Int { listener.connectionCount }
        /// The heads of the received requests, without the empty line.
        var heads: [String] { log.events }

        /// The URL for ``ConnectionOptions/Proxy/server(_:userName:password:)`` and the environment.
        var url: URL {
            get throws { try #require(URL(string: "http://127.0.0.1:\(port)")) }
        }

        init(_ mode: Mode = .open) throws {
            let log = EventLog<String>()
            self.log = log
            listener = try LoopbackListener { Self.serve($0, mode, log) }
        }

        deinit { shutDown() }

        func shutDown() { listener.shutDown() }

        private static func serve(_ client: LoopbackConnection, _ mode: Mode, _ log: EventLog<String>) {
            if case .silent = mode { return client.readToEnd() }
            guard let head = client.readHead() else { return }
            log.record(head)
            switch mode {
            case .closing: return
            case .requiringCredentials(let userName, let password):
                let credentials = Data("\(userName):\(password)".utf8).base64EncodedString()
                guard head.fieldValue("Proxy-Authorization") == "Basic \(credentials)" else {
                    client.write(
                        "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"test\"\r\n"
                            + "Content-Length: 6\r\nConnection: close\r\n\r\ndenied")
                    return
                }
            case .open, .silent: break
            }
            let words = head.prefix { !$0.isNewline }.split(separator: " ").map(String.init)
            guard words.count == 3 else { return client.refuse("400 Bad Request") }
            if words[0] == "CONNECT" { tunnel(client, to: words[1]) } else { forward(head, words, client) }
        }

        private static func tunnel(_ client: LoopbackConnection, to authority: String) {
            let parts = authority.split(separator: ":")
            guard parts.first == "127.0.0.1", let port = parts.last.flatMap({ UInt16($0) }),
                let origin = LoopbackConnection(port: port)
            else { return client.refuse("502 Bad Gateway") }
            client.write("HTTP/1.1 200 Connection established\r\n\r\n")
            let isCopied = DispatchSemaphore(value: 0)
            Thread {
                origin.copy(from: client)
                isCopied.signal()
            }.start()
            client.copy(from: origin)
            isCopied.wait()
        }

        private static func forward(_ head: String, _ words: [String], _ client: LoopbackConnection) {
            guard words[0] == "GET", let url = URL(string: words[1]), url.host == "127.0.0.1",
                let port = url.port.flatMap(UInt16.init(exactly:)), let origin = LoopbackConnection(port: port)
            else { return client.refuse("502 Bad Gateway") }
            let target = words[1].components(separatedBy: ":\(port)").last ?? "/"
            // These credentials are for the proxy, which does not forward them (RFC 9110, section 11.7.2).
            let fields = head.components(separatedBy: "\r\n").dropFirst().filter {
                !$0.lowercased().hasPrefix("proxy-") && !$0.lowercased().hasPrefix("connection:")
            }
            let lines = ["GET \(target) HTTP/1.1"] + fields + ["Via: 1.1 test", "Connection: close", "", ""]
            origin.write(lines.joined(separator: "\r\n"))
            // The proxy would not forward another request on this connection, so the response announces the end of
            // the connection.
            guard let answer = origin.readHead() else { return }
            client.write(answer.replacing("\r\n", with: "\r\nConnection: close\r\n", maxReplacements: 1) + "\r\n\r\n")
            client.copy(from: origin)
        }
    }

    /// Listens on a loopback address, and serves every connection on its own thread.
    final class LoopbackListener: @unchecked Sendable {
        // @unchecked: `lock` guards all properties that change.
        private let lock = NSLock()
        private let socket: Descriptor
        private var connections: [ObjectIdentifier: LoopbackConnection] = [:]
        private var accepted = 0
        let port: Int

        var connectionCount: Int { lock.withLock { accepted } }

        /// Whether this machine has an IPv6 loopback address.
        static let canUseIPv6 = (try? LoopbackListener(isIPv6: true) { _ in }) != nil

        /// - Parameters:
        ///   - port: a port that a ``LoopbackPort`` reserves, or 0 for a free one.
        ///   - serve: handles a connection, which is closed when the function returns.
        init(isIPv6: Bool = false, port: Int = 0, serve: @escaping @Sendable (LoopbackConnection) -> Void) throws {
            let (number, port) = try Self.listen(isIPv6: isIPv6, port: UInt16(port))
            let socket = Descriptor(number)
            (self.socket, self.port) = (socket, port)
            Thread { [weak self] in
                while case let number = accept(socket.number, nil, nil), number >= 0 {
                    self?.serve(LoopbackConnection(number), serve)
                }
                socket.close()
            }.start()
        }

        /// Connects the first client to one loopback port, and later ones to the other.
        convenience init(firstTo first: Int, thenTo next: Int) throws {
            let clients = EventLog<Void>()
            try self.init { client in
                let port = clients.number(()) == 1 ? first : next
                guard let origin = LoopbackConnection(port: UInt16(clamping: port)) else { return }
                Thread { origin.copy(from: client) }.start()
                client.copy(from: origin)
            }
        }

        deinit { shutDown() }

        func shutDown() {
            // Wakes the accepting thread, which closes the descriptor.
            socket.shutDown(reading: true, writing: true)
            for connection in lock.withLock({ Array(connections.values) }) { connection.breakOff() }
        }

        private func serve(_ connection: LoopbackConnection, _ body: @escaping @Sendable (LoopbackConnection) -> Void) {
            lock.withLock {
                accepted += 1
                connections[ObjectIdentifier(connection)] = connection
            }
            Thread { [weak self] in
                body(connection)
                self?.lock.withLock { self?.connections[ObjectIdentifier(connection)] = nil }
                connection.close()
            }.start()
        }

        private static func listen(isIPv6: Bool, port: UInt16) throws -> (descriptor: Int32, port: Int) {
            let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
            let descriptor = Glibc.socket(isIPv6 ? AF_INET6 : AF_INET, type, 0)
            try #require(descriptor >= 0, "no socket")
            var isReusable: Int32 = 1
            setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &isReusable, socklen_t(MemoryLayout<Int32>.size))
            // The port has the same offset in both address structures.
            var address = sockaddr_in6()
            address.sin6_family = sa_family_t(AF_INET6)
            address.sin6_addr = in6addr_loopback
            address.sin6_port = port.bigEndian
            var length = socklen_t(MemoryLayout<sockaddr_in6>.size)
            let isListening = withUnsafeMutableBytes(of: &address) { bytes in
                if !isIPv6 {
                    bytes.storeBytes(of: .loopback(port: port), as: sockaddr_in.self)
                    length = socklen_t(MemoryLayout<sockaddr_in>.size)
                }
                return bytes.withMemoryRebound(to: sockaddr.self) { addresses in
                    bind(descriptor, addresses.baseAddress, length) == 0 && Glibc.listen(descriptor, 64) == 0
                        && getsockname(descriptor, addresses.baseAddress, &length) == 0
                }
            }
            if !isListening { close(descriptor) }
            try #require(isListening, "no loopback address")
            return (descriptor, Int(UInt16(bigEndian: address.sin6_port)))
        }
    }

    /// One end of a connection: one thread reads and one writes, and no wait exceeds 30 seconds.
    final class LoopbackConnection: @unchecked Sendable {
        // @unchecked: only the reader uses `rest`.
        private let socket: Descriptor
        private var rest = Data()

        private var descriptor: Int32 { socket.number }

        init(_ descriptor: Int32) {
            socket = Descriptor(descriptor)
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            var bound = timeval(tv_sec: 30, tv_usec: 0)
            for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
                _ = setsockopt(descriptor, SOL_SOCKET, option, &bound, socklen_t(MemoryLayout<timeval>.size))
            }
        }

        convenience init?(port: UInt16) {
            self.init(Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0))
            var address = sockaddr_in.loopback(port: port)
            let result = withUnsafeBytes(of: &address) { bytes in
                bytes.withMemoryRebound(to: sockaddr.self) {
                    connect(descriptor, $0.baseAddress, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            if result != 0 { return nil }
        }

        func close() { socket.close() }

        /// The next bytes; nil at the end.
        func read() -> Data? {
            if !rest.isEmpty {
                defer { rest = Data() }
                return rest
            }
            var buffer = [UInt8](repeating: 0, count: 1 << 14)
            let count = recv(descriptor, &buffer, buffer.count, 0)
            return count > 0 ? Data(buffer[..<count]) : nil
        }

        func readToEnd() { while read() != nil {} }

        /// The text before an empty line, which is consumed too; nil if the connection ends first.
        func readHead() -> String? {
            var head = Data()
            while head.range(of: Data("\r\n\r\n".utf8)) == nil {
                guard let more = read() else { return nil }
                head += more
            }
            guard let end = head.range(of: Data("\r\n\r\n".utf8)) else { return nil }
            rest = Data(head[end.upperBound...])
            return String(decoding: head[..<end.lowerBound], as: UTF8.self)
        }

        func write(_ text: String) { write(Data(text.utf8)) }

        func write(_ data: Data) { _ = data.withUnsafeBytes { socket.sendAll($0) } }

        /// Copies the bytes of another connection, including its end.
        func copy(from other: LoopbackConnection) {
            while let data = other.read() { write(data) }
            _ = shutdown(descriptor, Int32(SHUT_WR))
        }

        func refuse(_ status: String) {
            write("HTTP/1.1 \(status)\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        }

        /// Ends the connection; has no effect after closing, because the descriptor may be reused by then.
        func breakOff() { socket.shutDown(reading: true, writing: true) }
    }

    extension String {
        /// The value of a header field in a head.
        func fieldValue(_ name: String) -> String? {
            let field = components(separatedBy: "\r\n").first { $0.lowercased().hasPrefix(name.lowercased() + ":") }
            return field?.dropFirst(name.count + 1).trimmingCharacters(in: .whitespaces)
        }
    }

    extension sockaddr_in {
        fileprivate static func loopback(port: UInt16) -> sockaddr_in {
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = port.bigEndian
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            return address
        }
    }
#endif
