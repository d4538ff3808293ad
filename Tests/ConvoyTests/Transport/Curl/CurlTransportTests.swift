// Tests the libcurl transport's options, shared connections, metrics, and the lifetime of its threads.
#if canImport(CLibcurl)
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

        /// A reused handle has the options of its last request, which a plain request must not inherit.
        @Test func aPlainRequestAfterAnyOtherIsPlain() async throws {
            let server = try TestServer()
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
            ("clientCertificate", { $0.clientCertificate = certificate("/a", "/b") }),
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
            (["clientCertificate", "/nowhere/a"], { $0.clientCertificate = certificate("/nowhere/a", "/etc/hosts") }),
            (["clientCertificate", "/nowhere/b"], { $0.clientCertificate = certificate("/etc/hosts", "/nowhere/b") }),
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
            for secret in ["hunter2", "secret"] { #expect(!texts(showing: options).contains(secret)) }
        }

        @Test func transportsWithEqualOptionsShareConnections() async throws {
            let server = try TestServer(always: .status(200))
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
        /// An event, libcurl's code with what is known beside it, and the meaning.
        private typealias Row = (String, CurlFailure, RequestError.Code)

        private static func tunnel(_ code: Int32, _ status: Int = 0) -> CurlFailure {
            CurlFailure(code: code, isHTTPS: true, goesThroughProxy: true, proxyStatusCode: status)
        }

        private static let beforeSending: [Row] = [
            ("connect timeout", .init(code: 28), .connectionFailed),
            ("connect timeout, https", .init(code: 28, isHTTPS: true), .connectionFailed),
            ("whole time over while connecting", .init(code: 28, isTimeOver: true), .timedOut),
            ("name of the host", .init(code: 6), .connectionFailed),
            ("name of the proxy, to 8.15", .init(code: 5, goesThroughProxy: true), .proxyFailed),
            ("name of the proxy, 8.16", .init(code: 6, goesThroughProxy: true), .proxyFailed),
            ("refused", .init(code: 7, systemError: ECONNREFUSED), .connectionFailed),
            ("proxy refused", .init(code: 7, goesThroughProxy: true), .proxyFailed),
            ("connect timeout of a proxy", .init(code: 28, goesThroughProxy: true), .proxyFailed),
            ("connect timeout behind a tunnel", tunnel(28, 200), .connectionFailed),
            ("407 for a tunnel", tunnel(56, 407), .proxyFailed),
            ("garbage for a tunnel", tunnel(8), .proxyFailed), ("closed before a tunnel", tunnel(56), .proxyFailed),
            ("closed behind a tunnel", tunnel(56, 200), .connectionLost),
            ("reset in the handshake", .init(code: 35, isHTTPS: true, systemError: ECONNRESET), .connectionLost),
            ("no certificate to trust", .init(code: 60, isHTTPS: true), .tlsFailed),
            ("key that cannot be opened, to 8.15", .init(code: 58, isHTTPS: true), .tlsFailed),
            ("key that cannot be opened, from 8.16", .init(code: 43, isHTTPS: true), .tlsFailed),
            ("TLS to a proxy", .init(code: 60, goesThroughProxy: true), .tlsFailed),
            ("URL", .init(code: 3), .invalidRequest),
            ("memory", .init(code: 27, isHTTPS: true), .transportFailed),
            ("request's header, 8.6", .init(code: 100, isRequestTooLarge: true), .invalidRequest),
            ("a code nobody knows", .init(code: 250), .transportFailed),
        ]

        private static let afterSending: [Row] = [
            ("whole time over", .init(code: 28, stage: .waiting, isTimeOver: true), .timedOut),
            ("closed before an answer", .init(code: 52, stage: .waiting), .connectionLost),
            // The server may have received the first request.
            ("kept connection dead, then refused", .init(code: 7, stage: .waiting), .connectionLost),
            ("kept connection dead, then silent", .init(code: 28, stage: .waiting), .connectionLost),
            ("body cut", .init(code: 18, stage: .receiving), .connectionLost),
            ("body reset", .init(code: 56, stage: .receiving, systemError: ECONNRESET), .connectionLost),
            ("chunk malformed", .init(code: 56, stage: .receiving), .badResponse),
            ("two Locations, 8.17", .init(code: 8, stage: .waiting), .badResponse),
            ("folded first line, 7.84", .init(code: 43, stage: .waiting), .badResponse),
            ("large header, to 7.88", .init(code: 27, stage: .waiting), .badResponse),
            ("large header, from 8.6", .init(code: 100, stage: .waiting), .badResponse),
            ("request's header, to 8.5", .init(code: 27, stage: .waiting, isRequestTooLarge: true), .invalidRequest),
            ("certificate wanted late", .init(code: 35, stage: .waiting, isHTTPS: true), .tlsFailed),
            (
                "alert after the handshake",
                .init(code: 56, stage: .waiting, isHTTPS: true, isRefusedByAlert: true), .tlsFailed
            ),
            ("stream ended", .init(code: 92, stage: .receiving, isHTTPS: true), .connectionLost),
            ("a code nobody knows", .init(code: 250, stage: .receiving), .transportFailed),
        ]

        @Test(arguments: beforeSending + afterSending)
        func eventHasOneMeaningInAllVersions(event: String, failure: CurlFailure, code: RequestError.Code) {
            #expect(failure.meaning.code == code, "\(event): \(failure.meaning)")
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
