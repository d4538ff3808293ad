import Testing

@testable import Convoy

#if canImport(CLibcurl)
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
