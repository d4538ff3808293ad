import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

#if canImport(CLibcurl)
    /// Answers of which only the beginning is wanted.
    @Suite(.timeLimit(.minutes(2))) struct AbandonedAnswerTests {
        enum Length: CaseIterable, Sendable { case announced, chunked }

        /// Bytes that nobody asked for may follow it.
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
            /// A server that has stopped answering on it would let the next request wait as long.
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
        #endif

        /// What is waited for keeps its connection.
        @Test func aWholeRefusalKeepsItsConnection() async throws {
            let server = try TestServer()
            defer { server.shutDown() }
            server.route("/refused") { _ in .status(500, body: Data(count: 65_536)) }
            let manager = RequestManager(configuration: .init(transport: .custom(try CurlTransport())))
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
