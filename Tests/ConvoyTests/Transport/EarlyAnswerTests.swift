import Foundation
import Testing

@testable import Convoy

#if os(Linux)
    /// Tests responses that are complete before their requests are (RFC 9113, section 8.1).
    @Suite(.timeLimit(.minutes(2))) struct EarlyAnswerTests {
        private static let transport = Result {
            try CurlTransport(ConnectionOptions.trustingTestAuthority())
        }

        private func request(_ method: HTTPMethod, _ server: HTTP2Server) -> Request<Data> {
            let request = method == .put ? Request<Data>.put(server.url()) : .post(server.url())
            return request.body(Data(count: 200_000)).idleTimeout(.seconds(20))
        }

        /// The server accepts only the first 65,535 bytes.
        @Test(arguments: [HTTPMethod.put, .post])
        func anUploadThatIsAnsweredEarlyHasItsAnswer(_ method: HTTPMethod) async throws {
            let server = try await HTTP2Server(isEarly: true) { [HTTP2Server.okWithBody($0.number)] }
            defer { server.shutDown() }
            let transport = try Self.transport.get()
            let response = try await Sending(request(method, server), over: transport).response()
            #expect(response.statusCode == 200 && response.value == Data("ok".utf8))
            #expect(server.streams.count == 1)
            // A further request uses the same connection.
            let next = try await Sending(Request<Data>.get(server.url()), over: transport).response()
            #expect(next.value == Data("ok".utf8))
            #expect(server.streams.events.map(\.connection) == [1, 1])
        }

        @Test(arguments: [HTTPMethod.put, .post])
        func anAnswerIsKeptWhenItsStreamIsResetWithoutAnError(_ method: HTTPMethod) async throws {
            let server = try await HTTP2Server(isEarly: true) {
                [HTTP2Server.okWithBody($0.number), HTTP2Server.resetWithoutError($0.number)]
            }
            defer { server.shutDown() }
            let result = try await Sending(request(method, server), over: Self.transport.get()).result()
            try withKnownIssue("libcurl drops what it has read together with the reset", isIntermittent: true) {
                let response = try result.get()
                #expect(response.value == Data("ok".utf8))
            } when: {
                CurlLibrary.version < 0x08_01_00
            }
            #expect(server.streams.count == 1)
        }

        /// The response has been read before the reset arrives, so no version of libcurl loses it.
        @Test func anAnswerThatWasReadBeforeTheResetIsKept() async throws {
            let server = try await HTTP2Server(isEarly: true) { [HTTP2Server.okWithBody($0.number)] }
            defer { server.shutDown() }
            let client = RecordingClient()
            let prepared = try PreparedRequest(request(.post, server).core, baseURL: nil)
            let task = try Self.transport.get().makeTask(for: prepared, client: client)
            task.resume()
            func received() -> [RecordingClient.Call] { client.calls.events.filter { $0.isReceived } }
            await look { received().count >= 2 }
            server.write(HTTP2Server.resetWithoutError(1))
            await look { received().count >= 3 }
            #expect(received() == [.head(200), .data(Data("ok".utf8)), .end(nil)])
        }
    }

    extension RecordingClient.Call {
        fileprivate var isReceived: Bool { if case .sent = self { false } else { true } }
    }
#endif
