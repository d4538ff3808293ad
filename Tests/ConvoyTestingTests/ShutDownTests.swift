import ConvoyTesting
import Foundation
import Testing

@Suite struct ShutDownTests {
    @Test func shutDownReleasesStalledScriptsAndRefusesConnections() async throws {
        let server = try TestServer()
        let gate = Gate()
        server.route("/gate") { _ in .status(200).stalling(until: gate) }
        server.route("/pause") { _ in Reply(steps: [.pause(.seconds(600))]) }
        let stalled = try server.client("/gate")
        let paused = try server.client("/pause")
        let idle = try RawClient(server)
        try await gate.reached()
        try await server.requestsReceived(count: 2)
        try await server.connectionsAccepted(count: 3)
        server.shutDown()
        server.shutDown()
        for client in [stalled, paused, idle] { #expect(client.readToEnd().text == "") }
        #expect(server.openConnectionCount == 0)
        #expect(throws: POSIXError(.ECONNREFUSED)) { try RawClient(server) }
    }

    @Test func shutDownEndsAWriteThatNobodyReads() async throws {
        let server = try TestServer()
        server.enqueue(.generated(byteCount: 1 << 40))
        let client = try RawClient(server, receiveBufferBytes: 4_096)
        client.get("/")
        _ = try client.readHead()
        server.shutDown()
        #expect(server.openConnectionCount == 0)
    }

    @Test func serverThatIsLetGoShutsDown() throws {
        var server: TestServer? = try TestServer()
        let client = try RawClient(try #require(server))
        server = nil
        #expect(client.readToEnd().text == "")
    }

    #if os(Linux)
        /// Between fork and exec, a child process has a copy of the socket, which must not accept connections.
        @Test func aCopyOfTheSocketAcceptsNoConnections() throws {
            let server = try TestServer()
            let open = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap { Int32($0) }
            let copy = try #require(open.first { boundPort(of: $0) == server.port }.map(dup))
            defer { close(copy) }
            server.shutDown()
            #expect(throws: POSIXError(.ECONNREFUSED)) { try RawClient(server) }
        }

        private func boundPort(of descriptor: Int32) -> Int? {
            var (address, length) = (sockaddr_in(), socklen_t(MemoryLayout<sockaddr_in>.size))
            var (isListening, size) = (Int32(0), socklen_t(4))
            guard getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &isListening, &size) == 0, isListening == 1 else {
                return nil
            }
            let isNamed = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) == 0 }
            }
            return isNamed ? Int(UInt16(bigEndian: address.sin_port)) : nil
        }

        // The test needs its own process, because concurrent tests open descriptors and threads.
        @Test func descriptorsAndThreadsGoBack() async {
            await #expect(processExitsWith: .success) {
                func count(_ folder: String) throws -> Int {
                    try FileManager.default.contentsOfDirectory(atPath: folder).count
                }
                try exercise()  // what the first use of Foundation opens stays open
                let descriptors = try count("/proc/self/fd")
                let threads = try count("/proc/self/task")
                for _ in 0..<20 { try exercise() }
                #expect(try count("/proc/self/fd") == descriptors)
                // Linux may still list a thread that has ended, so the test waits for up to ten seconds.
                let end = ContinuousClock.now + .seconds(10)
                while try count("/proc/self/task") > threads, .now < end { sched_yield() }
                #expect(try count("/proc/self/task") <= threads)
            }
        }
    #endif
}

/// Runs one server with connections in every state: used, idle, stalled, reset.
private func exercise() throws {
    let server = try TestServer()
    server.route("/") { _ in .status(200, body: "x") }
    server.route("/stall") { _ in .status(200).stalling() }
    server.route("/reset") { _ in .status(200).resetting(afterBytes: 5) }
    let clients = try (0..<6).map { _ in try RawClient(server) }
    for client in clients {
        client.get("/")
        _ = try client.readResponse()
    }
    for client in clients.prefix(2) { client.get("/stall") }
    clients[5].get("/reset")
    _ = clients[5].readToEnd()
    clients[4].close()
    server.shutDown()
    for client in clients { client.close() }
}
