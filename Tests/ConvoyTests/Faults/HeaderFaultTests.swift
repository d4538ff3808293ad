// Tests heads: fields that are too large or malformed, status lines and status codes.
#if canImport(CLibcurl)
    import Foundation
    import Testing

    @testable import Convoy

    @Suite(.timeLimit(.minutes(5))) struct HeaderFaultTests {
        private static let ok = Data("HTTP/1.1 200 OK\r\n".utf8)

        /// A complete response with these lines in its header.
        private static func reply(_ lines: String, count: Int = 1) -> Reply {
            Reply(steps: [
                .write(ok), .writeRepeatedly(Data(lines.utf8), count: count),
                .write(Data("Content-Length: 5\r\n\r\nhello".utf8)), .close,
            ])
        }

        private static func line(_ byteCount: Int) -> String {
            "X-A: \(String(repeating: "a", count: byteCount - 7))\r\n"
        }

        // MARK: Headers that are too large

        @Test(arguments: [(90_000, 1), (1_000, 90), (1_000, 250), (10, 4_000)])
        func largeHeaderPasses(lineBytes: Int, count: Int) async throws {
            let response = try await Fault.response(to: Self.reply(Self.line(lineBytes), count: count))
            #expect(response.value == Data("hello".utf8))
            #expect(response.headerFields.values(of: "X-A").allSatisfy { $0.allSatisfy { $0 == "a" } })
            #expect(response.headerFields.values(of: "X-A").count >= 1)
        }

        @Test(arguments: [
            reply(line(400_000)), reply(line(1_000), count: 400), reply(line(10), count: 10_000),
            reply(line(1_000), count: 1 << 30), reply("X:\r\n", count: 1 << 30),
            // A value, a name, a reason, a status line, a folded line, and interim responses without an end.
            endless("HTTP/1.1 200 OK\r\nX-A: ", "a"), endless("HTTP/1.1 200 OK\r\n", "a"),
            endless("HTTP/1.1 200 ", "a"), endless("", "a"), endless("HTTP/1.1 200 OK\r\nX-A: b\r\n", " c\r\n"),
            endless("", "HTTP/1.1 100 Continue\r\n\r\n"),
            endless("", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
        ])
        func headerWithoutMeasureIsABadResponse(reply: Reply) async throws {
            try await Fault.expect(.badResponse, of: reply, status: nil)
        }

        /// libcurl's own text for both is "Out of memory" up to 8.5.
        @Test func tooLongAFieldIsNamed() async throws {
            let received = try await Fault.error(of: Self.reply(Self.line(400_000))) { $0 }
            #expect(!received.message.contains("memory"), "\(received)")
            let server = try TestServer(always: .status(200))
            let field = String(repeating: "a", count: 2_000_000)
            let sent = try await Sending(server.get().header("X-A", field), CurlTransport.shared).error()
            #expect(sent.code == .invalidRequest)
            #expect(sent.message.contains("longer than 1 MiB"), "\(sent)")
        }

        private static func endless(_ beginning: String, _ text: String) -> Reply {
            Reply(steps: [.write(Data(beginning.utf8)), .writeRepeatedly(Data(text.utf8), count: 1 << 40)])
        }

        /// The limits of the header also apply to trailers after the last chunk.
        @Test(arguments: ["X-A: b\r\n", "a"])
        func endlessTrailerIsAnError(text: String) async throws {
            let chunk = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"
            try await Fault.expect(.badResponse, .connectionLost, of: Self.endless(chunk, text), status: 200)
        }

        @Test func limitsOfTheHeaderCanBeSet() async throws {
            let transport = try CurlTransport.alone {
                $0.maxHeaderBytes = 1_000
                $0.maxHeaderFieldCount = 10
            }
            for (lines, count, passes) in [
                (Self.line(900), 1, true), (Self.line(1_000), 1, false), (Self.line(10), 9, true),
                (Self.line(10), 10, false),
            ] {
                let server = try TestServer(always: Self.reply(lines, count: count))
                let result = try await Sending(server.get(), transport).result()
                #expect(result.code == (passes ? nil : .badResponse), "\(lines.count) bytes, \(count) times: \(result)")
            }
        }

        // MARK: Malformed fields

        /// libcurl 7.88 reports a header line that begins with NUL as a truncated header.
        @Test(arguments: [
            "X-A: a\0b", "X\0A: b", "X-A b", "X A: b", "X-A : b", "Transfer-Encoding : chunked", ": b", "X\u{1}A: b",
            "\0",
        ])
        func malformedFieldIsABadResponse(line: String) async throws {
            let orLost = line == "\0" ? RequestError.Code.connectionLost : .badResponse
            try await Fault.expect(.badResponse, orLost, of: Self.reply(line + "\r\n"), status: nil)
        }

        @Test(arguments: [
            (Data("X-A: h".utf8) + [0xFC], "h\u{FC}"), (Data("X-A: h\u{FC}".utf8), "h\u{FC}"),
            (Data("X-A: a: b".utf8), "a: b"), (Data("X-A:".utf8), ""), (Data("X-A: \t b \t ".utf8), "b"),
        ])
        func unusualValueIsAccepted(line: Data, value: String) async throws {
            let rest = Data("\r\nContent-Length: 5\r\n\r\nhello".utf8)
            let response = try await Fault.response(to: .raw(Self.ok + line + rest))
            #expect(response.headerFields["X-A"] == value)
            #expect(response.value == Data("hello".utf8))
        }

        /// libcurl 7.84 to 8.1.0 appends a folded first line to the last header of the previous response, which has
        /// been freed.
        ///
        /// Newer versions append the folded line to the status line.
        @Test func answerThatBeginsWithAFoldedLineLeavesMemoryAlone() async {
            await #expect(processExitsWith: .success) {
                endProcessIfStuck()
                let server = try TestServer()
                let folded = "HTTP/1.1 200 OK\r\n folded: \(String(repeating: "z", count: 90))\r\n"
                server.respond { request in
                    switch request.path {
                    case "/folded": .raw(folded + "Content-Length: 2\r\n\r\nok", closes: false)
                    case "/redirect": .status(302, headerFields: [("Location", "/folded")])
                    default: .status(200, headerFields: [("X-Last", "value")], body: "ok")
                    }
                }
                let transport = try CurlTransport.alone()
                let manager = RequestManager(configuration: .init(transport: .custom(transport)))
                for target in ["/folded", "/redirect", "/folded", "/redirect", "/folded"] {
                    #expect(try await manager.send(server.get("/plain")).value == Data("ok".utf8))
                    let operation = manager.enqueue(server.get(target)) { _ in }
                    do { #expect(try await operation.response().value == Data("ok".utf8)) } catch {
                        #expect((error as? RequestError)?.code == .badResponse, "\(error)")
                    }
                }
            }
        }

        /// After this response, libcurl before 8.10 would send concurrent requests on the HTTP/1.1 connection.
        @Test func answerThatCallsItselfHTTP2MakesNoConnectionShared() async throws {
            let (server, gate) = (try TestServer(), Gate())
            server.respond { request in
                switch request.path {
                case "/lie": .raw("HTTP/2 200 OK\r\nContent-Length: 2\r\n\r\nok", closes: false)
                case "/slow": Reply.status(200, body: "slow").stalling(until: gate)
                default: .status(200, body: "quick")
                }
            }
            let transport = try CurlTransport.alone()
            #expect(try await Sending(server.get("/lie"), transport).error().code == .badResponse)
            let slow = Sending(server.get("/slow"), transport)
            try await gate.reached()
            #expect(try await Sending(server.get("/quick"), transport).response().value == Data("quick".utf8))
            gate.open()
            #expect(try await slow.response().value == Data("slow".utf8))
        }

        @Test(arguments: [
            "HTTP/1.1 200 OK\nX-A: b\nContent-Length: 5\n\nhello",
            "HTTP/1.1 200 OK\nX-A: b\nTransfer-Encoding: chunked\n\n5\nhello\n0\n\n",
            "HTTP/1.1 200 OK\r\nX-A: b\nContent-Length: 5\r\n\nhello", "HTTP/1.0 200 OK\r\nX-A: b\r\n\r\nhello",
            "HTTP/1.1 200 \r\nX-A: b\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200\r\nX-A: b\r\nContent-Length: 5\r\n\r\nhello",
        ])
        func leniencyOfTheStandardIsGranted(bytes: String) async throws {
            let response = try await Fault.response(to: .raw(bytes))
            #expect(response.statusCode == 200)
            #expect(response.headerFields["X-A"] == "b")
            #expect(response.value == Data("hello".utf8))
        }

        // MARK: Malformed status lines

        private static let rest = "\r\nContent-Length: 5\r\n\r\nhello"

        private static let statusLines = [
            "ICY 200 OK", "HTTP/2 200 OK", "HTTP/3.0 200 OK", "HTTP/1.1x 200 OK", "HTTP/11 200 OK", "HTTP/1.1 -200 OK",
            "HTTP/1.1 abc OK", "HTTP/1.1 099 OK", "HTTP/1.1 20 OK", "HTTP/1.1 2000 OK", "HTTP/1.1",
        ].map { $0 + rest }
        /// HTTP/0.9, a page of it, garbage, SSH, and an alert of TLS.
        private static let others = [
            "hello", "<html>\r\n<p>hello</p>\r\n\r\n</html>\r\n", "garbage\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n",
            "\u{15}\u{3}\u{1}\u{0}\u{2}\u{2}\u{46}",
        ]

        @Test(arguments: (statusLines + others).map { Data($0.utf8) } + [Reply.pattern(range: 0..<4_096)])
        func anInvalidStatusLineIsABadResponse(bytes: Data) async throws {
            try await Fault.expect(.badResponse, of: .raw(bytes), status: nil)
        }

        /// The connection stays open.
        @Test(arguments: ["garbage", "HTTP/3.0 200 OK", "HTTP/1.1 abc OK", "HTTP/1.1 099 OK"])
        func nothingIsAwaitedAfterAnInvalidStatusLine(line: String) async throws {
            try await Fault.expect(.badResponse, of: .raw(line + "\r\n\r\n", closes: false), status: nil)
        }

        @Test(arguments: [600, 999])
        func statusThatNobodyKnowsPasses(status: Int) async throws {
            let reply = Reply.raw("HTTP/1.1 \(status) What" + Self.rest)
            let response = try await Fault.response(to: reply) { $0.acceptableStatusCodes(.any) }
            #expect(response.statusCode == status)
            #expect(response.value == Data("hello".utf8))
            let error = try await Fault.error(of: reply) { $0 }
            #expect(error.code == .unacceptableStatus)
            #expect(error.response?.statusCode == status)
        }

        // MARK: Texts that could split a request

        @Test(arguments: [
            "\r\nX-Injected: 1", "\nX-Injected: 1", "\r", "\n", "\0", "a\0b", "b\r\n\r\nGET /evil HTTP/1.1",
        ])
        func lineEndsInFieldsAreRefused(text: String) async throws {
            let server = try TestServer()
            let requests = [
                server.get().header("X-A", text), server.get().header("X-A\(text)", "b"),
                server.get().bearer(text), server.get().addingHeader("X-A", "b").addingHeader("X-A", text),
                server.get().header("Host", text),
                Request<Data>(method: HTTPMethod(rawValue: "GET\(text)"), url: server.url()),
                Request<Data>.post(server.url()).body(Data("x".utf8), contentType: text),
            ]
            for request in requests {
                let sending = Sending(request)
                let error = try await sending.error()
                error.expect(.invalidRequest)
                #expect(sending.operation.progress.upload.completedBytes == 0)
            }
            #expect(server.connectionCount == 0)
        }

        /// Line ends in a URL are percent-encoded, or the request fails.
        @Test(arguments: ["\r\nX-Injected: 1", "\nX-Injected: 1", "\u{0}", " HTTP/1.1\r\nX-Injected: 1\r\n\r\n"])
        func lineEndsInURLsAreEncodedOrRefused(text: String) async throws {
            let server = try TestServer(always: .status(200))
            let base = server.url("/a").absoluteString
            for request in [Request<Data>.get(base + text), .get(base + "?q=" + text), .get(base).query("q", text)] {
                if case .failure(let error) = try await Sending(request).result() {
                    #expect(error.code == .invalidRequest, "\(error)")
                    continue
                }
                let seen = try await server.takeRequest()
                #expect(seen.value(of: "X-Injected") == nil)
                #expect(seen.path.hasPrefix("/a"))
                #expect(seen.target.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F })
            }
            #expect(server.rejectedRequestCount == 0)
        }
    }

    /// Tests nonstandard status lines and fields that are accepted.
    @Suite(.timeLimit(.minutes(5))) struct StatusLineFaultTests {
        /// The status code of a head with this status line; nil if the line is refused.
        ///
        /// libcurl reads a status line with a lower-case `http` as status 200. It would wait for a body, so Convoy
        /// rejects such a line if its status has no body.
        @Test(
            arguments: [
                ("HTTP/1.1 200 OK", 200), ("HTTP/1.1  200 OK", 200), ("HTTP/1.1   404  Not Found", 404),
                ("HTTP/1.1 204", 204), ("HTTP/2 200 ", 200), ("http/1.1 200 OK", 200), ("Http/1.0 404 no", 404),
                ("http/1.1 204 No Content", nil), ("http/1.1 304 Not Modified", nil), ("http/1.1 100 Continue", nil),
                ("HTTP/1.1\t200 OK", nil), ("HTTP/1.1 200\tOK", nil), (" HTTP/1.1 200 OK", nil),
                ("HTTP/1.1200 OK", nil), ("HTTP /1.1 200 OK", nil), ("HTTP/1.1  ", nil), ("HTTP/1.1 20 0", nil),
                ("HTTP/1.1 +200 OK", nil), ("HTTP/1.2 200 OK", nil),
            ] as [(String, Int?)])
        func statusLineIsReadOrRefused(line: String, status: Int?) throws {
            var parser = CurlHeaderParser(ConnectionOptions())
            do {
                _ = try Array((line + "\r\n").utf8).withUnsafeBytes { try parser.take($0) }
                let head = try #require(try Array("\r\n".utf8).withUnsafeBytes { try parser.take($0) })
                #expect(head.statusCode == status)
            } catch is RequestError { #expect(status == nil) }
        }

        /// libcurl 7.88 accepts two blanks; 8.12 rejects them.
        @Test(arguments: ["HTTP/1.1  404 No", "http/1.1 404 No"])
        func otherBlanksAndLettersAreHTTP(line: String) async throws {
            let server = try TestServer(always: .raw(line + "\r\nContent-Length: 5\r\n\r\nhello"))
            let result = try await Sending(server.get().acceptableStatusCodes(.any)).result()
            if line.hasPrefix("HTTP"), result.code == .badResponse { return }
            #expect(try result.get().statusCode == 404)
            #expect(try result.get().value == Data("hello".utf8))
        }
    }

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
            // The fields of an interim response, including its length, do not apply to the final one.
            let reply = Reply.status(200, body: "hello").informational(
                103, headerFields: [("Link", "</a>"), ("Content-Length", "3"), ("Content-Encoding", "gzip")])
            let response = try await Fault.response(to: reply)
            #expect(response.value == Data("hello".utf8) && response.head.expectedBytes == 5)
            #expect(!response.headerFields.contains("Link"))
        }

        /// The client did not ask to switch protocols: RFC 9110, section 15.2.2.
        @Test(arguments: [true, false])
        func unaskedSwitchOfProtocolsIsABadResponse(closes: Bool) async throws {
            let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
            try await Fault.expect(.badResponse, of: .raw(head, closes: closes), status: nil)
            let answer = head + "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
            try await Fault.expect(.badResponse, of: .raw(answer, closes: closes), status: nil)
            // An interim response is not a final response.
            for status in [100, 103] {
                let reply = Reply.raw("HTTP/1.1 \(status) Interim\r\n\r\n")
                try await Fault.expect(.connectionLost, .badResponse, of: reply, status: nil)
            }
        }

        /// A 206 to a request without `Range` is a bad response (RFC 9110, section 15.3.7), like one with other bytes.
        @Test func aPartThatWasNotRequestedIsABadResponse() async throws {
            let reply = Reply.status(206, headerFields: [("Content-Range", "bytes 0-4/10")], body: "hello")
            let error = try await Fault.error(of: reply, closes: false) { $0 }
            #expect(error.code == .badResponse, "\(error)")
            #expect(error.response?.statusCode == 206)
            #expect(error.message.contains("206"), "\(error)")
            let asked = try await Fault.response(to: reply) { $0.header("Range", "bytes=0-4") }
            #expect(asked.value == Data("hello".utf8))
            for range in ["bytes 0-4/100", "bytes 5-12/100", "5-9", nil] {
                let other = Reply.status(206, headerFields: range.map { [("Content-Range", $0)] } ?? [], body: "hello")
                let error = try await Fault.error(of: other, closes: false) { $0.header("Range", "bytes=5-9") }
                #expect(error.code == .badResponse, "\(error)")
                #expect(error.message.contains("bytes=5-9"), "\(error)")
            }
        }

        // MARK: Responses without a body

        private static let evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"

        @Test(
            arguments: [(HTTPMethod.get, 204), (.get, 304), (.head, 200), (.head, 404)],
            [
                ("Content-Length: 5\r\n", ""), ("Content-Length: 1099511627776\r\n", ""),
                ("Content-Length: 5\r\n", "hello"), ("", "hello"), ("Transfer-Encoding: chunked\r\n", ""),
                ("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"), ("", evil),
                ("Content-Length: \(evil.count)\r\n", evil), ("Transfer-Encoding: gzip, chunked\r\n", ""),
                // A response without a body cannot be truncated.
                ("Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n", ""),
            ])
        func answerWithoutABodyHasNone(request: (method: HTTPMethod, status: Int), stray: (field: String, body: String))
            async throws
        {
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
        ///
        /// The end of a head without a body is the end of the response, so the client does not wait for them.
        @Test(
            arguments: [(.get, 204, ""), (.get, 304, ""), (.head, 200, ""), (.get, 200, "hello")]
                as [(HTTPMethod, Int, String)], [", and more", evil])
        func bytesThatComeAfterTheAnswerAreNotTheNextOne(
            request: (method: HTTPMethod, status: Int, body: String), bytes: String
        ) async throws {
            let (kept, sent) = (Gate(), Gate())
            let count = request.body.isEmpty ? bytes.utf8.count : request.body.utf8.count
            let head = "HTTP/1.1 \(request.status) OK\r\nContent-Length: \(count)\r\n\r\n"
            let reply = Reply(steps: [
                .write(Data((head + request.body).utf8)), .wait(kept), .write(Data(bytes.utf8)), .wait(sent),
            ])
            let (first, connections) = try await Fault.next(after: reply, method: request.method) { _ in
                kept.open()
                try await sent.reached()
                sent.open()
            }
            #expect(first.statusCode == request.status)
            #expect(first.value == Data(request.body.utf8))
            #expect(connections == [1, 2, 2])
        }
    }
#endif
