import Foundation

/// A bound port of 127.0.0.1 that the system gives to no other socket.
///
/// A program that sets `SO_REUSEADDR`, such as `openssl` and `nginx`, can listen at a port that refuses. Keep this value
/// while that program runs.
package final class LoopbackPort: Sendable {
    private let descriptor: Int32
    package let port: Int

    package static func refusing() throws -> LoopbackPort { try LoopbackPort(listens: false) }

    /// A port at which the system accepts connections and no program answers.
    package static func silent() throws -> LoopbackPort { try LoopbackPort(listens: true) }

    private init(listens: Bool) throws {
        #if canImport(Darwin)
            descriptor = socket(AF_INET, SOCK_STREAM, 0)
        #else
            descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        #endif
        var isReusable: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &isReusable, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = descriptor
        let isBound = withUnsafeMutablePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
                    && (!listens || listen(descriptor, 8) == 0)
            }
        }
        port = Int(UInt16(bigEndian: address.sin_port))
        guard isBound else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
    }

    deinit { close(descriptor) }
}
