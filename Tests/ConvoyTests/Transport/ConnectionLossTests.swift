import Convoy
// Tests connections that end before a response or a handshake is complete.
import ConvoyTesting
import Foundation
import Testing

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

#if canImport(CLibcurl)
    /// Tests the end of a body without a length over TLS: RFC 9112, section 9.8.
    @Suite(.timeLimit(.minutes(5))) struct CloseNotifyTests {
        private static let lengthless = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"

        // Sends a GET to a server that is killed when the complete body has arrived. The system closes the connection,
        // and no `close_notify` is sent.
        private func resultOfCut<Output: Sendable>(
            _ answer: String, _ change: (inout ConnectionOptions) -> Void = { _ in },
            _ complete: (Request<Data>) -> Request<Output>
        ) async throws -> RequestOperation<Output>.Result {
            let server = try await TLSServer(Certificates.shared.server, answer: answer)
            defer { server.shutDown() }
            var options = try ConnectionOptions.trustingTestAuthority()
            change(&options)
            var arrived: EventLog<Int64>?
            let sending = Sending(complete(.get(server.url())), over: try CurlTransport(options)) {
                arrived = $0.received(bytes: 5)
            }
            await arrived?.wait()
            server.shutDown()
            return try await sending.result()
        }

        @Test func bodyThatEndsWithoutCloseNotifyIsIncomplete() async throws {
            let result = try await resultOfCut(Self.lengthless) { $0 }
            #expect(result.code == .connectionLost, "\(result)")
            guard case .failure(let error) = result else { return }
            #expect(error.isRetryable)
            #expect(error.response?.statusCode == 200)
            #expect(error.message.contains("close_notify"))
            #expect(error.description.isOneLine)
        }

        @Test func aCutDownloadLeavesNoFile() async throws {
            let directory = try TemporaryDirectory()
            let result = try await resultOfCut(Self.lengthless) { $0.saved(to: directory.file("target")) }
            #expect(result.code == .connectionLost, "\(result)")
            #expect(try directory.entries == [])
        }

        /// Some old servers send no `close_notify`, so an option accepts an end without it.
        @Test func everyEndIsAcceptedWithTheOption() async throws {
            let result = try await resultOfCut(Self.lengthless, { $0.acceptsMissingCloseNotify = true }) { $0 }
            #expect(try result.get().value == Data("hello".utf8))
        }

        /// A body that defines its own end needs no `close_notify`.
        @Test(arguments: [
            "Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        ])
        func bodyWithAnEndOfItsOwnIsComplete(rest: String) async throws {
            let result = try await resultOfCut("HTTP/1.1 200 OK\r\nConnection: close\r\n" + rest) { $0 }
            #expect(try result.get().value == Data("hello".utf8))
        }

        /// `s_server` sends files without a length, and `close_notify` after the last byte.
        @Test(arguments: [false, true])
        func bodyThatEndsWithCloseNotifyIsComplete(acceptsMissing: Bool) async throws {
            let identity = try Certificates.shared.server
            let server = try await TLSServer(identity, ["-WWW"])
            defer { server.shutDown() }
            var options = try ConnectionOptions.trustingTestAuthority()
            options.acceptsMissingCloseNotify = acceptsMissing
            let request = Request<Data>.get(server.url("/" + identity.certificate.lastPathComponent))
            // The later requests reuse the libcurl handle of the first one.
            let transport = try CurlTransport(options)
            for _ in 0..<3 {
                let response = try await Sending(request, over: transport).response()
                #expect(response.head.expectedBytes == nil)
                #expect(try response.value == Data(contentsOf: identity.certificate))
            }
        }
    }
#endif
