// Tests connections that end before a response or a handshake is complete.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

#if canImport(CLibcurl)
    /// Tests which ends ``CurlTransport`` reports as a lost connection, not as a final fault of the server.
    @Suite struct ConnectionLossTests {
        enum Handshake: CaseIterable, Sendable {
            case closedAtOnce
            case closedAfterTheClientsHello
            case closedInTheServersHello
        }

        @Test(arguments: Handshake.allCases, [ConnectionOptions.HTTPVersion.automatic, .http1])
        func connectionClosedInTheHandshakeIsLost(
            _ handshake: Handshake, _ version: ConnectionOptions.HTTPVersion
        ) async throws {
            let server = try LoopbackListener { connection in
                if handshake == .closedAtOnce { return }
                _ = connection.read()
                // The bytes are the start of a record with a hello.
                if handshake == .closedInTheServersHello {
                    connection.write(Data([0x16, 3, 3, 0, 0x7A, 2, 0, 0, 0x76]))
                }
            }
            defer { server.shutDown() }
            let error = try await error(of: server, version)
            #expect(error.code == .connectionLost, "\(error)")
            #expect(error.isRetryable)
        }

        /// The server gives a reason before it closes the connection.
        @Test func alertInTheHandshakeIsTLSFailed() async throws {
            let server = try LoopbackListener { connection in
                _ = connection.read()
                // The bytes are a fatal alert: handshake_failure.
                connection.write(Data([0x15, 3, 3, 0, 2, 2, 40]))
            }
            defer { server.shutDown() }
            let error = try await error(of: server, .automatic)
            #expect(error.code == .tlsFailed, "\(error)")
            #expect(!error.isRetryable)
        }

        /// The server does not speak TLS at all.
        @Test func plainAnswerToAHandshakeIsTLSFailed() async throws {
            let server = try LoopbackListener { connection in
                _ = connection.read()
                connection.write("HTTP/1.1 400 Bad Request\r\n\r\n")
            }
            defer { server.shutDown() }
            let error = try await error(of: server, .automatic)
            #expect(error.code == .tlsFailed, "\(error)")
        }

        @Test(arguments: [3, 9, 12, 15, 17, 25, 35, 37])
        func headCutByACloseIsALoss(_ count: Int) async throws {
            let server = try TestServer()
            defer { server.shutDown() }
            let bytes = "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n"
            server.respond { _ in .raw(String(bytes.prefix(count))) }
            let error = try await Sending(Request<Data>.get(server.url()), over: CurlTransport.shared).error()
            #expect(error.code == .connectionLost, "\(error)")
            #expect(error.isRetryable)
        }

        private func error(
            of server: LoopbackListener, _ version: ConnectionOptions.HTTPVersion
        ) async throws -> RequestError {
            var options = try ConnectionOptions.trustingTestAuthority()
            options.httpVersion = version
            let request = Request<Data>.get("https://127.0.0.1:\(server.port)/")
            return try await Sending(request, over: CurlTransport(options)).error()
        }
    }
#endif
