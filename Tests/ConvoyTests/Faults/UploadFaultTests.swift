// Tests request bodies that the server rejects or does not receive.
#if canImport(CLibcurl)
    import Foundation
    import Testing

    @testable import Convoy

    @Suite(.serialized, .timeLimit(.minutes(5))) struct UploadFaultTests {
        /// A server that never sends a 100 still receives the body once, a small one without waiting for a 100.
        @Test(arguments: [HTTPMethod.post, .put], [100_000, 5_000_000])
        func bodyIsSentThoughNobodyAsksForIt(method: HTTPMethod, byteCount: Int64) async throws {
            let server = try TestServer()
            server.enqueue(Reply.status(200, body: "thanks").withholdingContinue())
            let body = Reply.pattern(range: 0..<byteCount)
            let request = Request<Data>(method: method, url: server.url()).body(body)
            let response = try await Sending(request).response()
            #expect(response.value == Data("thanks".utf8))
            #expect(response.transfer.upload.completedBytes == byteCount)
            let seen = try await server.takeRequest()
            #expect(seen.body == body && seen.isBodyComplete)
            #expect(byteCount > 100_000 || seen.value(of: "Expect") == nil)
            #expect(server.requestCount == 1)
        }

        /// The 413 is the response, with or without waiting for a 100, and the rest of the body is not sent.
        @Test(arguments: [100_000, 5_000_000, 40_000_000])
        func refusalBeforeTheBodyIsReadIsDelivered(byteCount: Int) async throws {
            let server = try TestServer()
            let refusal = Reply.status(413, headerFields: [("X-Limit", "1")], body: "too large").ignoringRequestBody()
            let late = Data("HTTP/1.1 413 Too Large\r\nContent-Length: 9\r\nConnection: close\r\n\r\ntoo large".utf8)
            let place = Reply.Moment.requestBody(afterBytes: Int64(byteCount / 100))
            server.enqueue([
                refusal, refusal, Reply.status(200).performing(.write(late), at: place).performing(.close, at: place),
            ])
            let post = Request<Data>.post(server.url()).body(Data(count: byteCount))
            let sending = Sending(post.acceptableStatusCodes(.any))
            let response = try await sending.response()
            #expect(response.statusCode == 413)
            #expect(response.headerFields["X-Limit"] == "1")
            #expect(response.value == Data("too large".utf8))
            // The body of 40 MB does not fit into the network buffers, so a part of it was never sent.
            if byteCount == 40_000_000 { #expect(response.transfer.upload.completedBytes < Int64(byteCount)) }
            // The last 413 arrives after the server has received a part of a large body, and a reset follows.
            for _ in 0..<(byteCount == 40_000_000 ? 2 : 1) {
                let error = try await Sending(post).error()
                #expect(error.code == .unacceptableStatus, "\(error)")
                #expect(error.response?.statusCode == 413)
                #expect(error.body == Data("too large".utf8))
            }
        }

        /// The server responds before the body and continues to read.
        ///
        /// The next request must not become part of that body. Later bytes of the server must not become the next
        /// response. The body is larger than the system's buffers. The client could send a smaller one completely
        /// before it reads the response.
        @Test func answerBeforeTheBodyLeavesNothingToTheNextRequest() async throws {
            let byteCount = 24_000_000
            let server = try TestServer()
            let early = Data("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly".utf8)
            server.enqueue(
                Reply.status(200, body: "late").performing(.write(early), at: .requestStart).withholdingContinue())
            server.respond { .status(200, body: $0.path) }
            let transport = try CurlTransport.alone()
            let post = Request<Data>.post(server.url("/post")).body(Data(repeating: 0x41, count: byteCount))
            #expect(try await Sending(post, transport).response().value == Data("early".utf8))
            for path in ["/second", "/third"] {
                let next = try await Sending(Request<String>.get(server.url(path)), transport).response()
                #expect(next.value == path)
            }
            #expect(server.rejectedRequestCount == 0)
            // A truncated body is recorded after the truncation was noticed.
            try await server.requestsReceived(count: 3)
            let seen = server.recordedRequests
            #expect(seen.map(\.target).sorted() == ["/post", "/second", "/third"])
            let body = seen.first { $0.target == "/post" }?.body ?? Data()
            #expect(body == Data(repeating: 0x41, count: body.count))
        }

        @Test(arguments: [Reply.Step.reset, .close], [HTTPMethod.put, .post])
        func uploadLostInTheMiddleIsConnectionLost(step: Reply.Step, method: HTTPMethod) async throws {
            let directory = try TemporaryDirectory()
            let file = directory.file("body")
            try Data(count: 12_000_000).write(to: file)
            for isFile in [false, true] {
                let server = try TestServer()
                server.enqueue(Reply.status(200).performing(step, at: .requestBody(afterBytes: 100_000)))
                let request = Request<Data>(method: method, url: server.url())
                let sent = EventLog<Int64>()
                let sending = Sending(
                    isFile ? request.body(fromFile: file) : request.body(Data(count: 12_000_000))
                ) { operation in operation.onProgress { sent.record($0.upload.completedBytes) } }
                let error = try await sending.error()
                error.expect(.connectionLost, status: 0)
                #expect(server.requestCount == 1)
                #expect(sending.operation.progress.upload.completedBytes <= 12_000_000)
                #expect(sent.events == sent.events.sorted())
            }
        }

        /// libcurl may repeat a request that the server rejected because of `Expect`.
        ///
        /// Status and body must be of one response.
        @Test(arguments: [HTTPMethod.put, .post])
        func refusedExpectationIsFollowedByTheAnswer(method: HTTPMethod) async throws {
            let server = try TestServer()
            let refusal = Data("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 7\r\n\r\nrefused".utf8)
            server.enqueue(
                Reply.status(200).performing(.write(refusal), at: .requestStart).performing(.close, at: .requestStart))
            server.respond { .status(200, body: "\($0.bodyByteCount)") }
            let request = Request<String>(method: method, url: server.url()).body(Data(count: 3_000_000))
                .header("Expect", "100-continue").acceptableStatusCodes(.any)
            let response = try await Sending(request).response()
            #expect([200: "3000000", 417: "refused"][response.statusCode] == response.value)
        }
    }
#endif
