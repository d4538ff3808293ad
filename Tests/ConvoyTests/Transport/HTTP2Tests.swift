// Tests many requests on one connection: which requests wait or are sent again, and the number of connections.
import Foundation
import Testing

@testable import Convoy

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

#if canImport(CLibcurl)
    /// Tests ``CurlTransport`` and HTTP/2 against nginx.
    @Suite(.enabled(if: Nginx.isInstalled, "nginx is not installed"))
    struct HTTP2Tests {
        @Test func concurrentRequestsShareAConnectionUnlessTheOptionForbidsIt() async throws {
            let server = try await Nginx()
            let shared = try await responses(20, of: server, .trusting())
            #expect(shared.allSatisfy { $0.metrics?.httpVersion == "2" })
            // The body is nginx's number of the connection.
            #expect(Set(shared.map(\.value)).count == 1)
            let own = try await responses(20, of: server, .trusting { $0.httpVersion = .http1 })
            #expect(own.allSatisfy { $0.metrics?.httpVersion == "1.1" })
        }

        /// The server allows 128 streams for each connection, and libcurl 100.
        @Test func coldRequestsOpenAsFewConnectionsAsHoldThem() async throws {
            let server = try await Nginx()
            let responses = try await responses(200, of: server, .trusting())
            #expect(Set(responses.map(\.value)).count <= 3)
        }

        @Test func fewStreamsAConnectionAreEnough() async throws {
            let server = try await Nginx(.init(directives: "http2_max_concurrent_streams 8;"))
            let transport = try CurlTransport.trusting()
            for count in [3, 60, 60] { _ = try await responses(count, of: server, transport) }
            #expect(await server.answers.wait(count: 123).count == 123)
        }

        /// HTTP/1.1 needs a connection for each request, so no request waits for another response.
        @Test func requestsOverVersionOneRunSideBySide() async throws {
            let count = 30
            let (arrivals, gate) = (EventLog<Void>(), DispatchSemaphore(value: 0))
            let backend = try LoopbackListener { connection in
                guard connection.readHead() != nil else { return }
                arrivals.record(())
                gate.wait()
                connection.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            }
            let server = try await Nginx(.init(speaksHTTP2: false, backendPort: backend.port))
            let transport = try CurlTransport.trusting()
            let request = Request<String>.get(server.url("/behind"))
            let sendings = (1...count).map { _ in Sending(request, over: transport) }
            await arrivals.wait(count: count)
            for _ in 1...count { gate.signal() }
            for sending in sendings { #expect(try await sending.response().value == "ok") }
        }

        // A new server gets one connection at a time until it has shown whether requests share it. A cancelled request
        // lets the next one begin.
        @Test func newServersGetOneConnectionFirst() async throws {
            let count = 3
            // The log has the number of cancelled requests when each connection was opened.
            let (openings, cancelled) = (EventLog<Int>(), Locked(0))
            // The server never answers the handshake.
            let server = try LoopbackListener { connection in
                openings.record(cancelled.withLock { $0 })
                connection.readToEnd()
            }
            let transport = try CurlTransport.trusting { $0.engineCount = 1 }
            let request = Request<String>.get("https://127.0.0.1:\(server.port)/")
            let tasks = try (1...count).map { _ in
                let prepared = try PreparedRequest(request.core, baseURL: nil)
                return try transport.makeTask(for: prepared, client: RecordingClient())
            }
            for task in tasks { task.resume() }
            for (index, task) in tasks.enumerated() {
                await openings.wait(count: index + 1)
                cancelled.withLock { $0 += 1 }
                task.cancel()
            }
            #expect(openings.events == Array(0..<count))
        }

        // libcurl up to 8.14 may forget bytes of a stream that another stream read from the connection. That happens if
        // a third request begins before libcurl returns to the first. Then only another timer delivers the bytes, here
        // after 5 minutes.
        @Test func answerThatAnotherStreamReadIsDelivered() async throws {
            let backend = try LoopbackListener { $0.readToEnd() }
            let server = try await Nginx(.init(backendPort: backend.port))
            let transport = try CurlTransport.trusting { ($0.engineCount, $0.connectTimeout) = (1, .seconds(300)) }
            func task(_ request: Request<Data>, _ client: any TransportClient) throws -> URLSessionTask {
                var prepared = try PreparedRequest(request.core, baseURL: nil)
                prepared.idleTimeout = .seconds(300)
                return try transport.makeTask(for: prepared, client: client)
            }
            // Blocks the transport's thread until the other requests can begin in one turn of its loop.
            let (hasBegun, first, answered) = (DispatchSemaphore(value: 0), HoldingClient(), RecordingClient())
            first.onEnd = { hasBegun.wait() }
            try task(.get(server.url("/first")), first).resume()
            await first.ends.wait()
            // Blocks the transport's thread again while a request is sent. The stream of that request then reads the
            // first response.
            let reading = HoldingClient()
            reading.onSent = {
                waitUntilTrue { server.answers.events.contains { $0.target == "/answered" } }
            }
            let tasks = [
                try task(.get(server.url("/answered")), answered),
                try task(Request<Data>.post(server.url("/behind/1")).body("12"), reading),
                try task(.get(server.url("/behind/2")), RecordingClient()),
                try task(.get(server.url("/behind/3")), RecordingClient()),
            ]
            for task in tasks { task.resume() }
            hasBegun.signal()
            // No other event wakes libcurl.
            let calls = await answered.calls.wait(count: 3, within: .seconds(20))
            #expect(calls.last == .end(nil))
            for task in tasks { task.cancel() }
        }

        @Test(arguments: [1, 10])
        func requestsTheServerDidNotTakeAreSentAgain(_ perConnection: Int) async throws {
            let server = try await Nginx(.init(requestsPerConnection: perConnection))
            let load = HTTP2Load(server)
            try await load.run(requests: 50 * perConnection, atOnce: 20)
            #expect(load.failures.events.isEmpty)
            await load.expectEachAnsweredOnce()
        }

        private func responses(
            _ count: Int, of server: Nginx, _ transport: CurlTransport
        ) async throws -> [Response<String>] {
            let request = Request<String>.get(server.url())
            let sendings = (1...count).map { _ in Sending(request, over: transport) }
            var responses: [Response<String>] = []
            for sending in sendings { responses.append(try await sending.response()) }
            return responses
        }
    }

    /// Tests ``CurlTransport`` and the frames with which a server ends a connection.
    @Suite struct GoAwayTests {
        // A server that responds on streams 1 and 3, but not on 5. Request 5 must be sent again on another connection.
        private func refusingServer() async throws -> HTTP2Server {
            try await HTTP2Server { stream in
                switch (stream.connection, stream.number) {
                case (1, 3): []
                case (1, 5): [HTTP2Server.goAway(after: 3), HTTP2Server.ok(3)]
                default: [HTTP2Server.ok(stream.number)]
                }
            }
        }

        /// Sends the request that the server refuses, together with one that it accepts.
        private func result(
            of refused: Request<Data>, from server: HTTP2Server
        ) async throws -> RequestOperation<Data>.Result {
            let transport = try CurlTransport.trusting()
            _ = try await Sending(Request<Data>.get(server.url()), over: transport).response()
            let taken = Sending(Request<Data>.post(server.url()).body("taken"), over: transport)
            await server.streams.wait(count: 2)
            let sending = Sending(refused, over: transport)
            #expect(try await taken.response().statusCode == 200)
            return try await sending.result()
        }

        @Test(arguments: [HTTPMethod.get, .post])
        func aRefusedStreamIsSentAgain(_ method: HTTPMethod) async throws {
            let server = try await refusingServer()
            var request = method == .post ? Request<Data>.post(server.url()) : .get(server.url())
            if method == .post { request = request.body("refused") }
            #expect(try await result(of: request, from: server).get().statusCode == 200)
            let streams = server.streams.events.map { [$0.connection, $0.number] }
            #expect(streams == [[1, 1], [1, 3], [1, 5], [2, 1]])
        }

        /// RFC 9113, section 7: HTTP_1_1_REQUIRED.
        @Test(arguments: [HTTPMethod.get, .post])
        func aServerThatRequiresHTTP1GetsTheRequestSo(_ method: HTTPMethod) async throws {
            let server = try await HTTP2Server { [HTTP2Server.reset($0.number, code: 13)] }
            let other = try await TLSServer(Certificates.shared.server)
            let listener = try LoopbackListener(firstTo: server.port, thenTo: other.port)
            let url = "https://127.0.0.1:\(listener.port)/"
            let request = method == .post ? Request<Data>.post(url).body("a") : .get(url)
            let response = try await Sending(request, over: CurlTransport.trusting()).response()
            #expect(response.value == Data("hello".utf8))
            #expect(server.streams.count == 1)
            #expect(other.heads.map { $0.hasPrefix(method.rawValue + " / HTTP/1.1") } == [true])
        }

        /// RFC 9113, section 8.7: the server has not processed a refused stream.
        @Test func aServerThatRefusesEveryStreamIsNotAskedForever() async throws {
            let server = try await HTTP2Server { [HTTP2Server.reset($0.number, code: 7)] }
            let error = try await Sending(Request<Data>.get(server.url()), over: CurlTransport.trusting()).error()
            #expect(error.code == .connectionLost, "\(error)")
            #expect(server.streams.count <= 7)
        }

        @Test func aBodyThatCannotBeSentAgainIsReported() async throws {
            let server = try await refusingServer()
            let chunks = AsyncStream<Data> { continuation in
                continuation.yield(Data("once".utf8))
                continuation.finish()
            }
            let request = Request<Data>.post(server.url()).body(chunks)
            let error = try #require(try await result(of: request, from: server).failure as? RequestError)
            #expect(error.code == .bodyNotReplayable, "\(error)")
            #expect(error.message.contains("not processed"), "\(error)")
            #expect(server.streams.count == 3)
        }

        /// Without a GOAWAY the server may have processed the POST, so it is not sent again.
        @Test func postOnAConnectionThatIsLostIsNotSentAgain() async throws {
            let isOver = EventLog<Void>()
            let server = try await HTTP2Server { stream in
                if stream.number == 1 { return [HTTP2Server.ok(1)] }
                isOver.record(())
                return []
            }
            let transport = try CurlTransport.trusting()
            _ = try await Sending(Request<Data>.get(server.url()), over: transport).response()
            let sending = Sending(Request<Data>.post(server.url()).body("1"), over: transport)
            await isOver.wait()
            server.shutDown()
            let error = try await sending.error()
            #expect(error.code == .connectionLost, "\(error)")
            #expect(!error.message.contains("not processed"), "\(error)")
            #expect(server.streams.count == 2)
        }

        /// Up to 7.88.1, libcurl takes the error of a connection for the end of the response.
        @Test func aResponseWithoutALengthThatAConnectionErrorCutsIsAnError() async throws {
            let server = try await HTTP2Server { [HTTP2Server.beginning($0.number)] }
            for frames in [HTTP2Server.end(1), HTTP2Server.badSettings] {
                let client = RecordingClient()
                let prepared = try PreparedRequest(Request<Data>.get(server.url()).core, baseURL: nil)
                // Another transport would use the first one's connection, and stream 3.
                let time = Duration.seconds(frames == HTTP2Server.badSettings ? 29 : 28)
                let transport = try CurlTransport.trusting { $0.connectTimeout = time }
                try transport.makeTask(for: prepared, client: client).resume()
                await look { client.calls.events.contains { $0 == .data(Data("part".utf8)) } }
                server.write(frames)
                await look {
                    client.calls.events.contains { if case .end = $0 { true } else { false } }
                }
                // Earlier versions do not log what ends a connection.
                let isCut = frames == HTTP2Server.badSettings && CurlLibrary.version >= 0x07_58_00
                #expect(client.calls.events.last == .end(isCut ? .connectionLost : nil))
                withExtendedLifetime(transport) {}
            }
        }

        /// After a GOAWAY, libcurl also closes the connection of a complete response.
        @Test func theLastResponseOfAConnectionThatTheServerEndsIsComplete() async throws {
            let server = try await HTTP2Server { stream in
                [
                    HTTP2Server.beginning(stream.number), HTTP2Server.goAway(after: stream.number),
                    HTTP2Server.end(stream.number),
                ]
            }
            let response = try await Sending(Request<Data>.get(server.url()), over: CurlTransport.trusting()).response()
            #expect(response.value == Data("partial".utf8))
        }

        /// The time of an attempt includes the wait for a connection that another request opens.
        @Test func attemptTimeoutEndsARequestThatWaitsForAConnection() async throws {
            // The server accepts one connection at a time. While the first one is open, the next gets no response to
            // its handshake.
            let server = try await HTTP2Server { stream in
                switch stream.number {
                case 3: []
                case 5: [HTTP2Server.goAway(after: 5), HTTP2Server.ok(5)]
                default: [HTTP2Server.ok(stream.number)]
                }
            }
            let transport = try CurlTransport.trusting { $0.engineCount = 1 }
            let request = Request<Data>.get(server.url())
            // Three requests use the first connection, which then accepts no others. `held` gets no response.
            _ = try await Sending(request, over: transport).response()
            let held = Sending(request, over: transport)
            await server.streams.wait(count: 2)
            _ = try await Sending(request, over: transport).response()
            let (opening, waiting) = (RecordingClient(), RecordingClient())
            let tasks = [
                try transport.makeTask(for: PreparedRequest(request.core, baseURL: nil), client: opening),
                try transport.makeTask(
                    for: PreparedRequest(request.attemptTimeout(.milliseconds(300)).core, baseURL: nil),
                    client: waiting),
            ]
            for task in tasks { task.resume() }
            #expect(await waiting.calls.wait() == [.end(.timedOut)])
            // The waiting request timed out by itself: the opening one had not ended.
            #expect(opening.calls.events.isEmpty)
            for task in tasks { task.cancel() }
            held.operation.cancel()
        }

        /// The client gives up if the server accepts no stream of any connection.
        @Test func aServerThatAcceptsNoStreamIsAnError() async throws {
            let server = try await HTTP2Server { _ in [HTTP2Server.goAway(after: 0)] }
            // Each new connection waits until the server has closed the one before, which takes long on a busy machine.
            let transport = try CurlTransport.trusting { $0.connectTimeout = .seconds(300) }
            let error = try await Sending(Request<Data>.post(server.url()).body("1"), over: transport).error()
            error.expect(.connectionLost)
            #expect(error.message.contains("or ended the connection before it processed"), "\(error)")
        }
    }

    /// A client that blocks the transport's thread.
    private final class HoldingClient: TransportClient, @unchecked Sendable {
        // @unchecked: the closures are set before the task is resumed.
        var onSent: @Sendable () -> Void = {}
        var onEnd: @Sendable () -> Void = {}
        let ends = EventLog<Void>()

        func didReceive(_ head: ResponseHead) {}
        func didReceive(_ data: Data) -> Bool { true }
        func didPause() {}
        func didSend(totalBytes: Int64) { onSent() }
        func didFinish(_ error: RequestError?) {
            ends.record(())
            onEnd()
        }
    }

    /// Blocks the calling thread until a condition is true, for at most a minute.
    private func waitUntilTrue(_ isTrue: () -> Bool) {
        let deadline = ContinuousClock.now + .seconds(60)
        while !isTrue(), ContinuousClock.now < deadline { sched_yield() }
    }
#endif
