// Tests the end of a body without a length over TLS: RFC 9112, section 9.8.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

#if canImport(CLibcurl)
    @Suite(.timeLimit(.minutes(5))) struct CloseNotifyTests {
        private static let lengthless = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"

        /// Sends a GET to a server that is killed when the complete body has arrived.
        ///
        /// The system closes the connection, and no `close_notify` is sent.
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

        /// Without TLS a truncation cannot be detected: RFC 9112, section 6.3, case 8.
        @Test func plainBodyThatEndsWithTheConnectionIsComplete() async throws {
            let response = try await Fault.response(to: .raw(Self.lengthless))
            #expect(response.value == Data("hello".utf8))
        }
    }
#endif
