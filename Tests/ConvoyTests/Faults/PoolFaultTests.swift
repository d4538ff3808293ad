// Tests reused connections that the server has closed or closes.
#if canImport(CLibcurl)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    @Suite(.timeLimit(.minutes(5))) struct PoolFaultTests {
        private static let body = Reply.pattern(range: 0..<100_000)

        /// The result of the second request on a reused connection, and the requests with its path that the server
        /// received.
        private struct Second {
            let result: RequestOperation<Data>.Result
            let seen: [RecordedRequest]
        }

        private func second(
            _ method: HTTPMethod, body: Bool = false, meeting replies: [Reply]
        ) async throws -> Second {
            let server = try TestServer()
            defer { server.shutDown() }
            server.enqueue([.status(200, body: "first")] + replies)
            server.respond { _ in .status(200, body: "again") }
            let transport = try CurlTransport.alone()
            _ = try await Sending(server.get("/first"), transport).response()
            var request = Request<Data>(method: method, url: server.url("/second"))
            if body { request = request.body(Self.body) }
            let result = try await Sending(request, transport).result()
            let all = server.recordedRequests
            // The second request must arrive on the first connection, or the test covers no reused connection.
            #expect(all.dropFirst().first?.connectionNumber == 1)
            return Second(result: result, seen: all.filter { $0.path == "/second" })
        }

        @Test(arguments: [HTTPMethod.get, .put, .post])
        func connectionClosedBetweenTwoRequestsIsNotUsed(method: HTTPMethod) async throws {
            let server = try TestServer(always: .status(200, body: "ok"))
            defer { server.shutDown() }
            let transport = try CurlTransport.alone()
            for number in 1...5 {
                let request = Request<String>(method: method, url: server.url("/\(number)"))
                #expect(try await Sending(request, transport).response().value == "ok")
                let seen = try await server.takeRequest()
                #expect(seen.connectionNumber == number)
                #expect(seen.target == "/\(number)")
                server.disconnectAll()
                try await server.connectionsClosed()
            }
            #expect(server.requestCount == 5)
        }

        /// The end of the connection races with the next request.
        @Test func aConnectionClosedAfterTheResponseHarmsNoGet() async throws {
            let server = try TestServer()
            defer { server.shutDown() }
            server.respond { Reply.status(200, body: $0.path).disconnectingAtEnd() }
            let transport = try CurlTransport.alone()
            for number in 1...100 {
                let response = try await Sending(Request<String>.get(server.url("/\(number)")), transport).response()
                #expect(response.value == "/\(number)")
            }
        }

        /// Each of many requests that lose their connection is sent again.
        ///
        /// libcurl up to 8.16 counts the repetitions of a handle over all its requests, and gives up at the sixth.
        @Test(arguments: [1, 3])
        func manyRequestsMetByAnEndAreEachSentAgain(inFlight: Int) async throws {
            let server = try TestServer()
            defer { server.shutDown() }
            server.respond {
                $0.numberOnConnection == 1
                    ? .status(200, body: $0.path) : Reply.status(200).disconnecting(afterBytes: 0)
            }
            let transport = try CurlTransport.alone()
            for round in 1...12 {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for place in 1...inFlight {
                        group.addTask {
                            let request = Request<String>.get(server.url("/\(round).\(place)"))
                            let path = try await Sending(request, transport).response().value
                            #expect(path == "/\(round).\(place)")
                        }
                    }
                    try await group.waitForAll()
                }
            }
            // The server received more requests than the test sent, so libcurl has repeated some.
            #expect(server.requestCount > 12 * inFlight)
        }

        /// The server may have processed the request, so it is not sent again (RFC 9110, section 9.2.2).
        @Test(
            arguments: [
                FaultVariant("FIN", Reply.status(200).disconnecting(afterBytes: 0)),
                FaultVariant("RST", Reply.status(200).resetting(afterBytes: 0)),
                FaultVariant("FIN at the head", Reply.status(200).performing(.close, at: .requestStart)),
                FaultVariant("RST at the head", Reply.status(200).performing(.reset, at: .requestStart)),
            ], [HTTPMethod.post, .patch])
        func otherRequestMetByAnEndIsNotSentAgain(variant: FaultVariant, method: HTTPMethod) async throws {
            for hasBody in [false, true] {
                let second = try await second(method, body: hasBody, meeting: [variant.reply])
                #expect(second.result.code == .connectionLost, "\(second.result)")
                #expect(second.seen.count == 1)
                guard case .failure(let error) = second.result else { continue }
                #expect(error.isRetryable)
                #expect(error.response == nil)
            }
        }

        /// A partial response shows that the server processed the request.
        ///
        /// Idempotent requests may still be sent again (RFC 9112, section 9.3.1), which libcurl does before the first
        /// line is complete. Other requests must not be sent again.
        @Test(arguments: [1, 12, 16, 17, 30], [HTTPMethod.get, .post])
        func requestMetByAnAnswerCutShortIsNotSentTwice(byteCount: Int64, method: HTTPMethod) async throws {
            let cut = Reply.status(200, body: "hello").disconnecting(afterBytes: byteCount)
            let second = try await second(method, meeting: [cut])
            guard case .failure(let error) = second.result else {
                #expect(method == .get)
                #expect(try second.result.get().value == Data("again".utf8))
                #expect(second.seen.count == 2)
                return
            }
            #expect([.connectionLost, .badResponse].contains(error.code), "\(error)")
            #expect(second.seen.count == 1)
        }

        /// The server ends the reused connection without a response, and the body is a file.
        @Test func fileIsSentAgainFromItsStart() async throws {
            let directory = try TemporaryDirectory()
            let file = directory.file("body")
            try Self.body.write(to: file)
            let server = try TestServer()
            defer { server.shutDown() }
            server.enqueue([
                .status(200), Reply.status(200).performing(.close, at: .requestBody(afterBytes: 1)), .status(201),
            ])
            let transport = try CurlTransport.alone()
            _ = try await Sending(server.get(), transport).response()
            let put = Request<Data>.put(server.url("/file")).body(fromFile: file)
            #expect(try await Sending(put, transport).response().statusCode == 201)
            let seen = server.recordedRequests.filter { $0.path == "/file" }
            #expect(seen.map(\.isBodyComplete) == [false, true])
            #expect(seen.last?.body == Self.body)
        }
    }
#endif
