// Tests texts that could split a request, over the network.
#if canImport(CLibcurl)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    @Suite(.timeLimit(.minutes(5))) struct BodyFaultTests {
        // MARK: Texts that could split a request

        @Test(arguments: [
            "\r\nX-Injected: 1", "\nX-Injected: 1", "\r", "\n", "\0", "a\0b", "b\r\n\r\nGET /evil HTTP/1.1",
        ])
        func lineEndsInFieldsAreRefused(text: String) async throws {
            let server = try TestServer()
            defer { server.shutDown() }
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
                #expect(error.code == .invalidRequest, "\(error)")
                #expect(!error.isRetryable)
                #expect(error.description.isOneLine)
                #expect(sending.operation.progress.upload.completedBytes == 0)
            }
            #expect(server.connectionCount == 0)
        }

        /// Line ends in a URL are percent-encoded, or the request fails.
        @Test(arguments: ["\r\nX-Injected: 1", "\nX-Injected: 1", "\u{0}", " HTTP/1.1\r\nX-Injected: 1\r\n\r\n"])
        func lineEndsInURLsAreEncodedOrRefused(text: String) async throws {
            let server = try TestServer(always: .status(200))
            defer { server.shutDown() }
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
#endif
