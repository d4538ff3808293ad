// Tests connections that end before a response or a handshake is complete.
import Convoy
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
            let error = try await error(of: server, version)
            error.expect(.connectionLost)
        }

        /// The server gives a reason before it closes the connection.
        @Test func alertInTheHandshakeIsTLSFailed() async throws {
            let server = try LoopbackListener { connection in
                _ = connection.read()
                // The bytes are a fatal alert: handshake_failure.
                connection.write(Data([0x15, 3, 3, 0, 2, 2, 40]))
            }
            let error = try await error(of: server, .automatic)
            error.expect(.tlsFailed)
        }

        @Test(arguments: [3, 9, 12, 15, 17, 25, 35, 37])
        func headCutByACloseIsALoss(_ count: Int) async throws {
            let server = try TestServer()
            let bytes = "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n"
            server.respond { _ in .raw(String(bytes.prefix(count))) }
            let error = try await Sending(Request<Data>.get(server.url()), over: CurlTransport.shared).error()
            error.expect(.connectionLost)
        }

        private func error(
            of server: LoopbackListener, _ version: ConnectionOptions.HTTPVersion
        ) async throws -> RequestError {
            let transport = try CurlTransport.trusting { $0.httpVersion = version }
            let request = Request<Data>.get("https://127.0.0.1:\(server.port)/")
            return try await Sending(request, over: transport).error()
        }
    }

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
            var arrived: EventLog<Int64>?
            let sending = Sending(complete(.get(server.url())), over: try CurlTransport.trusting(change)) {
                arrived = $0.received(bytes: 5)
            }
            await arrived?.wait()
            server.shutDown()
            return try await sending.result()
        }

        @Test func bodyThatEndsWithoutCloseNotifyIsIncomplete() async throws {
            let result = try await resultOfCut(Self.lengthless) { $0 }
            let error = try #require(result.failure as? RequestError)
            error.expect(.connectionLost, status: 200)
            #expect(error.message.contains("close_notify"))
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
            let request = Request<Data>.get(server.url("/" + identity.certificate.lastPathComponent))
            // The later requests reuse the libcurl handle of the first one.
            let transport = try CurlTransport.trusting { $0.acceptsMissingCloseNotify = acceptsMissing }
            for _ in 0..<3 {
                let response = try await Sending(request, over: transport).response()
                #expect(response.head.expectedBytes == nil)
                #expect(try response.value == Data(contentsOf: identity.certificate))
            }
        }
    }
#endif
