// Tests heads and bodies that are cut off, and chunked coding. Wrong lengths are in LengthFaultTests.
#if canImport(CLibcurl)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    @Suite(.timeLimit(.minutes(5))) struct FramingFaultTests {
        /// The head is cut off at every byte, including the last line end.
        @Test(arguments: [Reply.Step.close, .reset])
        func headCutAnywhereIsAnError(step: Reply.Step) async throws {
            let head = Data("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-A: b\r\n\r\n".utf8)
            let server = try TestServer()
            defer { server.shutDown() }
            server.respond { request in
                let count = request.query.flatMap { Int($0) } ?? 0
                return Reply(steps: [.write(head.prefix(count)), step])
            }
            for count in 0..<head.count {
                let result = try await Sending(server.get("/?\(count)").acceptableStatusCodes(.any)).result()
                #expect([.connectionLost, .badResponse].contains(result.code), "\(count) bytes: \(result)")
            }
            // With its last byte the head is complete, so it is a response.
            let whole = try await Sending(server.get("/?\(head.count)")).response()
            #expect(whole.headerFields["X-A"] == "b")
        }

        /// The target file never has a partial body.
        @Test(arguments: [
            FaultVariant(
                "FIN", Reply.generated(byteCount: 200_000).performing(.close, at: .responseBody(afterBytes: 100_000))),
            FaultVariant(
                "RST", Reply.generated(byteCount: 200_000).performing(.reset, at: .responseBody(afterBytes: 100_000))),
            FaultVariant("chunked", chunked: "5\r\nhello\r\n"),
        ])
        func bodyCutShortLeavesNoFile(variant: FaultVariant) async throws {
            let directory = try TemporaryDirectory()
            let file = directory.file("target")
            let error = try await Fault.error(of: variant.reply) { $0.saved(to: file) }
            #expect(error.code == .connectionLost, "\(error)")
            #expect(error.isRetryable)
            #expect(error.response?.statusCode == 200)
            #expect(!FileManager.default.fileExists(atPath: file.path))
        }

        /// A body that ends with its connection is incomplete when the connection is reset.
        @Test func resetOfABodyWithoutALengthIsConnectionLost() async throws {
            let reply = Reply(steps: [.write(Data("HTTP/1.1 200 OK\r\n\r\nhello".utf8)), .reset])
            try await Fault.expect(.connectionLost, of: reply, status: 200)
        }

        @Test(arguments: [
            "", "5", "5\r\n", "5\r\nhel", "5\r\nhello", "5\r\nhello\r\n", "5\r\nhello\r\n0", "5\r\nhello\r\n0\r\n",
            "5\r\nhello\r\n0\r\nX-Trailer: 1\r\n",
        ])
        func chunkedBodyWithoutItsEndIsConnectionLost(body: String) async throws {
            try await Fault.expect(.connectionLost, of: FaultVariant("", chunked: body).reply, status: 200)
        }

        /// libcurl before 8.7 accepts a CR without LF as the end of a complete chunked body.
        @Test(arguments: ["5\r\nhello\r\n0\r\n\r", "5\r\nhello\r\n0\r\nX-Trailer: 1\r\n\r"])
        func chunkedBodyWithoutItsLastLineFeedIsConnectionLost(body: String) async throws {
            let reply = FaultVariant("", chunked: body).reply
            if CurlLibrary.version < 0x08_07_00 {
                #expect(try await Fault.response(to: reply).value == Data("hello".utf8))
            } else {
                try await Fault.expect(.connectionLost, of: reply, status: 200)
            }
        }

        @Test(arguments: [
            FaultVariant("negative", chunked: "-5\r\nhello\r\n0\r\n\r\n"),
            FaultVariant("2^64-1", chunked: "FFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n"),
            FaultVariant("2^63", chunked: "8000000000000000\r\nhello\r\n0\r\n\r\n"),
            FaultVariant("17 digits", chunked: "FFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n"),
            FaultVariant("no digit", chunked: "zz\r\nhello\r\n0\r\n\r\n"),
            FaultVariant("0x", chunked: "0x5\r\nhello\r\n0\r\n\r\n"),
            FaultVariant("empty size", chunked: "\r\nhello\r\n0\r\n\r\n"),
            FaultVariant("no CRLF behind a chunk", chunked: "5\r\nhello0\r\n\r\n"),
            FaultVariant("more than its size", chunked: "5\r\nhello, and more\r\n0\r\n\r\n"),
        ])
        func malformedChunkIsAnError(variant: FaultVariant) async throws {
            try await Fault.expect(.badResponse, .connectionLost, of: variant.reply, status: 200)
        }

        /// The client allocates no memory for the announced length of a chunk.
        @Test func hugeChunkThatIsClaimedIsNotAllocated() async throws {
            let reply = FaultVariant("", chunked: "7FFFFFFFFFFFFFF0\r\nhello", closes: true).reply
            try await Fault.expect(.connectionLost, .badResponse, .bodyTooLarge, of: reply, status: 200)
        }

        @Test(arguments: [
            FaultVariant("extension", chunked: "5;a=b\r\nhello\r\n0\r\n\r\n", closes: false),
            FaultVariant("quoted extension", chunked: "5;a=\"b;c\";d\r\nhello\r\n0\r\n\r\n", closes: false),
            FaultVariant("extension of the last", chunked: "5\r\nhello\r\n0;a=b\r\n\r\n", closes: false),
            FaultVariant("leading zeros", chunked: "00005\r\nhello\r\n000\r\n\r\n", closes: false),
            FaultVariant("trailer", chunked: "5\r\nhello\r\n0\r\nX-A: b\r\nX-C: d\r\n\r\n", closes: false),
            // libcurl 7.88 limits each trailer line to 4 KiB.
            FaultVariant(
                "large trailer",
                chunked: "5\r\nhello\r\n0\r\nX-A: \(String(repeating: "a", count: 3_000))\r\n\r\n", closes: false),
        ])
        func chunkExtensionsAndTrailersLeaveTheBodyAsItIs(variant: FaultVariant) async throws {
            let (first, connections) = try await Fault.next(after: variant.reply)
            #expect(first.value == Data("hello".utf8))
            #expect(first.transfer.download.completedBytes == 5)
            // The connection is still usable.
            #expect(connections == [1, 1, 1])
        }
    }
#endif
