// Tests transfer codings other than a single, final `chunked` in HTTP/1.1 (RFC 9112, section 6).
#if canImport(CLibcurl)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    @Suite(.timeLimit(.minutes(5))) struct TransferCodingFaultTests {
        private static let chunks = "5\r\nhello\r\n0\r\n\r\n"

        /// A 200 with these Transfer-Encoding fields and a chunked body.
        private static func reply(
            _ codings: [String], _ other: String = "", body: String = chunks, version: String = "1.1"
        ) -> Reply {
            let fields = codings.map { "Transfer-Encoding: \($0)\r\n" }.joined()
            return .raw("HTTP/\(version) 200 OK\r\n\(fields)\(other)\r\n\(body)")
        }

        static let refused = [
            FaultVariant("xchunked", reply(["xchunked"])),
            FaultVariant("gzip", reply(["gzip"])),
            FaultVariant("gzip, chunked", reply(["gzip, chunked"])),
            FaultVariant("gzip and chunked in two fields", reply(["gzip", "chunked"])),
            FaultVariant("chunked, gzip", reply(["chunked, gzip"])),
            FaultVariant("chunked twice", reply(["chunked, chunked"])),
            FaultVariant("two fields", reply(["chunked", "chunked"])),
            FaultVariant("unknown, with a length", reply(["foo"], "Content-Length: 5\r\n", body: "hello")),
            FaultVariant("identity", reply(["identity"], body: "hello")),
            FaultVariant("identity, with a length", reply(["identity"], "Content-Length: 5\r\n", body: "hello")),
            FaultVariant("parameter", reply(["chunked;a=b"])),
            FaultVariant("quoted", reply(["\"chunked\""])),
            FaultVariant("no coding", reply([""], body: "hello")),
            FaultVariant("HTTP/1.0", reply(["chunked"], version: "1.0")),
            FaultVariant("no-break space", reply(["\u{A0}chunked"])),
            FaultVariant("ideographic space", reply(["chunked\u{3000}"])),
            FaultVariant("zero width space", reply(["\u{200B}chunked"])),
            FaultVariant("vertical tab", reply(["chunked\u{B}"])),
            FaultVariant("Kelvin sign", reply(["chun\u{212A}ed"])),
            FaultVariant("full width", reply(["\u{FF43}hunked"])),
        ]

        @Test(arguments: refused)
        func codingThatNobodyAskedForIsABadResponse(variant: FaultVariant) async throws {
            try await Fault.expect(.badResponse, of: variant.reply, status: nil)
        }

        @Test(arguments: refused)
        func codingThatNobodyAskedForLeavesNoFile(variant: FaultVariant) async throws {
            let directory = try TemporaryDirectory()
            let error = try await Fault.error(of: variant.reply) { $0.saved(to: directory.file("target")) }
            #expect(error.code == .badResponse, "\(error)")
            #expect(try directory.entries == [])
        }

        /// URLSession passes the field on unchanged, so Convoy can reject the response.
        @Test(arguments: [
            FaultVariant("xchunked", reply(["xchunked"])), FaultVariant("gzip, chunked", reply(["gzip, chunked"])),
            FaultVariant("chunked twice", reply(["chunked", "chunked"])),
        ])
        func urlSessionRefusesItToo(variant: FaultVariant) async throws {
            let server = try TestServer(always: variant.reply)
            defer { server.shutDown() }
            let error = try await Sending(server.get(), over: URLSessionTransport.shared).error()
            #expect(error.code == .badResponse, "\(error)")
        }

        @Test(arguments: [
            FaultVariant("chunked", reply(["chunked"])), FaultVariant("Chunked", reply(["Chunked"])),
            // Empty members of a list are ignored (RFC 9110, section 5.6.1.2).
            FaultVariant("empty members", reply([", chunked ,"])),
            FaultVariant("with a length", reply(["chunked"], "Content-Length: 3\r\n")),
        ])
        func chunkedOnceIsRead(variant: FaultVariant) async throws {
            let response = try await Fault.response(to: variant.reply)
            #expect(response.value == Data("hello".utf8))
        }

        /// libcurl 8.18 and newer joins the lines.
        ///
        /// Older versions use the first one to find the end of the body.
        @Test(arguments: ["\r\n chunked", "\r\n\tchunked", ",\r\n chunked", "chunked\r\n ", "\r\n \r\n chunked"])
        func foldedCodingIsReadWholeOrRefused(value: String) async throws {
            for (body, isWhole) in [(Self.chunks, true), ("500\r\nhel", false)] {
                let directory = try TemporaryDirectory()
                let server = try TestServer(always: Self.reply([value], body: body))
                defer { server.shutDown() }
                let result = try await Sending(
                    server.get().saved(to: directory.file("target")), over: CurlTransport.shared
                ).result()
                switch result {
                case .success:
                    #expect(isWhole)
                    #expect(try Data(contentsOf: directory.file("target")) == Data("hello".utf8))
                case .failure(let error):
                    #expect(error.code == .badResponse || error.code == .connectionLost && !isWhole, "\(error)")
                    #expect(try directory.entries == [])
                }
            }
        }

        /// A response without a body has no framing, so a transfer coding in its head is ignored.
        @Test(arguments: [(HTTPMethod.head, 200), (.get, 304)])
        func answerWithoutABodyHasNoFraming(method: HTTPMethod, status: Int) async throws {
            let reply = Reply.raw("HTTP/1.1 \(status) OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n")
            let server = try TestServer(always: reply)
            defer { server.shutDown() }
            let request = Request<Data>(method: method, url: server.url()).acceptableStatusCodes(.any)
            #expect(try await Sending(request).response().statusCode == status)
        }
    }
#endif
