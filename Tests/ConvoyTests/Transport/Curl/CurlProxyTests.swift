import Convoy
import Foundation
import Testing

#if canImport(CLibcurl)
    /// Tests ``CurlTransport`` with proxies: the bytes that reach each server, and the errors of faults.
    @Suite struct CurlProxyTests {
        private static let userName = "convoy user"
        /// A password that must not be decoded, cut off or shown.
        private static let password = "p:a@s%41s/\u{FC}"
        private static let credentials =
            "Basic \(Data("\(userName):\(password)".utf8).base64EncodedString())"

        private func options(_ proxy: ProxyServer, hasCredentials: Bool = false) throws -> ConnectionOptions {
            try options(at: proxy.url.absoluteString, hasCredentials: hasCredentials)
        }

        private func options(at address: String, hasCredentials: Bool = false) throws -> ConnectionOptions {
            try .trustingTestAuthority {
                $0.proxy = .server(
                    try #require(URL(string: address)), userName: hasCredentials ? Self.userName : nil,
                    password: hasCredentials ? Self.password : nil)
            }
        }

        private func expectNoSecret(_ error: RequestError, sourceLocation: SourceLocation = #_sourceLocation) {
            #expect(error.description.isOneLine, sourceLocation: sourceLocation)
            for secret in [Self.password, String(Self.credentials.dropFirst(6))] {
                #expect(!error.description.contains(secret), sourceLocation: sourceLocation)
                #expect(!"\(error.underlying.debugDescription)".contains(secret), sourceLocation: sourceLocation)
            }
        }

        // MARK: Through the proxy

        @Test func plainRequestGoesThroughTheProxy() async throws {
            let (origin, proxy) = (try TestServer(), try ProxyServer())
            origin.enqueue(.status(200, body: "hello"))
            let request = Request<Data>.get(origin.url("/a?b=c")).header("X-Own", "1")
            let response = try await Sending(request, over: CurlTransport(options(proxy))).response()
            #expect(response.value == Data("hello".utf8))
            #expect(proxy.heads.map { $0.hasPrefix("GET \(origin.url("/a?b=c")) HTTP/1.1\r\n") } == [true])
            let recorded = try await origin.takeRequest()
            #expect(recorded.target == "/a?b=c")
            #expect(recorded.value(of: "X-Own") == "1")
            #expect(recorded.value(of: "Via") == "1.1 test")
            #expect(response.metrics?.remotePort == proxy.port)
        }

        /// The requests use one connection to the proxy, for which libcurl keeps some data of the previous host.
        @Test(arguments: [
            "http://[::1]:8080/", "http://good.test/x?", "http://[::1]/y?#z", "http://good.test:81/x?a",
            "http://127.0.0.1/",
        ])
        func theProxyReceivesHostAndTargetOfEachRequest(_ first: String) async throws {
            let heads = EventLog<String>()
            let proxy = try LoopbackListener { connection in
                while let head = connection.readHead() {
                    heads.record(head)
                    connection.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                }
            }
            var options = try options(at: "http://127.0.0.1:\(proxy.port)")
            options.engineCount = 1
            let transport = try CurlTransport(options)
            let urls = [
                first, "http://[::1]:8080/", "http://good.test/x?", "http://[2001:db8::1]/", "http://good.test:80/",
            ]
            for url in urls { _ = try await Sending(Request<Data>.get(url), over: transport).response() }
            let expected = try urls.map { text in
                let url = try #require(URL(string: text))
                let host = try #require(url.host(percentEncoded: true))
                let name = host.contains(":") ? "[\(host.filter { $0 != "[" && $0 != "]" })]" : host
                let port = url.port.map { $0 == 80 ? "" : ":\($0)" } ?? ""
                return "\(name)\(port) \(text.prefix { $0 != "#" }.replacing(":80/", with: "/"))"
            }
            let seen = heads.events.map { head in
                let target = head.prefix { !$0.isNewline }.split(separator: " ").dropFirst().first ?? ""
                return "\(head.fieldValue("Host") ?? "") \(target.replacing(":80/", with: "/"))"
            }
            #expect(seen == expected)
            #expect(proxy.connectionCount == 1)
        }

        @Test func emptyQueryReachesAProxyOfTheEnvironment() async {
            await #expect(processExitsWith: .success) {
                let (origin, proxy) = try serversInAnEnvironment()
                _ = try await Sending(Request<Data>.get(origin.url("/x?")), over: CurlTransport(.init())).response()
                #expect(proxy.heads.map { $0.hasPrefix("GET \(origin.url("/x?")) HTTP/1.1\r\n") } == [true])
            }
        }

        @Test func secureRequestGoesThroughATunnel() async throws {
            let (origin, proxy) = (try await TLSServer(Certificates.shared.server), try ProxyServer())
            let request = Request<Data>.get(origin.url("/inside"))
            let response = try await Sending(request, over: CurlTransport(options(proxy))).response()
            #expect(response.statusCode == 200)
            #expect(response.value == Data("hello".utf8))
            #expect(response.headerFields["Connection"] == "close")
            #expect(proxy.heads.map { $0.hasPrefix("CONNECT 127.0.0.1:\(origin.port) HTTP/1.1\r\n") } == [true])
            #expect(origin.heads.map { $0.hasPrefix("GET /inside HTTP/1.1\r\n") } == [true])
        }

        /// A tunnel through a trusted proxy does not make the certificate of the origin trusted.
        @Test func tunnelToABadServerIsTLSFailed() async throws {
            let (origin, proxy) = (try await TLSServer(Certificates.shared.selfSigned), try ProxyServer())
            let request = Request<Data>.get(origin.url())
            let error = try await Sending(request, over: CurlTransport(options(proxy))).error()
            error.expect(.tlsFailed, status: 0)
            #expect(origin.heads == [])
        }

        /// A proxy over TLS must be trusted before it receives a request.
        @Test(arguments: [true, false])
        func secureProxyIsTrustedLikeAServer(_ isGood: Bool) async throws {
            let all = try Certificates.shared
            let proxy = try await TLSServer(isGood ? all.server : all.otherName)
            let options = try options(at: proxy.url(""), hasCredentials: true)
            let result = try await Sending(Request<Data>.get("http://127.0.0.1:1/a"), over: CurlTransport(options))
                .result()
            if isGood {
                #expect(try result.get().value == Data("hello".utf8))
                #expect(proxy.heads.map { $0.hasPrefix("GET http://127.0.0.1:1/a HTTP/1.1\r\n") } == [true])
            } else {
                let error = try #require(throws: RequestError.self) { try result.get() }
                #expect([.proxyFailed, .tlsFailed].contains(error.code), "\(error)")
                #expect(!error.isRetryable)
                expectNoSecret(error)
                #expect(proxy.heads == [])
            }
        }

        // MARK: Credentials

        @Test func credentialsOfAPlainRequestReachTheProxyOnly() async throws {
            let origin = try TestServer()
            let proxy = try ProxyServer(.requiringCredentials(userName: Self.userName, password: Self.password))
            origin.respond { _ in .status(200) }
            let request = Request<Data>.get(origin.url())
            _ = try await Sending(request, over: CurlTransport(options(proxy, hasCredentials: true))).response()
            // The request goes directly to the server. A reused handle must not send the proxy's credentials.
            _ = try await Sending(request, over: CurlTransport.trusting()).response()
            #expect(proxy.heads.last?.fieldValue("Proxy-Authorization") == Self.credentials)
            #expect(proxy.heads.count { $0.fieldValue("Proxy-Authorization") != nil } == 1)
            for _ in 1...2 {
                let head = String(decoding: try await origin.takeRequest().headerBytes, as: UTF8.self).lowercased()
                #expect(!head.contains("authorization"))
                #expect(!head.contains(Self.credentials.lowercased().dropFirst(6)))
            }
        }

        @Test func credentialsOfATunnelReachTheProxyOnly() async throws {
            let origin = try await TLSServer(Certificates.shared.server)
            let proxy = try ProxyServer(.requiringCredentials(userName: Self.userName, password: Self.password))
            let request = Request<Data>.get(origin.url()).bearer("token").header("Cookie", "a=b").header("X-Own", "1")
            _ = try await Sending(request, over: CurlTransport(options(proxy, hasCredentials: true))).response()
            let connect = try #require(proxy.heads.last)
            #expect(connect.fieldValue("Proxy-Authorization") == Self.credentials)
            let names = connect.components(separatedBy: "\r\n").dropFirst().map { $0.prefix { $0 != ":" }.lowercased() }
            #expect(Set(names).isSubset(of: ["host", "proxy-authorization", "proxy-connection", "user-agent"]))
            let inside = try #require(origin.heads.first)
            #expect(inside.fieldValue("Authorization") == "Bearer token")
            #expect(inside.fieldValue("Cookie") == "a=b")
            #expect(inside.fieldValue("X-Own") == "1")
            #expect(!inside.lowercased().contains("proxy-authorization"))
            #expect(!inside.contains(Self.credentials.dropFirst(6)))
        }

        @Test func plain407IsProxyFailedUnlessItIsAccepted() async throws {
            let origin = try TestServer()
            let proxy = try ProxyServer(.requiringCredentials(userName: Self.userName, password: "other"))
            let request = Request<Data>.get(origin.url())
            for hasCredentials in [false, true] {
                let transport = try CurlTransport(options(proxy, hasCredentials: hasCredentials))
                let response = try await Sending(request.acceptableStatusCodes(.any), over: transport).response()
                #expect(response.statusCode == 407)
                #expect(response.value == Data("denied".utf8))
                let error = try await Sending(request, over: transport).error()
                #expect(error.code == .proxyFailed, "\(error)")
                #expect(error.response?.statusCode == 407 && error.body == Data("denied".utf8))
                #expect(error.message.contains("407") && !error.isRetryable, "\(error)")
                expectNoSecret(error)
            }
            // The transport sends the credentials once in each request.
            #expect(proxy.heads.count { $0.fieldValue("Proxy-Authorization") != nil } == 2)
            #expect(origin.requestCount == 0)
        }

        @Test(arguments: [false, true])
        func tunnel407IsProxyFailed(_ hasCredentials: Bool) async throws {
            let origin = try await TLSServer(Certificates.shared.server)
            let proxy = try ProxyServer(.requiringCredentials(userName: Self.userName, password: "other"))
            let transport = try CurlTransport(options(proxy, hasCredentials: hasCredentials))
            let error = try await Sending(Request<Data>.get(origin.url()).acceptableStatusCodes(.any), over: transport)
                .error()
            error.expect(.proxyFailed)
            #expect(error.message.contains("407"), "\(error)")
            // The proxy's 407 is not a response of the server.
            #expect(error.response == nil)
            expectNoSecret(error)
            #expect(proxy.heads.count { $0.fieldValue("Proxy-Authorization") != nil } == (hasCredentials ? 1 : 0))
            #expect(origin.heads == [])
        }

        @Test func ownProxyAuthorizationIsRefused() async throws {
            let (origin, proxy) = (try TestServer(), try ProxyServer())
            for options in [try options(proxy), try ConnectionOptions.trustingTestAuthority()] {
                let request = Request<Data>.get(origin.url()).header("proxy-authorization", Self.credentials)
                let error = try await Sending(request, over: CurlTransport(options)).error()
                #expect(error.code == .invalidRequest, "\(error)")
                expectNoSecret(error)
            }
            #expect(origin.requestCount == 0)
            #expect(proxy.connectionCount == 0)
        }

        // MARK: Proxies that fail

        /// Responses of a proxy to CONNECT, followed by the end of the connection.
        @Test(arguments: [
            "", "HTTP", "HTTP/1.1 200 Connection est", "HTTP/1.1 200 OK\r\nVia: a", "nonsense\r\n\r\n",
            "HTTP/1.1 abc OK\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n",
            "HTTP/1.1 302 Found\r\nLocation: http://a.test/\r\n\r\n",
            "HTTP/1.1 500 No\r\nContent-Length: 10\r\n\r\nhalf",
        ])
        func brokenTunnelIsProxyFailed(answer: String) async throws {
            let proxy = try LoopbackListener { connection in
                guard connection.readHead() != nil else { return }
                connection.write(answer)
            }
            let options = try options(at: "http://127.0.0.1:\(proxy.port)")
            let error = try await Sending(Request<Data>.get("https://127.0.0.1:1/"), over: CurlTransport(options))
                .error()
            #expect(error.code == .proxyFailed, "\(error)")
            #expect(error.response == nil)
        }

        @Test(arguments: ["http://127.0.0.1:1/", "https://127.0.0.1:1/"])
        func proxyThatIsDownIsProxyFailed(_ url: String) async throws {
            let closed = try LoopbackPort.refusing()
            for proxy in ["http://127.0.0.1:\(closed.port)", "http://convoy.invalid:3128"] {
                let transport = try CurlTransport(options(at: proxy))
                let error = try await Sending(Request<Data>.get(url), over: transport).error()
                #expect(error.code == .proxyFailed, "\(proxy): \(error)")
                #expect(error.response == nil)
                expectNoSecret(error)
            }
            withExtendedLifetime(closed) {}
        }

        /// The address of the proxy has `https`, but the proxy speaks plain HTTP.
        @Test(arguments: ["http://127.0.0.1:1/", "https://127.0.0.1:1/"])
        func proxyWithoutTLSIsNamed(_ url: String) async throws {
            let proxy = try LoopbackListener { connection in
                _ = connection.read()
                connection.write("HTTP/1.1 400 Bad Request\r\n\r\n")
                _ = connection.read()
            }
            let transport = try CurlTransport(options(at: "https://127.0.0.1:\(proxy.port)"))
            let error = try await Sending(Request<Data>.get(url), over: transport).error()
            #expect(error.code == .tlsFailed && error.message.contains("the proxy"), "\(error)")
        }

        @Test(arguments: ["http", "https"], [true, false])
        func silentProxyEndsInTime(_ scheme: String, _ isIdleTimeout: Bool) async throws {
            let proxy = try ProxyServer(.silent)
            var options = try options(proxy)
            var request = Request<Data>.get("\(scheme)://127.0.0.1:1/")
            if isIdleTimeout || scheme == "http" { request = request.idleTimeout(.milliseconds(300)) }
            if !isIdleTimeout { options.connectTimeout = .milliseconds(300) }
            let error = try await Sending(request, over: CurlTransport(options)).error()
            #expect([.timedOut, .connectionFailed, .proxyFailed].contains(error.code), "\(error)")
            #expect(error.response == nil)
            #expect(proxy.connectionCount == 1)
        }

        @Test(arguments: ["http", "https"])
        func proxyThatClosesIsAnError(_ scheme: String) async throws {
            let proxy = try ProxyServer(.closing)
            let request = Request<Data>.get("\(scheme)://127.0.0.1:1/")
            let error = try await Sending(request, over: CurlTransport(options(proxy))).error()
            #expect([.connectionLost, .proxyFailed].contains(error.code), "\(error)")
            #expect(error.response == nil)
            #expect(proxy.heads.count >= 1)
        }

        // MARK: SOCKS

        // A SOCKS proxy that records the requested host and responds in place of the server. A proxy that does not
        // grant the request sends no response.
        private func socksServer(
            grants: Bool = true, _ asked: EventLog<String>, _ heads: EventLog<String>
        ) throws -> LoopbackListener {
            try LoopbackListener { connection in
                // Each message of the client waits for the answer to the one before, so a read returns one message.
                guard let hello = connection.read(), hello.first == 5 else { return }
                let isNamed = hello.dropFirst(2).contains(2)
                connection.write(Data([5, isNamed ? 2 : 0]))
                if isNamed {
                    guard let named = connection.read().map({ [UInt8]($0) }), named.count > 2 else { return }
                    let user = named.dropFirst(2).prefix(Int(named[1]))
                    let password = named.dropFirst(3 + user.count)
                    asked.record(
                        String(decoding: user, as: UTF8.self) + ":" + String(decoding: password, as: UTF8.self))
                    connection.write(Data([1, 0]))
                }
                guard let request = connection.read().map({ [UInt8]($0) }), request.count > 6 else { return }
                let isAddress = request[3] == 1
                let host = request.dropFirst(isAddress ? 4 : 5).dropLast(2)
                asked.record(
                    isAddress ? host.map { "\($0)" }.joined(separator: ".") : String(decoding: host, as: UTF8.self))
                connection.write(Data([5, grants ? 0 : 2, 0, 1, 0, 0, 0, 0, 0, 0]))
                guard grants, let head = connection.readHead() else { return }
                heads.record(head)
                connection.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
            }
        }

        @Test(arguments: [
            ("socks5h", "http://name.invalid/a?b", "name.invalid"), ("SOCKS5", "http://127.0.0.1:1/a?b", "127.0.0.1"),
        ])
        func requestGoesThroughASOCKSProxy(_ scheme: String, _ url: String, _ host: String) async throws {
            let (asked, heads) = (EventLog<String>(), EventLog<String>())
            let proxy = try socksServer(asked, heads)
            let options = try options(at: "\(scheme)://127.0.0.1:\(proxy.port)", hasCredentials: true)
            let response = try await Sending(Request<Data>.get(url), over: CurlTransport(options)).response()
            #expect(response.value == Data("hello".utf8))
            #expect(asked.events == ["\(Self.userName):\(Self.password)", host])
            #expect(heads.events.map { $0.hasPrefix("GET /a?b HTTP/1.1\r\n") } == [true])
            #expect(heads.events.map { $0.contains("Proxy-") } == [false])
        }

        @Test func refusalOfASOCKSProxyIsTheProxys() async throws {
            let (asked, heads) = (EventLog<String>(), EventLog<String>())
            let proxy = try socksServer(grants: false, asked, heads)
            let options = try options(at: "socks5h://127.0.0.1:\(proxy.port)", hasCredentials: true)
            let error = try await Sending(Request<Data>.get("http://name.invalid/"), over: CurlTransport(options))
                .error()
            #expect(error.code == .proxyFailed, "\(error)")
            expectNoSecret(error)
        }

        // MARK: The environment

        @Test func proxyOfTheEnvironmentIsUsedUnlessTheOptionsOrAnExceptionForbidIt() async {
            await #expect(processExitsWith: .success) {
                let (origin, proxy) = try serversInAnEnvironment()
                #expect(try await body(from: origin, proxy: .direct) == "straight")
                #expect(proxy.connectionCount == 0)
                #expect(try await body(from: origin, proxy: .environment) == "by proxy")
                #expect(proxy.heads.count == 1)
                setenv("no_proxy", "example.invalid,127.0.0.1", 1)
                #expect(try await body(from: origin, proxy: .environment) == "straight")
                #expect(proxy.connectionCount == 1 && proxy.heads.count == 1)
            }
        }

        /// A proxy at which no program listens is named as the cause, whichever variable names it.
        @Test(arguments: [
            ("http_proxy", "http"), ("all_proxy", "http"), ("ALL_PROXY", "http"), ("https_proxy", "https"),
            ("HTTPS_PROXY", "https"), ("all_proxy", "https"),
        ])
        func refusedProxyOfTheEnvironmentIsProxyFailed(_ name: String, _ scheme: String) async {
            await #expect(processExitsWith: .success) { [name = name as String, scheme = scheme as String] in
                _ = try serversInAnEnvironment()
                for other in ["http_proxy", "https_proxy", "all_proxy"] { unsetenv(other) }
                let closed = try LoopbackPort.refusing()
                setenv(name, "http://127.0.0.1:\(closed.port)", 1)
                setenv("no_proxy", "direct.invalid", 1)
                let transport = try CurlTransport(.init())
                for _ in 1...2 {
                    let error = try await Sending(Request<Data>.get("\(scheme)://127.0.0.1:1/"), over: transport)
                        .error()
                    #expect(error.code == .proxyFailed && error.message.contains("proxy"), "\(error)")
                }
                // The same handle connects to this server without the proxy.
                setenv("no_proxy", "127.0.0.1", 1)
                let error = try await Sending(Request<Data>.get("\(scheme)://127.0.0.1:1/"), over: transport).error()
                #expect(error.code == .connectionFailed && !error.message.contains("proxy"), "\(error)")
            }
        }

        @Test func a407OfAProxyOfTheEnvironmentIsProxyFailed() async {
            await #expect(processExitsWith: .success) {
                let (origin, _) = try serversInAnEnvironment()
                let proxy = try ProxyServer(.requiringCredentials(userName: "a", password: "b"))
                setenv("http_proxy", try proxy.url.absoluteString, 1)
                let error = try await Sending(Request<Data>.get(origin.url()), over: CurlTransport(.init())).error()
                #expect(error.code == .proxyFailed && error.message.contains("407"), "\(error)")
            }
        }

        /// A program may rely on its own proxy, so no variable of the environment bypasses it.
        @Test(arguments: ["", "127.0.0.1", "*"])
        func proxyOfTheOptionsWinsOverTheEnvironment(_ exceptions: String) async {
            await #expect(processExitsWith: .success) { [exceptions = exceptions as String] in
                let (origin, other) = try serversInAnEnvironment()
                setenv("no_proxy", exceptions, 1)
                let proxy = try ProxyServer()
                #expect(try await body(from: origin, proxy: .server(proxy.url)) == "by proxy")
                #expect(proxy.heads.count == 1)
                #expect(other.connectionCount == 0)
            }
        }
    }

    /// An origin and a proxy, which the environment of this child process names.
    private func serversInAnEnvironment() throws -> (origin: TestServer, proxy: ProxyServer) {
        endProcessIfStuck()
        let (origin, proxy) = (try TestServer(), try ProxyServer())
        origin.respond { .status(200, body: $0.value(of: "Via") == nil ? "straight" : "by proxy") }
        for name in ["no_proxy", "NO_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] { unsetenv(name) }
        for name in ["http_proxy", "https_proxy", "all_proxy"] { setenv(name, try proxy.url.absoluteString, 1) }
        return (origin, proxy)
    }

    private func body(from origin: TestServer, proxy: ConnectionOptions.Proxy) async throws -> String {
        var options = ConnectionOptions()
        options.proxy = proxy
        return try await Sending(Request<String>.get(origin.url()), over: CurlTransport(options)).response().value
    }

    @Suite struct CurlProtocolTests {
        @Test(.enabled(if: LoopbackListener.canUseIPv6, "no IPv6 loopback address"))
        func literalIPv6AddressIsReached() async throws {
            let heads = EventLog<String>()
            let server = try LoopbackListener(isIPv6: true) { connection in
                guard let head = connection.readHead() else { return }
                heads.record(head)
                connection.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
            }
            let transport = try CurlTransport.trusting()
            let response = try await Sending(Request<Data>.get("http://[::1]:\(server.port)/"), over: transport)
                .response()
            #expect(response.value == Data("hello".utf8))
            #expect(heads.events.map { $0.fieldValue("Host") } == ["[::1]:\(server.port)"])
            #expect(response.metrics?.remoteAddress == "::1")
            #expect(response.metrics?.remotePort == server.port)
        }
    }
#endif
