// Tests bodies whose length differs from the announced one.
#if canImport(CLibcurl)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    @Suite(.timeLimit(.minutes(5))) struct LengthFaultTests {
        /// A complete response among extra bytes after another response.
        ///
        /// A client must not use it as the response to its next request.
        private static let evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"

        @Test(arguments: [
            FaultVariant("text", fields: ["Content-Length: 5"], body: "hello, and more", closes: false),
            FaultVariant("an answer", fields: ["Content-Length: 5"], body: "hello" + evil, closes: false),
            FaultVariant("a byte", fields: ["Content-Length: 5"], body: "hello!", closes: false),
            FaultVariant("line end", fields: ["Content-Length: 5"], body: "hello\r\n", closes: false),
        ])
        func bytesAfterTheBodyAreNotDelivered(variant: FaultVariant) async throws {
            let (first, connections) = try await Fault.next(after: variant.reply)
            #expect(first.value == Data("hello".utf8))
            #expect(first.transfer.download.completedBytes == 5)
            #expect(connections == [1, 2, 2])
        }

        /// The client drops the bytes after the last chunk.
        @Test func bytesAfterTheLastChunkAreNotDelivered() async throws {
            let reply = FaultVariant("", chunked: "5\r\nhello\r\n0\r\n\r\n" + Self.evil, closes: false).reply
            let (first, _) = try await Fault.next(after: reply)
            #expect(first.value == Data("hello".utf8))
            #expect(first.transfer.download.completedBytes == 5)
        }

        /// The bytes arrive after the connection was returned to the pool.
        @Test(arguments: [", and more", evil])
        func bytesThatComeAfterTheAnswerAreNotTheNextOne(bytes: String) async throws {
            let (kept, sent) = (Gate(), Gate())
            let reply = Reply(steps: [
                .write(Data("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".utf8)), .wait(kept),
                .write(Data(bytes.utf8)), .wait(sent),
            ])
            let (first, connections) = try await Fault.next(after: reply) { _ in
                kept.open()
                try await sent.reached()
                sent.open()
            }
            #expect(first.value == Data("hello".utf8))
            #expect(connections == [1, 2, 2])
        }

        @Test(arguments: [
            FaultVariant("shorter first", fields: ["Content-Length: 5", "Content-Length: 6"], body: "hello!"),
            FaultVariant("longer first", fields: ["Content-Length: 6", "Content-Length: 5"], body: "hello!"),
            FaultVariant("in a list", fields: ["Content-Length: 5, 6"], body: "hello!"),
            FaultVariant("far apart", fields: ["Content-Length: 5", "X-A: b", "content-length: 0"], body: "hello"),
        ])
        func lengthsThatDifferAreABadResponse(variant: FaultVariant) async throws {
            let error = try await Fault.error(of: variant.reply) { $0 }
            #expect(error.code == .badResponse, "\(error)")
        }

        @Test func lengthsThatAgreeAreOne() async throws {
            let reply = FaultVariant("", fields: ["Content-Length: 5", "Content-Length: 5"], body: "hello").reply
            #expect(try await Fault.response(to: reply).value == Data("hello".utf8))
        }

        @Test(arguments: ["-5", "0x3", "18446744073709551617", "9223372036854775808", "5x", "five", ""])
        func anInvalidLengthIsABadResponse(length: String) async throws {
            for closes in [true, false] {
                let reply = FaultVariant("", fields: ["Content-Length: \(length)"], body: "hello", closes: closes).reply
                let error = try await Fault.error(of: reply) { $0 }
                #expect(error.code == .badResponse, "closes: \(closes), \(error)")
            }
        }

        /// The lengths are the largest `Int64` and one tebibyte.
        @Test(arguments: ["9223372036854775807", "1099511627776"])
        func hugeLengthIsStreamedUntilTheConnectionEnds(length: String) async throws {
            let reply = FaultVariant("", fields: ["Content-Length: \(length)"], body: "hello").reply
            let error = try await Fault.error(of: reply) { $0.ignoringBody() }
            #expect(error.code == .connectionLost, "\(error)")
            #expect(error.isRetryable)
            #expect(error.response?.expectedBytes == Int64(length))
            let stream = try await Fault.error(of: reply) { $0.written { OutputStream(toMemory: ()) } }
            #expect(stream.code == .connectionLost, "\(stream)")
        }

        /// The announced body exceeds the memory limit, so the client reads no byte of the body.
        @Test(arguments: ["9223372036854775807", "1099511627776"])
        func hugeLengthIsTooLargeForMemory(length: String) async throws {
            let gate = Gate()
            let head = Data("HTTP/1.1 200 OK\r\nContent-Length: \(length)\r\n\r\n".utf8)
            // The server sends no byte of the body before the client has given up.
            let error = try await Fault.error(of: Reply(steps: [.write(head), .wait(gate)])) { $0 }
            #expect(error.code == .bodyTooLarge, "\(error)")
            #expect(!error.isRetryable)
            #expect(gate.arrivals == 1)
        }

        /// The check of the free disk space races with the end of the connection.
        ///
        /// So the error is `connectionLost` or `diskFull`.
        @Test func hugeLengthLeavesNoFile() async throws {
            let directory = try TemporaryDirectory()
            let file = directory.file("target")
            let reply = FaultVariant("", fields: ["Content-Length: 1099511627776"], body: "hello").reply
            let error = try await Fault.error(of: reply) { $0.saved(to: file) }
            #expect([.connectionLost, .diskFull].contains(error.code), "\(error)")
            #expect(!FileManager.default.fileExists(atPath: file.path))
        }

        @Test(arguments: [
            FaultVariant(
                "shorter length", fields: ["Content-Length: 3", "Transfer-Encoding: chunked"],
                body: "5\r\nhello\r\n0\r\n\r\n", closes: false),
            FaultVariant(
                "longer length", fields: ["Content-Length: 300", "Transfer-Encoding: chunked"],
                body: "5\r\nhello\r\n0\r\n\r\n", closes: false),
            FaultVariant(
                "coding first", fields: ["Transfer-Encoding: chunked", "Content-Length: 3"],
                body: "5\r\nhello\r\n0\r\n\r\n", closes: false),
            FaultVariant(
                "coding first, longer length", fields: ["Transfer-Encoding: chunked", "Content-Length: 300"],
                body: "5\r\nhello\r\n0\r\n\r\n", closes: false),
            FaultVariant(
                "length zero", fields: ["Transfer-Encoding: Chunked", "Content-Length: 0"],
                body: "5\r\nhello\r\n0\r\n\r\n", closes: false),
        ])
        func chunkedWinsOverALength(variant: FaultVariant) async throws {
            let (first, _) = try await Fault.next(after: variant.reply)
            #expect(first.value == Data("hello".utf8))
            #expect(first.transfer.download.completedBytes == 5)
        }
    }
#endif
