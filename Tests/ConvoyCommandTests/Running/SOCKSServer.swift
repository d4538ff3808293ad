import Convoy
import Foundation
import Testing

@testable import ConvoyCommand

#if os(Linux)
    /// A SOCKS5 proxy on 127.0.0.1 that responds to HTTP requests itself, in place of every host.
    final class SOCKSServer: Sendable {
        private let descriptor: Int32
        private let asked = Locked<[String]>([])
        let port: Int

        /// The requested host of each connection, and the first line of the data sent to it.
        var requests: [String] { asked.withLock { $0 } }

        init() throws {
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
            self.descriptor = descriptor
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let isListening = withUnsafeMutableBytes(of: &address) { bytes in
                bytes.withMemoryRebound(to: sockaddr.self) { addresses in
                    bind(descriptor, addresses.baseAddress, length) == 0 && listen(descriptor, 8) == 0
                        && getsockname(descriptor, addresses.baseAddress, &length) == 0
                }
            }
            try #require(isListening, "no loopback address")
            port = Int(UInt16(bigEndian: address.sin_port))
            Thread { [asked] in
                while case let client = accept(descriptor, nil, nil), client >= 0 {
                    var bound = timeval(tv_sec: 30, tv_usec: 0)
                    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &bound, socklen_t(MemoryLayout<timeval>.size))
                    if let request = Self.serve(client) { asked.withLock { $0.append(request) } }
                    close(client)
                }
                close(descriptor)
            }.start()
        }

        deinit { shutdown(descriptor, Int32(SHUT_RDWR)) }

        private static func serve(_ client: Int32) -> String? {
            func read(_ count: Int) -> [UInt8]? {
                var bytes = [UInt8](repeating: 0, count: count)
                return recv(client, &bytes, count, Int32(MSG_WAITALL)) == count ? bytes : nil
            }
            func write(_ bytes: [UInt8]) { _ = send(client, bytes, bytes.count, Int32(MSG_NOSIGNAL)) }
            guard let hello = read(2), read(Int(hello[1])) != nil else { return nil }
            write([5, 0])
            guard let request = read(4) else { return nil }
            let isName = request[3] == 3
            guard let length = isName ? read(1).map({ Int($0[0]) }) : 4, let host = read(length), read(2) != nil else {
                return nil
            }
            write([5, 0, 0, 1, 0, 0, 0, 0, 0, 0])
            var head: [UInt8] = []
            while !head.suffix(4).elementsEqual([13, 10, 13, 10]), let byte = read(1) { head += byte }
            write(Array("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello".utf8))
            let name = isName ? String(decoding: host, as: UTF8.self) : host.map { "\($0)" }.joined(separator: ".")
            return name + " " + String(decoding: head.prefix { $0 != 13 }, as: UTF8.self)
        }
    }
#endif
