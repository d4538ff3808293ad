// A proxy that counts or drops the messages between clients and a PostgreSQL server.
import Convoy
import ConvoyPostgres
import ConvoyQueue
import Foundation

/// A proxy between stores and a server, with its own socket in its own directory.
final class PostgresProxy: Sendable {
    private struct State {
        var roundTripCount = 0
        /// Whether to drop the server's reply to the next request, together with the connection.
        var losesNextAnswer = false
    }

    private let listener: Int32
    private let directory: URL
    private let server: String
    private let state = Locked(State())

    init(to server: PostgresServer) throws {
        self.server = server.directory + "/.s.PGSQL.5432"
        directory = URL(filePath: "/tmp/convoy-proxy-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        guard Self.with(directory.path + "/.s.PGSQL.5432", { bind(listener, $0, $1) }) == 0, listen(listener, 16) == 0
        else { throw POSIXError(.EADDRINUSE) }
        let accepting = listener
        Thread.detachNewThread { [weak self] in
            while true {
                let client = accept(accepting, nil, nil)
                guard client >= 0 else {
                    // Only the shutdown by `deinit` (EINVAL) ends the loop. If another error closed the listener,
                    // `deinit` could shut down another socket with the same number.
                    if errno == EINVAL { break }
                    sched_yield()
                    continue
                }
                if let self, self.connect(client) { continue }
                close(client)
            }
            close(accepting)
        }
    }

    deinit {
        // Wakes the accepting thread, which closes the listener. Closing it here could let another socket reuse the
        // descriptor.
        shutdown(listener, Int32(SHUT_RDWR))
        try? FileManager.default.removeItem(at: directory)
    }

    /// The address of a database through the proxy.
    func address(_ database: String) -> String { PostgresServer.address(database, at: directory.path) }

    /// The number of round trips: client messages that are the first of a connection or follow a reply.
    var roundTripCount: Int { state.withLock { $0.roundTripCount } }

    /// Forwards the next request, but drops the server's reply.
    func loseNextAnswer() { state.withLock { $0.losesNextAnswer = true } }

    /// Connects a client to the server, with a thread that passes their messages on.
    ///
    /// Returns false if the server was not reached.
    private func connect(_ client: Int32) -> Bool {
        let upstream = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        guard Self.with(server, { Foundation.connect(upstream, $0, $1) }) == 0 else {
            close(upstream)
            return false
        }
        Thread.detachNewThread { [state] in
            var buffer = [UInt8](repeating: 0, count: 65_536)
            var (isAsked, isLost) = (false, false)
            while true {
                var waits = [client, upstream].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
                guard poll(&waits, 2, -1) > 0 else { continue }
                let isRequest = waits[0].revents != 0
                let count = read(isRequest ? client : upstream, &buffer, buffer.count)
                guard count > 0, isRequest || !isLost else { break }
                if isRequest, !isAsked {
                    isLost = state.withLock { state in
                        state.roundTripCount += 1
                        defer { state.losesNextAnswer = false }
                        return state.losesNextAnswer
                    }
                }
                isAsked = isRequest
                guard send(isRequest ? upstream : client, buffer, count, Int32(MSG_NOSIGNAL)) == count else { break }
            }
            close(client)
            close(upstream)
        }
        return true
    }

    private static func with(_ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8).prefix($0.count - 1)) }
        return withUnsafePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }
}
