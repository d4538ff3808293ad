// Tests the libcurl transport's options, shared connections, metrics, and the lifetime of its threads.
#if canImport(CLibcurl)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    @Suite struct CurlTransportTests {
        // No host name can be longer than 255 bytes (RFC 1035). For a SOCKS proxy, libcurl before 8.4 would write a
        // longer name beyond its buffer.
        @Test func hostLongerThanNamesCanBeIsRefused() async throws {
            for (count, code) in [(255, RequestError.Code.connectionFailed), (256, .invalidRequest)] {
                let host = String(repeating: "a", count: count - 8) + ".invalid"
                let request = Request<Data>.get("http://\(host)/")
                let error = try await Sending(request, over: CurlTransport.shared).error()
                #expect(error.code == code, "\(error)")
            }
        }

        // MARK: Options

        /// A reused handle has the options of its last request, which a plain request must not inherit.
        @Test func aPlainRequestAfterAnyOtherIsPlain() async throws {
            let server = try TestServer()
            defer { server.shutDown() }
            server.respond { .status(200, headerFields: [("X-Method", $0.method)], body: $0.bodyText) }
            let plain = Request<Data>.get(server.url("/plain"))
            let others: [Request<Data>] = [
                .post(server.url("/other")).body(Data("body".utf8)), .put(server.url("/other")).body(Data()),
                Request<Data>(method: "DELETE", url: server.url("/other")),
                Request<Data>(method: "HEAD", url: server.url("/other")), plain.attemptTimeout(.seconds(60)),
            ]
            let transport = try CurlTransport(ConnectionOptions())
            for other in others {
                for request in [other, plain, plain] {
                    let response = try await Sending(request, over: transport).response()
                    #expect(response.headerFields["X-Method"] == request.method.rawValue)
                    #expect(response.value == (request.method == .head ? Data() : request.body ?? Data()))
                }
            }
            #expect(server.recordedRequests.filter { $0.path == "/plain" }.allSatisfy { $0.body.isEmpty })
        }

        /// Swift's strings are equal if they differ only in the composition of characters; servers compare bytes.
        @Test func eachRequestHasItsOwnBytes() async throws {
            let server = try TestServer(always: .status(200))
            defer { server.shutDown() }
            let transport = try CurlTransport(ConnectionOptions())
            let values = ["caf\u{e9}", "cafe\u{301}", "caf\u{e9}", "plain", "caf\u{e9}"]
            for value in values {
                _ = try await Sending(server.get().header("X-Name", value), over: transport).response()
            }
            let received = server.recordedRequests.map { Array(($0.value(of: "X-Name") ?? "").utf8) }
            #expect(received == values.map { Array($0.utf8) })
        }

        @Test func optionsWithOtherBytesAreOtherOptions() throws {
            let proxy = try #require(URL(string: "http://proxy.example:8080"))
            let (one, two) = ("caf\u{e9}", "cafe\u{301}")
            #expect(ConnectionOptions.Proxy.server(proxy, userName: one) == .server(proxy, userName: one))
            #expect(ConnectionOptions.Proxy.server(proxy, userName: one) != .server(proxy, userName: two))
            #expect(ConnectionOptions.Proxy.server(proxy, password: one) != .server(proxy, password: two))
            #expect(ConnectionOptions.Proxy.server(proxy) != .server(proxy, password: ""))
            let file = URL(filePath: "/a")
            #expect(
                ConnectionOptions.ClientCertificate(archive: file, password: one)
                    != .init(archive: file, password: two))
        }

        private static let changes: [(name: String, change: @Sendable (inout ConnectionOptions) -> Void)] = [
            ("connectTimeout", { $0.connectTimeout = .seconds(1) }),
            ("trust", { $0.trust = .certificates(in: URL(filePath: "/ca.pem")) }),
            ("pinnedPublicKeys", { $0.pinnedPublicKeys = ["x"] }),
            ("minimumTLSVersion", { $0.minimumTLSVersion = .tls13 }),
            ("clientCertificate", { $0.clientCertificate = CurlTransportTests.certificate("/a", "/b") }),
            ("proxy", { $0.proxy = .direct }),
            ("hostOverrides", { $0.hostOverrides = [.init("a.example", addresses: ["127.0.0.1"])] }),
            ("httpVersion", { $0.httpVersion = .http1 }),
            ("maxHeaderBytes", { $0.maxHeaderBytes = 1 }),
            ("maxHeaderFieldCount", { $0.maxHeaderFieldCount = 1 }),
            ("acceptsMissingCloseNotify", { $0.acceptsMissingCloseNotify = true }),
            ("idleConnectionTime", { $0.idleConnectionTime = .seconds(1) }),
            ("engineCount", { $0.engineCount = 3 }),
        ]

        /// URLSession rejects each option that differs from its default, and names the option.
        @Test(arguments: 0..<13)
        func urlSessionRefusesUnsupportedOptionsByName(index: Int) throws {
            let (name, change) = Self.changes[index]
            var options = ConnectionOptions()
            change(&options)
            let error = try #require(throws: RequestError.self) { try TransportChoice.urlSession(with: options) }
            #expect(error.code == .transportFailed)
            #expect(error.message.contains(" \(name);"))
        }

        /// The table above must contain each new option, and so must the list of options that URLSession rejects.
        @Test func everyOptionIsInTheTable() throws {
            #expect(Mirror(reflecting: ConnectionOptions()).children.count == Self.changes.count)
            _ = try TransportChoice.urlSession(with: ConnectionOptions())
        }

        /// Options that make no sense, and words of their errors.
        private static let defects: [(words: [String], change: @Sendable (inout ConnectionOptions) -> Void)] = [
            (["connectTimeout"], { $0.connectTimeout = .zero }),
            (["idleConnectionTime"], { $0.idleConnectionTime = .seconds(-1) }),
            (["limits"], { $0.maxHeaderBytes = 0 }),
            (["engineCount"], { $0.engineCount = 0 }),
            (["trust", "/nowhere/ca.pem"], { $0.trust = .certificates(in: URL(filePath: "/nowhere/ca.pem")) }),
            (["pinnedPublicKeys"], { $0.pinnedPublicKeys = ["c2hvcnQ="] }),
            (["proxy"], { $0.proxy = .server(URL(filePath: "/etc")) }),
            (
                ["clientCertificate", "/nowhere/a"],
                { $0.clientCertificate = CurlTransportTests.certificate("/nowhere/a", "/etc/hosts") }
            ),
            (
                ["clientCertificate", "/nowhere/b"],
                { $0.clientCertificate = CurlTransportTests.certificate("/etc/hosts", "/nowhere/b") }
            ),
        ]

        private static func certificate(
            _ file: String, _ key: String
        ) -> ConnectionOptions.ClientCertificate {
            .init(certificateFile: URL(filePath: file), privateKeyFile: URL(filePath: key), password: "secret")
        }

        @Test(arguments: 0..<9)
        func optionsThatMakeNoSenseAreRefusedByName(index: Int) throws {
            let (words, change) = Self.defects[index]
            var options = ConnectionOptions()
            change(&options)
            let error = try #require(throws: RequestError.self) { try CurlTransport(options) }
            #expect(error.code == .transportFailed)
            for word in words { #expect(error.message.contains(word)) }
            #expect(error.description.isOneLine && !error.description.contains("secret"))
        }

        @Test func passwordsAreNotReflected() throws {
            var options = ConnectionOptions()
            let proxy = try #require(URL(string: "http://proxy.example:8080"))
            options.proxy = .server(proxy, userName: "me", password: "hunter2")
            options.clientCertificate = Self.certificate("/a", "/b")
            var dumped = ""
            dump(options, to: &dumped)
            for secret in ["hunter2", "secret"] { #expect(!"\(options) \(dumped)".contains(secret)) }
        }

        // MARK: Connections

        @Test func transportsWithEqualOptionsShareConnections() async throws {
            let server = try TestServer(always: .status(200))
            defer { server.shutDown() }
            var options = ConnectionOptions()
            options.connectTimeout = .milliseconds(29_999)
            // Transports with equal options share their connections.
            let first = try CurlTransport(options)
            for _ in 0..<3 {
                let manager = RequestManager(configuration: .init(transport: try .connecting(with: options)))
                try await manager.send(server.get())
            }
            #expect(server.connectionCount == 1)
            options.connectTimeout = .milliseconds(29_998)
            _ = try await Sending(server.get(), CurlTransport(options)).response()
            #expect(server.connectionCount == 2)
            withExtendedLifetime(first) {}
        }

        @Test func metricsDescribeTheConnection() async throws {
            let server = try TestServer(always: .status(200, body: "hello"))
            defer { server.shutDown() }
            let transport = try CurlTransport.alone()
            let first = try #require(try await Sending(server.get(), transport).response().metrics)
            let second = try #require(try await Sending(server.get(), transport).response().metrics)
            #expect(!first.isReusedConnection && second.isReusedConnection)
            #expect(first.connect > .zero && first.nameLookup <= first.connect && first.secureConnect == .zero)
            #expect(second.connect == .zero)
            for metrics in [first, second] {
                #expect(metrics.httpVersion == "1.1")
                #expect(metrics.remoteAddress == "127.0.0.1" && metrics.remotePort == server.port)
                #expect(metrics.connect <= metrics.firstByte && metrics.firstByte <= metrics.total)
                #expect(metrics.receivedHeaderBytes > 20 && metrics.sentHeaderBytes > 20)
            }
        }

        @Test func threadWithoutWorkEndsAndBeginsAgain() async throws {
            let server = try TestServer(always: .status(200))
            defer { server.shutDown() }
            let transport = try CurlTransport.alone { $0.idleConnectionTime = .milliseconds(20) }
            for count in 1...3 {
                _ = try await Sending(server.get(), transport).response()
                // Only the idle time of the transport can close the connection.
                try await server.connectionsClosed(count: count)
            }
            #expect(server.connectionCount == 3)
        }

        @Test func connectionsGoWithTheLastOfTheirTransports() async throws {
            let server = try TestServer(always: .status(200))
            defer { server.shutDown() }
            var transport: CurlTransport? = try CurlTransport.alone()
            _ = try await Sending(server.get(), try #require(transport)).response()
            #expect(server.openConnectionCount == 1)
            transport = nil
            try await server.connectionsClosed()
        }

        // Forty concurrent requests are more than one engine's share of 32, and all get a response. Sequential requests
        // use one connection.
        @Test func enginesShareTheWorkOfOneHost() async throws {
            let server = try TestServer(always: .status(200, body: "hello"))
            defer { server.shutDown() }
            let transport = try CurlTransport.alone { $0.engineCount = 3 }
            for _ in 0..<5 { _ = try await Sending(server.get(), transport).response() }
            #expect(server.connectionCount == 1)
            let manager = RequestManager(
                configuration: .init(
                    maxConcurrentOperationCount: 40, maxConcurrentPerHost: 40, transport: .custom(transport)))
            let results = await manager.batch((0..<400).map { _ in server.get() }).results
            #expect(results.count { $0.code == nil } == 400)
            #expect(server.requestCount == 405)
        }

        /// A range of a coded body cannot be decoded, so a request for a range accepts only uncoded bodies.
        @Test func rangeAsksForNoCoding() async throws {
            let server = try TestServer(always: .status(200))
            defer { server.shutDown() }
            _ = try await Sending(server.get().header("Range", "bytes=5-")).response()
            _ = try await Sending(server.get()).response()
            #expect(try await server.takeRequest().value(of: "Accept-Encoding") == "identity")
            #expect(try await server.takeRequest().value(of: "Accept-Encoding") == ContentDecoder.acceptedCodings)
        }
    }

    @Suite struct HostOverrideTests {
        private func transport(_ overrides: ConnectionOptions.HostOverride...) throws(RequestError) -> CurlTransport {
            var options = ConnectionOptions()
            options.hostOverrides = overrides
            // No proxy is used, because a proxy would look up the name.
            options.proxy = .direct
            return try CurlTransport(options)
        }

        @Test func aHostIsFoundAtTheAddressThatIsGiven() async throws {
            let server = try TestServer()
            defer { server.shutDown() }
            server.route("/a") { _ in Reply.status(200, body: "found") }
            let port = try #require(server.url("/").port)
            let url = "http://api.convoy.invalid:\(port)/a"
            let transport = try transport(.init("API.convoy.invalid", port: port, addresses: ["127.0.0.1"]))
            let response = try await Sending(Request<String>.get(url), over: transport).response()
            #expect(response.value == "found")
            #expect(try await server.takeRequest().value(of: "Host") == "api.convoy.invalid:\(port)")
            // Other transports share neither the address nor the connection, and another port is looked up.
            let elsewhere = try self.transport(.init("api.convoy.invalid", port: 9, addresses: ["127.0.0.1"]))
            for other in [try self.transport(), elsewhere] {
                let error = try await Sending(Request<String>.get(url), over: other).error()
                #expect(error.code == .connectionFailed)
                #expect(error.message.lowercased().contains("resolve"), "\(error.message)")
            }
        }

        @Test(arguments: [
            ConnectionOptions.HostOverride("", addresses: ["127.0.0.1"]),
            .init("*", addresses: ["127.0.0.1"]), .init("-a", addresses: ["127.0.0.1"]),
            .init("a:80", addresses: ["127.0.0.1"]), .init("a", port: 0, addresses: ["127.0.0.1"]),
            .init("a", port: 65_536, addresses: ["127.0.0.1"]), .init("a", addresses: []),
            .init("a", addresses: ["127.0.0.1", "b.example"]), .init("a", addresses: ["1.2.3"]),
            .init("a", addresses: ["127.0.0.1,10.0.0.1"]), .init("a", addresses: ["127.0.0.1\0"]),
        ])
        func invalidNamesAndAddressesAreRefused(override: ConnectionOptions.HostOverride) throws {
            let error = try #require(throws: RequestError.self) { try transport(override) }
            #expect(error.message.contains("hostOverrides"), "\(error.message)")
        }

        @Test(arguments: ["::1", "[::1]", "10.0.0.1"])
        func bothKindsOfAddressesAreAccepted(address: String) throws {
            _ = try transport(.init("a_b.c-d", port: 1, addresses: [address, "127.0.0.1"]))
        }
    }

    @Suite(.timeLimit(.minutes(5))) struct CurlRateTests {
        @Test(arguments: [nil, "gzip"])
        func everyByteArrivesDespiteRepeatedPauses(coding: String?) async throws {
            let server = try TestServer()
            let body = Data.patterned(600_000)
            let fields = coding.map { [("Content-Encoding", $0)] } ?? []
            let reply = Reply.status(200, headerFields: fields, body: coding == nil ? body : try Gzip.compress(body))
            server.enqueue([reply, reply])
            let manager = RequestManager(configuration: .init(maxConcurrentOperationCount: 2))
            manager.maxBytesPerSecond = 4_000_000
            let request = Request<Data>.get(server.url("/a")).maxBytesPerSecond(1_000_000)
            // The idle timeout is shorter than the transfer, but longer than each pause.
            let limited = manager.enqueue(request.idleTimeout(.seconds(20)))
            let other = manager.enqueue(Request<Data>.get(server.url("/b")))
            #expect(try await limited.response().value == body)
            #expect(try await other.response().value == body)
        }

        @Test func piecesAreAsSmallAsTheLimitAsks() async throws {
            let server = try TestServer()
            defer { server.shutDown() }
            let body = Data.patterned(40_000)
            server.enqueue(.body(body))
            let client = RecordingClient(maxChunkBytes: 1_500)
            let request = try PreparedRequest(Request<Data>.get(server.url("/a")).core, baseURL: nil)
            try CurlTransport.shared.makeTask(for: request, client: client).resume()
            await look { client.calls.events.last == .end(nil) }
            let chunks = client.calls.events.compactMap { call -> Data? in
                if case .data(let data) = call { data } else { nil }
            }
            #expect(Data(chunks.joined()) == body)
            #expect(chunks.allSatisfy { $0.count <= 1_500 })
        }
    }

    /// Tests the meanings of libcurl's error codes in all versions.
    @Suite struct CurlFailureTests {
        struct Row: Sendable, CustomTestStringConvertible {
            let testDescription: String
            let failure: CurlFailure
            let code: RequestError.Code

            init(_ name: String, _ curlCode: Int32, _ code: RequestError.Code, _ change: (inout CurlFailure) -> Void) {
                var failure = CurlFailure(code: curlCode)
                change(&failure)
                (testDescription, self.failure, self.code) = (name, failure, code)
            }
        }

        static let beforeSending: [Row] = [
            .init("connect timeout", 28, .connectionFailed) { _ in },
            .init("connect timeout, https", 28, .connectionFailed) { $0.isHTTPS = true },
            .init("whole time over while connecting", 28, .timedOut) { $0.isTimeOver = true },
            .init("name of the host", 6, .connectionFailed) { _ in },
            .init("name of the proxy, to 8.15", 5, .proxyFailed) { $0.goesThroughProxy = true },
            .init("name of the proxy, 8.16", 6, .proxyFailed) { $0.goesThroughProxy = true },
            .init("refused", 7, .connectionFailed) { $0.systemError = ECONNREFUSED },
            .init("proxy refused", 7, .proxyFailed) { $0.goesThroughProxy = true },
            .init("connect timeout of a proxy", 28, .proxyFailed) { $0.goesThroughProxy = true },
            .init("connect timeout behind a tunnel", 28, .connectionFailed) {
                ($0.isHTTPS, $0.goesThroughProxy, $0.proxyStatusCode) = (true, true, 200)
            },
            .init("407 for a tunnel", 56, .proxyFailed) {
                ($0.isHTTPS, $0.goesThroughProxy, $0.proxyStatusCode) = (true, true, 407)
            },
            .init("garbage for a tunnel", 8, .proxyFailed) { ($0.isHTTPS, $0.goesThroughProxy) = (true, true) },
            .init("closed before a tunnel", 56, .proxyFailed) { ($0.isHTTPS, $0.goesThroughProxy) = (true, true) },
            .init("closed behind a tunnel", 56, .connectionLost) {
                ($0.isHTTPS, $0.goesThroughProxy, $0.proxyStatusCode) = (true, true, 200)
            },
            .init("reset in the handshake", 35, .connectionLost) { ($0.isHTTPS, $0.systemError) = (true, ECONNRESET) },
            .init("no certificate to trust", 60, .tlsFailed) { $0.isHTTPS = true },
            .init("key that cannot be opened, to 8.15", 58, .tlsFailed) { $0.isHTTPS = true },
            .init("key that cannot be opened, from 8.16", 43, .tlsFailed) { $0.isHTTPS = true },
            .init("TLS to a proxy", 60, .tlsFailed) { $0.goesThroughProxy = true },
            .init("URL", 3, .invalidRequest) { _ in },
            .init("memory", 27, .transportFailed) { $0.isHTTPS = true },
            .init("request's header, 8.6", 100, .invalidRequest) { $0.isRequestTooLarge = true },
            .init("a code nobody knows", 250, .transportFailed) { _ in },
        ]

        static let afterSending: [Row] = [
            .init("whole time over", 28, .timedOut) { ($0.stage, $0.isTimeOver) = (.waiting, true) },
            .init("closed before an answer", 52, .connectionLost) { $0.stage = .waiting },
            // The server may have received the first request.
            .init("kept connection dead, then refused", 7, .connectionLost) { $0.stage = .waiting },
            .init("kept connection dead, then silent", 28, .connectionLost) { $0.stage = .waiting },
            .init("body cut", 18, .connectionLost) { $0.stage = .receiving },
            .init("body reset", 56, .connectionLost) { ($0.stage, $0.systemError) = (.receiving, ECONNRESET) },
            .init("chunk malformed", 56, .badResponse) { $0.stage = .receiving },
            .init("two Locations, 8.17", 8, .badResponse) { $0.stage = .waiting },
            .init("folded first line, 7.84", 43, .badResponse) { $0.stage = .waiting },
            .init("large header, to 7.88", 27, .badResponse) { $0.stage = .waiting },
            .init("large header, from 8.6", 100, .badResponse) { $0.stage = .waiting },
            .init("request's header, to 8.5", 27, .invalidRequest) {
                ($0.stage, $0.isRequestTooLarge) = (.waiting, true)
            },
            .init("certificate wanted late", 35, .tlsFailed) { ($0.stage, $0.isHTTPS) = (.waiting, true) },
            .init("alert after the handshake", 56, .tlsFailed) {
                ($0.stage, $0.isHTTPS, $0.isRefusedByAlert) = (.waiting, true, true)
            },
            .init("stream ended", 92, .connectionLost) { ($0.stage, $0.isHTTPS) = (.receiving, true) },
            .init("a code nobody knows", 250, .transportFailed) { $0.stage = .receiving },
        ]

        @Test(arguments: beforeSending + afterSending)
        func eventHasOneMeaningInAllVersions(_ row: Row) {
            #expect(row.failure.meaning.code == row.code, "\(row.failure.meaning)")
        }

        @Test(arguments: [5, 6, 7, 28, 35, 60, 97] as [Int32], [false, true])
        func whatTheProxyMayHaveCausedNamesIt(code: Int32, isHTTPS: Bool) {
            var failure = CurlFailure(code: code, isHTTPS: isHTTPS, goesThroughProxy: true)
            #expect(failure.meaning.what.contains("proxy"))
            failure.goesThroughProxy = false
            if ![5, 97].contains(code) { #expect(!failure.meaning.what.contains("proxy")) }
            // Behind the tunnel, the server is the other end.
            (failure.goesThroughProxy, failure.proxyStatusCode) = (true, 200)
            if code == 60 { #expect(!failure.meaning.what.contains("proxy")) }
        }

        @Test func nothingIsABadResponseBeforeARequest() {
            for code in 1...120 as ClosedRange<Int32> {
                for isHTTPS in [false, true] {
                    let failure = CurlFailure(code: code, isHTTPS: isHTTPS)
                    #expect(![.badResponse, .deadlineExceeded].contains(failure.meaning.code), "\(code)")
                }
            }
        }
    }
#endif
