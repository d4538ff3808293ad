import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

#if canImport(CLibcurl)
    /// Tests responses whose remaining bytes are not needed.
    @Suite(.timeLimit(.minutes(2))) struct AbandonedAnswerTests {
        enum Length: CaseIterable, Sendable { case announced, chunked }

        /// More bytes of the unwanted response may follow, so the connection is not reused.
        @Test(arguments: Length.allCases)
        func anAnswerThatIsNotWaitedForCostsItsConnection(_ length: Length) async throws {
            let server = try TestServer()
            defer { server.shutDown() }
            let body = Data(count: 70_000)
            server.route("/refused") { _ in
                guard length == .chunked else { return .status(500, body: body) }
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
                defer { server.shutDown() }
                let transport = try CurlTransport(ConnectionOptions.trustingTestAuthority())
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
                let count = Locked(0)
                let front = try LoopbackListener { client in
                    let number = count.withLock { count in
                        count += 1
                        return count
                    }
                    let port = number == 1 ? silent.port : answering.port
                    guard let origin = LoopbackConnection(port: UInt16(clamping: port)) else { return }
                    Thread { origin.copy(from: client) }.start()
                    client.copy(from: origin)
                }
                defer { for shutDown in [silent.shutDown, answering.shutDown, front.shutDown] { shutDown() } }
                let transport = try CurlTransport(ConnectionOptions.trustingTestAuthority())
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

        /// After a response that is read to its end, the connection is reused.
        @Test func aWholeRefusalKeepsItsConnection() async throws {
            let server = try TestServer()
            defer { server.shutDown() }
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
