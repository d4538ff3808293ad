// Tests downloads with a content coding: RFC 9110, section 8.4.
#if canImport(CLibcurl)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    @Suite(.timeLimit(.minutes(5))) struct CodedDownloadTests {
        private let directory: TemporaryDirectory
        private let server: TestServer
        private var target: URL { directory.file("a.txt.gz") }
        /// The text "abc", a thousand times.
        private static let zipped =
            Data(base64Encoded: "H4sIAAAAAAACA+3CQREAAAwCoKxq/w6rsQcc6aKqqv5+C0W5K7gLAAA=") ?? Data()
        private static let text = Data(String(repeating: "abc", count: 1_000).utf8)
        /// The content is large enough for segments.
        ///
        /// It is not valid gzip, but nothing decodes it.
        private static let large = FileVersion.seeded(9, byteCount: 5_000_000)

        init() throws {
            directory = try TemporaryDirectory()
            server = try TestServer()
        }

        private func serve(_ body: Data, coding: String = "gzip", fields: [(String, String)] = []) {
            server.respond { _ in
                .resource(body, etag: "\"v1\"", headerFields: [("Content-Encoding", coding)] + fields)
            }
        }

        private func save(_ request: Request<Data>, verifying digest: FileDigest? = nil) async throws
            -> RequestOperation<URL>.Result
        {
            try await Sending(request.saved(to: target, verifying: digest)).result()
        }

        // MARK: Bodies that are stored in their coding

        @Test(arguments: ["gzip", "x-gzip", "GZIP", "br", "zstd", "deflate", "compress", "x-compress", "gzip, gzip"])
        func labelledFileIsKeptAsItIsSent(coding: String) async throws {
            serve(Self.zipped, coding: coding)
            let response = try await save(server.get(), verifying: .sha256(Self.zipped.sha256)).get()
            #expect(try Data(contentsOf: target) == Self.zipped)
            #expect(response.transfer.download.completedBytes == Int64(Self.zipped.count))
            #expect(response.head.expectedBytes == Int64(Self.zipped.count))
            #expect(try await server.takeRequest().value(of: "Accept-Encoding") == "identity")
            #expect(try directory.entries == ["a.txt.gz"])
        }

        @Test func aDecodedFileHasTheDecodedContent() async throws {
            serve(Self.zipped)
            let response = try await save(server.get().decodingFile(), verifying: .sha256(Self.text.sha256)).get()
            #expect(response.head.expectedBytes == nil)
            #expect(try Data(contentsOf: target) == Self.text)
            let asked = try await server.takeRequest().value(of: "Accept-Encoding")
            #expect(asked?.contains("gzip") == true)
        }

        /// The server's digest covers the representation with its coding (RFC 9530, section 2).
        @Test func theServersDigestCoversTheCodedBytes() async throws {
            let digest = "sha-256=:\(Self.zipped.sha256.base64EncodedString()):"
            serve(Self.zipped, fields: [("Repr-Digest", digest)])
            _ = try await save(server.get()).get()
            serve(Self.zipped + Data("more".utf8), fields: [("Repr-Digest", digest)])
            #expect(try await save(server.get()).code == .integrityFailed)
            #expect(try Data(contentsOf: target) == Self.zipped)
        }

        @Test func labelledFileIsContinued() async throws {
            let fields = [("Content-Encoding", "gzip")]
            let body = Self.large
            server.enqueue(
                Reply.resource(body, etag: "\"v1\"", headerFields: fields).performing(
                    .close, at: .responseBody(afterBytes: 2_000_000)))
            server.respond { _ in .resource(body, etag: "\"v1\"", headerFields: fields) }
            #expect(try await save(server.get()).code == .connectionLost)
            let response = try await save(server.get()).get()
            #expect(response.statusCode == 206)
            #expect(try Data(contentsOf: target) == Self.large)
            let ranges = server.recordedRequests.map { $0.value(of: "Range") }
            #expect(ranges.count == 2 && ranges[0] == nil && ranges[1]?.hasPrefix("bytes=") == true)
        }

        @Test func labelledFileComesInSegments() async throws {
            serve(Self.large)
            let manager = RequestManager(configuration: .init(transport: .custom(CurlTransport.shared)))
            let download = manager.downloadInSegments(
                server.get(), to: target, segments: 4, verifying: .sha256(Self.large.sha256))
            _ = try await download.file()
            #expect(try Data(contentsOf: target) == Self.large)
            #expect(server.requestCount == 5)
        }

        /// A range of coded bytes cannot be decoded, so the transport delivers it as the server sent it.
        @Test func rangeOfTheCallersOwnIsKeptAsItIsSent() async throws {
            serve(Self.zipped)
            let response = try await Sending(server.get().header("Range", "bytes=0-9")).response()
            #expect(response.statusCode == 206)
            #expect(response.value == Self.zipped.prefix(10))
        }

        /// A range in another coding belongs to another representation.
        @Test func rangeInAnotherCodingIsNotJoined() async throws {
            let content = Self.large
            let stub = StubServer { exchange in
                guard exchange.request.headerFields["Range"] != nil else {
                    return FileVersion(content).answer(exchange, sending: 2_000_000)
                }
                FileVersion(content, headerFields: ["Content-Encoding": "gzip"]).answer(exchange)
            }
            let cut = StubServer { FileVersion(content).answer($0, sending: 2_000_000, thenFailing: .cut) }
            _ = try await Sending(Request.stub("file").saved(to: target), over: cut.transport).error()
            _ = try await Sending(Request.stub("file").saved(to: target), over: stub.transport).result()
            #expect(stub.exchanges.events.map { $0.request.headerFields.contains("Range") } == [true, false])
        }

        // MARK: Unknown codings

        /// Values that servers send by mistake, and codings that no client decodes.
        private static let labels = [
            "UTF-8", "utf8", "binary", "none", "aws-chunked", "gzip, klingon", "base64", "7bit", "text/plain",
            "application/octet-stream", "chunked", "identity, UTF-8", "aes128gcm", "klingon", "*", "",
            "gzip, gzip, gzip, gzip, gzip, gzip",
        ]

        /// The request has not asked for the coding, whether it accepts others or none.
        @Test(arguments: labels) func aFileIsStoredWhateverItsCodingIsCalled(coding: String) async throws {
            serve(Self.large, coding: coding)
            let request = server.get()
            let accepting = request.header("Accept-Encoding", "br")
            for request in [request, request.decodingFile(), accepting] {
                let response = try await save(request, verifying: .sha256(Self.large.sha256)).get()
                #expect(response.head.expectedBytes == Int64(Self.large.count))
                #expect(try Data(contentsOf: target) == Self.large)
            }
            let manager = RequestManager(configuration: .init(transport: .custom(CurlTransport.shared)))
            for request in [request, request.decodingFile()] {
                _ = try await manager.downloadInSegments(request, to: target, segments: 2).file()
                #expect(try Data(contentsOf: target) == Self.large)
            }
            #expect(try directory.entries == ["a.txt.gz"])
        }

        /// A label says nothing about the bytes, so the coding beside it is decoded if the request asks for it.
        @Test(arguments: ["UTF-8, gzip", "gzip, binary", "aws-chunked,gzip", "klingon, gzip"])
        func theCodingBesideALabelIsDecoded(coding: String) async throws {
            serve(Self.zipped, coding: coding)
            for (request, content) in [(server.get().decodingFile(), Self.text), (server.get(), Self.zipped)] {
                _ = try await save(request).get()
                #expect(try Data(contentsOf: target) == content)
            }
        }

        @Test(arguments: ["UTF-8", "aws-chunked", "none"]) func aFileWithALabelIsContinued(coding: String) async throws
        {
            let (body, fields) = (Self.large, [("Content-Encoding", coding)])
            server.enqueue(
                Reply.resource(body, etag: "\"v1\"", headerFields: fields).performing(
                    .close, at: .responseBody(afterBytes: 2_000_000)))
            server.respond { _ in .resource(body, etag: "\"v1\"", headerFields: fields) }
            #expect(try await save(server.get()).code == .connectionLost)
            #expect(try await save(server.get()).get().statusCode == 206)
            #expect(try Data(contentsOf: target) == Self.large)
        }

        @Test(arguments: ["klingon", "klingon, gzip", "gzip, gzip, gzip, gzip, gzip, gzip"])
        func unknownCodingIsABadResponseForABodyThatIsNotSaved(coding: String) async throws {
            serve(Self.zipped, coding: coding)
            let request = server.get()
            #expect(try await Sending(request).result().code == .badResponse)
            #expect(try await Sending(request.ignoringBody()).result().code == .badResponse)
            let stream = request.written { OutputStream(toMemory: ()) }
            #expect(try await Sending(stream).result().code == .badResponse)
            let manager = RequestManager(configuration: .init(transport: .custom(CurlTransport.shared)))
            await #expect(throws: RequestError.self) { for try await _ in manager.chunks(of: request) {} }
        }

        /// The caller names the coding in its own `Accept-Encoding`, so the caller can decode the body.
        @Test(arguments: ["klingon", "gzip, KLINGON;q=0.5", "*"])
        func codingThatTheCallerNamesIsKeptAsItIsSent(accepted: String) async throws {
            serve(Self.zipped, coding: "klingon")
            let response = try await Sending(server.get().header("Accept-Encoding", accepted)).response()
            #expect(response.value == Self.zipped)
        }

        @Test(arguments: ["gzip", "gzip, klingon;q=0"])
        func codingThatTheCallerDoesNotNameIsABadResponse(accepted: String) async throws {
            serve(Self.zipped, coding: "klingon")
            let request = server.get().header("Accept-Encoding", accepted)
            #expect(try await Sending(request).result().code == .badResponse)
            _ = try await save(request).get()
            #expect(try Data(contentsOf: target) == Self.zipped)
        }

        // MARK: URLSession

        /// URLSession decodes every coding that it requested, so the file would contain other bytes than the
        /// server's.
        @Test func urlSessionRefusesACodingThatItWouldDecode() async throws {
            serve(Self.zipped)
            let error = try await Sending(server.get().saved(to: target), over: URLSessionTransport.shared).error()
            #expect(error.code == .badResponse, "\(error)")
            #expect(try directory.entries == [])
            let response = try await Sending(server.get(), over: URLSessionTransport.shared).response()
            #expect(response.value == Self.text)
        }
    }
#endif
