import Foundation
import Testing

@testable import Convoy

#if canImport(CLibcurl)
    /// Tests responses whose remaining bytes are not needed.
    @Suite(.timeLimit(.minutes(2))) struct AbandonedAnswerTests {
        /// More bytes of the unwanted response may follow, so the connection is not reused.
        @Test(arguments: [true, false])
        func anAnswerThatIsNotWaitedForCostsItsConnection(_ isChunked: Bool) async throws {
            let server = try TestServer()
            let body = Data(count: 70_000)
            server.route("/refused") { _ in
                guard isChunked else { return .status(500, body: body) }
                let head = "HTTP/1.1 500 Refused\r\nTransfer-Encoding: chunked\r\n\r\n"
                return .raw(Data("\(head)11170\r\n".utf8) + body + Data("\r\n0\r\n\r\n".utf8), closes: false)
            }
            server.route("/taken") { _ in .status(200, body: "taken") }
            let manager = RequestManager(configuration: .init(transport: .custom(try CurlTransport())))
            for _ in 0..<40 {
                await #expect(throws: RequestError.self) {
                    try await manager.send(Request<Data>.get(server.url("/refused")))
                }
                let refused = try await server.takeRequest()
                #expect(try await manager.send(Request<String>.get(server.url("/taken"))).value == "taken")
                let taken = try await server.takeRequest()
                #expect(taken.connectionNumber != refused.connectionNumber)
            }
        }

        #if os(Linux)
            /// If the server has stopped answering on the connection, the next request would time out too.
            @Test func aConnectionOnWhichARequestHasTimedOutIsNotUsedAgain() async throws {
                let server = try await HTTP2Server { $0.connection == 1 ? [] : [HTTP2Server.ok($0.number)] }
                let transport = try CurlTransport.trusting()
                let silent = Request<Data>.get(server.url()).idleTimeout(.seconds(2))
                #expect(try await Sending(silent, over: transport).result().code == .timedOut)
                let next = try await Sending(Request<Data>.get(server.url()), over: transport).response()
                #expect(next.statusCode == 200)
                #expect(server.streams.events.map(\.connection) == [1, 2])
            }

            /// Another request still uses the connection and keeps it open.
            @Test(
                .enabled(if: CurlLibrary.version >= 0x07_53_01, "this libcurl shares it all the same"),
                arguments: [true, false])
            func aBusyConnectionOnWhichARequestHasTimedOutIsNotUsedAgain(isIdle: Bool) async throws {
                let silent = try await HTTP2Server { _ in [] }
                let answering = try await HTTP2Server { [HTTP2Server.ok($0.number)] }
                let front = try LoopbackListener(firstTo: silent.port, thenTo: answering.port)
                let transport = try CurlTransport.trusting()
                let get = Request<Data>.get("https://127.0.0.1:\(front.port)/")
                let waiting = Sending(get, over: transport)
                await silent.streams.wait(count: 1)
                let short = isIdle ? get.idleTimeout(.seconds(1)) : get.attemptTimeout(.seconds(1))
                #expect(try await Sending(short, over: transport).result().code == .timedOut)
                #expect(silent.streams.count == 2)
                #expect(try await Sending(get, over: transport).response().statusCode == 200)
                waiting.operation.cancel()
                #expect(try await waiting.result().code == .cancelled)
            }
        #endif

        @Test func aWholeRefusalKeepsItsConnection() async throws {
            let server = try TestServer()
            server.route("/refused") { _ in .status(500, body: Data(count: 65_536)) }
            // On a shared transport, connections of other tests would replace an idle connection.
            let manager = RequestManager(configuration: .init(transport: .custom(try CurlTransport.alone())))
            for _ in 0..<3 {
                await #expect(throws: RequestError.self) {
                    try await manager.send(Request<Data>.get(server.url("/refused")))
                }
            }
            let first = try await server.takeRequest()
            #expect(try await server.takeRequest().connectionNumber == first.connectionNumber)
        }
    }
#endif

#if os(Linux)
    /// Tests responses that are complete before their requests are (RFC 9113, section 8.1).
    @Suite(.timeLimit(.minutes(2))) struct EarlyAnswerTests {
        private static let transport = Result { try CurlTransport.trusting() }

        private func request(_ method: HTTPMethod, _ server: HTTP2Server) -> Request<Data> {
            let request = method == .put ? Request<Data>.put(server.url()) : .post(server.url())
            return request.body(Data(count: 200_000)).idleTimeout(.seconds(20))
        }

        /// The server accepts only the first 65,535 bytes.
        @Test(arguments: [HTTPMethod.put, .post])
        func anUploadThatIsAnsweredEarlyHasItsAnswer(_ method: HTTPMethod) async throws {
            let server = try await HTTP2Server(isEarly: true) { [HTTP2Server.okWithBody($0.number)] }
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
