// Tests interim responses, and responses without a body.
#if canImport(CLibcurl)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    @Suite(.timeLimit(.minutes(5))) struct StatusFaultTests {
        // MARK: Interim responses

        @Test(arguments: [[100], [103], [102, 100, 103], [199], Array(repeating: 100, count: 200)])
        func finalAnswerWins(interim: [Int]) async throws {
            let (first, connections) = try await Fault.next(
                after: Reply.status(200, headerFields: [("X-A", "final")], body: "hello")
                    .informational(interim))
            #expect(first.statusCode == 200)
            #expect(first.headerFields["X-A"] == "final")
            #expect(first.value == Data("hello".utf8))
            #expect(first.transfer.download.completedBytes == 5)
            #expect(connections == [1, 1, 1])
        }

        /// The fields of an interim response, including its length, do not apply to the final one.
        @Test func fieldsOfAnInterimAnswerAreNotTheFinalOnes() async throws {
            let reply = Reply.status(200, body: "hello").informational(
                103, headerFields: [("Link", "</a>"), ("Content-Length", "3"), ("Content-Encoding", "gzip")])
            let response = try await Fault.response(to: reply)
            #expect(response.value == Data("hello".utf8))
            #expect(!response.headerFields.contains("Link"))
            #expect(response.head.expectedBytes == 5)
        }

        /// The client did not ask to switch protocols: RFC 9110, section 15.2.2.
        @Test(arguments: [true, false])
        func unaskedSwitchOfProtocolsIsABadResponse(closes: Bool) async throws {
            let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
            try await Fault.expect(.badResponse, of: .raw(head, closes: closes), status: nil)
            let answer = head + "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
            try await Fault.expect(.badResponse, of: .raw(answer, closes: closes), status: nil)
        }

        @Test(arguments: [100, 103])
        func anInterimResponseIsNotAFinalResponse(status: Int) async throws {
            let reply = Reply.raw("HTTP/1.1 \(status) Interim\r\n\r\n")
            try await Fault.expect(.connectionLost, .badResponse, of: reply, status: nil)
        }

        /// A 206 to a request without `Range` is a bad response (RFC 9110, section 15.3.7).
        @Test func unaskedPartIsABadResponse() async throws {
            let reply = Reply.status(206, headerFields: [("Content-Range", "bytes 0-4/10")], body: "hello")
            let error = try await Fault.error(of: reply, closes: false) { $0 }
            #expect(error.code == .badResponse, "\(error)")
            #expect(error.response?.statusCode == 206)
            #expect(error.message.contains("206"), "\(error)")
            let asked = try await Fault.response(to: reply) { $0.header("Range", "bytes=0-4") }
            #expect(asked.value == Data("hello".utf8))
        }

        /// A 206 with other bytes than requested is a bad response.
        @Test(arguments: ["bytes 0-4/100", "bytes 5-12/100", "5-9", nil])
        func anotherPartIsABadResponse(contentRange: String?) async throws {
            let fields = contentRange.map { [("Content-Range", $0)] } ?? []
            let reply = Reply.status(206, headerFields: fields, body: "hello")
            let error = try await Fault.error(of: reply, closes: false) { $0.header("Range", "bytes=5-9") }
            #expect(error.code == .badResponse, "\(error)")
            #expect(error.message.contains("bytes=5-9"), "\(error)")
        }

        // MARK: Responses without a body

        private static let evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"

        /// The bytes after a response whose status has no body.
        struct Stray: Sendable, CustomTestStringConvertible {
            let testDescription: String
            var field = ""
            var body = ""
        }

        @Test(
            arguments: [(HTTPMethod.get, 204), (.get, 304), (.head, 200), (.head, 404)],
            [
                Stray(testDescription: "a length", field: "Content-Length: 5\r\n"),
                Stray(testDescription: "a huge length", field: "Content-Length: 1099511627776\r\n"),
                Stray(testDescription: "a length and its body", field: "Content-Length: 5\r\n", body: "hello"),
                Stray(testDescription: "a body", body: "hello"),
                Stray(testDescription: "chunked, no chunks", field: "Transfer-Encoding: chunked\r\n"),
                Stray(
                    testDescription: "chunks", field: "Transfer-Encoding: chunked\r\n",
                    body: "5\r\nhello\r\n0\r\n\r\n"),
                Stray(testDescription: "an answer", body: evil),
                Stray(testDescription: "an announced answer", field: "Content-Length: \(evil.count)\r\n", body: evil),
            ])
        func answerWithoutABodyHasNone(request: (method: HTTPMethod, status: Int), stray: Stray) async throws {
            let head = "HTTP/1.1 \(request.status) Status\r\n\(stray.field)\r\n"
            let reply = Reply.raw(head + stray.body, closes: false)
            let (first, connections) = try await Fault.next(after: reply, method: request.method)
            #expect(first.statusCode == request.status)
            #expect(first.value.isEmpty)
            #expect(first.transfer.download.completedBytes == 0)
            #expect(connections.first == 1)
            #expect(connections.count == 3)
        }

        /// The bytes arrive after the connection was returned to the pool.
        @Test(arguments: [(HTTPMethod.get, 204), (.get, 304), (.head, 200)], ["hello", evil])
        func bodyThatComesAfterAnAnswerWithoutOneIsNotTheNextAnswer(
            request: (method: HTTPMethod, status: Int), bytes: String
        ) async throws {
            let (kept, sent) = (Gate(), Gate())
            let reply = Reply(steps: [
                .write(Data("HTTP/1.1 \(request.status) OK\r\nContent-Length: \(bytes.utf8.count)\r\n\r\n".utf8)),
                .wait(kept), .write(Data(bytes.utf8)), .wait(sent),
            ])
            let (first, connections) = try await Fault.next(after: reply, method: request.method) { _ in
                kept.open()
                try await sent.reached()
                sent.open()
            }
            #expect(first.statusCode == request.status)
            #expect(first.value.isEmpty)
            #expect(connections == [1, 2, 2])
        }

        /// The end of the head is the end of the response.
        ///
        /// The client does not wait for the announced bytes.
        @Test(arguments: [(HTTPMethod.get, 204), (.get, 304), (.head, 200)])
        func answerWithoutABodyIsCompleteAtOnce(method: HTTPMethod, status: Int) async throws {
            let gate = Gate()
            let head = Data("HTTP/1.1 \(status) OK\r\nContent-Length: 5\r\n\r\n".utf8)
            let server = try TestServer(always: Reply(steps: [.write(head), .wait(gate)]))
            defer { server.shutDown() }
            let request = Request<Data>(method: method, url: server.url()).acceptableStatusCodes(.any)
            #expect(try await Sending(request, try CurlTransport.alone()).response().statusCode == status)
            #expect(!gate.isOpen)
        }
    }
#endif
