import Testing

@testable import Convoy

#if canImport(CLibcurl)
    /// Tests which requests to a server wait for the connection of another request.
    @Suite struct SharedConnectionsTests {
        private let options = ConnectionOptions()
        private let first = KeptConnections.Key(remoteAddress: "127.0.0.1", remotePort: 443, localPort: 1)

        private func transfers(_ count: Int) throws -> [CurlTransfer] {
            let engine = CurlEngine(options)
            return try (0..<count).map { _ in
                let request = try PreparedRequest(Request<String>.get("https://localhost/").core, baseURL: nil)
                return CurlTransfer(request, client: RecordingClient(), engine: engine)
            }
        }

        /// No request waits for a server that cannot be reached.
        ///
        /// A server that is reachable again counts as a new server.
        @Test func aFailedConnectionIsForgottenWhenAllHasEnded() throws {
            let all = try transfers(2)
            var connections = SharedConnections()
            #expect(connections.mayBegin(all[0]) == true)
            #expect(connections.wait(all[1]) == true)
            #expect(connections.leave(all[0], nil, hasFailed: true).count == 1)
            for transfer in all { #expect(connections.mayBegin(transfer) == true) }
            _ = connections.arrive(all[1], on: first)
            _ = connections.leave(all[1], first, hasFailed: false)
            #expect(connections.mayBegin(all[0]) == true)
            #expect(connections.mayBegin(all[1]) == false)
        }
    }

    /// Tests the records of kept connections.
    @Suite struct KeptConnectionsTests {
        @Test func nothingIsKeptOfConnectionsWhoseDescriptorIsAnothers() throws {
            var kept = KeptConnections()
            for index in 0..<50_000 {
                let connection = KeptConnections.Key(
                    remoteAddress: "127.0.0.1", remotePort: 80, localPort: Int32(1_024 + index))
                kept.note(connection, socket: Int32(10 + index % 7))
            }
            // The same port is used again, with another descriptor.
            kept.note(.init(remoteAddress: "127.0.0.1", remotePort: 80, localPort: 51_023), socket: 99)
            let tables = Mirror(reflecting: kept).children.map(\.value)
            #expect(!tables.isEmpty)
            for table in tables { #expect(Mirror(reflecting: table).children.count <= 8) }
        }
    }
#endif
