// Tests names for which the caller gives the addresses.
#if canImport(CLibcurl)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    @Suite struct HostOverrideTests {
        private func transport(_ overrides: ConnectionOptions.HostOverride...) throws(RequestError) -> CurlTransport {
            var options = ConnectionOptions()
            options.hostOverrides = overrides
            // No proxy is used, because a proxy would look up the name.
            options.proxy = .direct
            return try CurlTransport(options)
        }

        @Test func aHostIsFoundAtTheAddressThatIsGiven() async throws {
            let server = try TestServer()
            defer { server.shutDown() }
            server.route("/a") { _ in Reply.status(200, body: "found") }
            let port = try #require(server.url("/").port)
            let url = "http://api.convoy.invalid:\(port)/a"
            let transport = try transport(.init("API.convoy.invalid", port: port, addresses: ["127.0.0.1"]))
            let response = try await Sending(Request<String>.get(url), over: transport).response()
            #expect(response.value == "found")
            #expect(try await server.takeRequest().value(of: "Host") == "api.convoy.invalid:\(port)")
            // Other transports share neither the address nor the connection.
            let error = try await Sending(Request<String>.get(url), over: self.transport()).error()
            #expect(error.code == .connectionFailed)
        }

        @Test func anotherPortOfTheHostIsLookedUp() async throws {
            let transport = try transport(.init("api.convoy.invalid", port: 9, addresses: ["127.0.0.1"]))
            let error = try await Sending(Request<String>.get("http://api.convoy.invalid:10/"), over: transport).error()
            #expect(error.code == .connectionFailed)
            #expect(error.message.lowercased().contains("resolve"), "\(error.message)")
        }

        @Test(arguments: [
            ConnectionOptions.HostOverride("", addresses: ["127.0.0.1"]),
            .init("*", addresses: ["127.0.0.1"]), .init("-a", addresses: ["127.0.0.1"]),
            .init("a:80", addresses: ["127.0.0.1"]), .init("a", port: 0, addresses: ["127.0.0.1"]),
            .init("a", port: 65_536, addresses: ["127.0.0.1"]), .init("a", addresses: []),
            .init("a", addresses: ["127.0.0.1", "b.example"]), .init("a", addresses: ["1.2.3"]),
            .init("a", addresses: ["127.0.0.1,10.0.0.1"]), .init("a", addresses: ["127.0.0.1\0"]),
        ])
        func invalidNamesAndAddressesAreRefused(override: ConnectionOptions.HostOverride) throws {
            let error = try #require(throws: RequestError.self) { try transport(override) }
            #expect(error.message.contains("hostOverrides"), "\(error.message)")
        }

        @Test(arguments: ["::1", "[::1]", "10.0.0.1"])
        func bothKindsOfAddressesAreAccepted(address: String) throws {
            _ = try transport(.init("a_b.c-d", port: 1, addresses: [address, "127.0.0.1"]))
        }
    }
#endif
