import Convoy
import ConvoyTesting
import Foundation
import Testing

extension FaultsWithRepeats {
    /// Sends random requests, each with different secrets; `CONVOY_SECRETS` in the environment sets the number of
    /// requests.
    @Suite(.timeLimit(.minutes(10))) struct SecretSearchTests {
        private static let count = ProcessInfo.processInfo.environment["CONVOY_SECRETS"].flatMap { Int($0) } ?? 60

        private struct Token: Decodable {
            let accessToken: String
        }

        private struct World {
            let servers: [TestServer]
            let said = SecretText()
            let recorder = HARRecorder(requestLimit: 10_000, bodyLimitBytes: 1 << 16)

            /// The HAR archive of all requests.
            ///
            /// The archive contains the bodies of JSON responses, so this text omits their tokens.
            var archive: String {
                String(decoding: recorder.har(), as: UTF8.self).replacing(Secret.make(0, .answer), with: "")
            }

            init() throws {
                let servers = [try TestServer(), try TestServer()]
                self.servers = servers
                for (index, server) in servers.enumerated() {
                    let other = servers[1 - index].port
                    server.respond { Self.answer($0, other) }
                }
            }

            /// The response that the path describes.
            ///
            /// The path is a list of words. A redirect removes the first word.
            private static func answer(_ request: RecordedRequest, _ other: Int) -> Reply {
                let words = request.path.split(separator: "/").map(String.init)
                let rest = "/" + words.dropFirst().joined(separator: "/")
                let cookie = ("Set-Cookie", "sid=\(Secret.make(0, .cookie)); Path=/")
                switch words.first {
                case "here":
                    return .status(307, headerFields: [("Location", rest), cookie])
                case "elsewhere302", "elsewhere307":
                    let place = "http://me:\(Secret.make(0, .location))@127.0.0.1:\(other)\(rest)"
                    let query = "?access_token=\(Secret.make(0, .location))"
                    return .status(words[0] == "elsewhere302" ? 302 : 307, headerFields: [("Location", place + query)])
                case "busy": return .status(503, headerFields: [("Retry-After", "0"), cookie])
                case "denied":
                    return .status(401, headerFields: [("WWW-Authenticate", "Bearer realm=\"a\""), cookie], body: "no")
                case "none": return .status(404, body: "no such thing")
                case "lost": return .status(200).disconnecting(afterBytes: 0)
                case "cut": return .status(200, body: "0123456789").disconnecting(afterBytes: 4)
                case "token": return .json("{\"accessToken\": \"\(Secret.make(0, .answer))\"}")
                case "mistaken": return .json("{\"accessToken\": 1, \"refresh_token\": \"\(Secret.make(0, .answer))\"}")
                default: return .status(200, headerFields: [cookie], body: "there")
                }
            }

            func configuration(_ transport: TransportChoice) -> RequestManager.Configuration {
                let log = LogMonitor(minimumLevel: .debug) { [said] in said.add($1) }
                let events = ClosureMonitor { [said] in said.add("\($1)", String(reflecting: $1)) }
                var configuration = RequestManager.Configuration(
                    transport: transport, monitors: [log, recorder, events])
                configuration.retries = RetryPolicy(
                    maxRetries: 1, baseDelay: .milliseconds(1), maxDelay: .milliseconds(2))
                configuration.redirects = RedirectPolicy(maxCount: 2)
                return configuration
            }
        }

        private static let ends = ["there", "there", "busy", "denied", "none", "lost", "cut", "token", "mistaken"]
        private static let steps = ["here", "elsewhere302", "elsewhere307", "busy"]

        /// A request with secrets in some places, and the index of its server.
        private func request(
            _ number: Int, to world: World, _ random: inout SeededGenerator
        ) -> (request: Request<Token>, home: Int) {
            let home = Int.random(in: 0...1, using: &random)
            let words =
                (0..<Int.random(in: 0...3, using: &random)).compactMap { _ in Self.steps.randomElement(using: &random) }
                + [Self.ends.randomElement(using: &random) ?? ""]
            var url = "http://127.0.0.1:\(world.servers[home].port)/\(words.joined(separator: "/"))"
            func secret(_ place: Secret.Place) -> String? {
                Bool.random(using: &random) ? Secret.make(number, place) : nil
            }
            if let password = secret(.url) { url = url.replacing("http://", with: "http://me:\(password)@") }
            if let token = secret(.query) { url += "?access_token=\(token)" }
            if Int.random(in: 0..<20, using: &random) == 0 { url = url.replacing("http:", with: "nothing:") }
            var request = Request<Token>(method: .get, url: url)
            if let body = secret(.body) {
                request = Request<Token>(method: [.post, .put].randomElement(using: &random) ?? .post, url: url)
                    .form([
                        URLQueryItem(name: "grant_type", value: "a"), URLQueryItem(name: "refresh_token", value: body),
                    ])
            }
            if let token = secret(.authorization) { request = request.bearer(token) }
            if let cookie = secret(.cookie) { request = request.header("Cookie", "sid=\(cookie)") }
            if let key = secret(.key) { request = request.secretHeader("X-Api-Key", key) }
            return (request, home)
        }

        private func listen(to operation: RequestOperation<Token>, in manager: RequestManager, _ said: SecretText) async
        {
            said.add(String(describing: operation), String(reflecting: operation), manager.why(operation))
            do {
                let response = try await operation.response()
                said.addDump(of: response.request)
                said.addDump(of: response.head)
                said.add(
                    "\(response.head)", "\(response.request)", String(reflecting: response.request),
                    "\(String(describing: response.metrics))", "\(response.attempts)", "\(response.timings)")
                for attempt in response.attempts {
                    said.add(
                        "\(attempt.request)", "\(attempt)", "\(attempt.next)", "\(String(describing: attempt.response))"
                    )
                }
            } catch {
                let bridged = error as NSError
                said.addDump(of: error)
                said.add(
                    "\(error)", String(reflecting: error), error.localizedDescription, error.message, error.request,
                    "\(bridged)", bridged.debugDescription, "\(bridged.userInfo)", "\(error.attempts)",
                    "\(String(describing: error.response))", String(reflecting: error.underlying))
            }
            said.add(manager.why(operation), "\(operation)")
        }

        private func send(_ world: World, _ manager: RequestManager, seed: Int) async -> [Int] {
            var random = SeededGenerator(seed: UInt64(seed))
            var homes: [Int] = []
            for start in stride(from: 1, through: Self.count, by: 50) {
                var operations: [RequestOperation<Token>] = []
                for number in start..<min(start + 50, Self.count + 1) {
                    let (request, home) = request(number, to: world, &random)
                    homes.append(home)
                    world.said.add("\(request)", String(reflecting: request), request.defect ?? "")
                    world.said.addDump(of: request)
                    operations.append(manager.enqueue(request))
                }
                for operation in operations { await listen(to: operation, in: manager, world.said) }
            }
            await manager.drain()
            world.said.add(world.archive)
            return homes
        }

        /// - Parameter homes: the index of the server for each request; the first request has number 1.
        private func expectSecretsStayed(_ world: World, _ homes: [Int]) {
            world.said.expectNone()
            var found = 0
            for (index, server) in world.servers.enumerated() {
                for request in server.recordedRequests {
                    let text = "\(request.target) \(request.headerFields) \(request.bodyText)"
                    for secret in Secret.all(in: text) where secret.number > 0 {
                        found += 1
                        // A 307 sends the body to its target.
                        let isMeant = homes[secret.number - 1] == index || secret.place == .body
                        #expect(
                            isMeant && secret.place != .proxy, "\(secret) reached server \(index): \(request.target)")
                    }
                }
            }
            #expect(found > Self.count / 2)
        }

        @Test(arguments: ConformingTransport.all) func secretsReachTheirServersOnly(transport: ConformingTransport)
            async throws
        {
            let world = try World()
            defer { for server in world.servers { server.shutDown() } }
            let manager = RequestManager(configuration: world.configuration(.custom(transport.transport)))
            expectSecretsStayed(world, await send(world, manager, seed: 1))
        }

        #if canImport(CLibcurl)
            @Test(arguments: [true, false]) func secretsOfAProxyAreItsOwn(isKnown: Bool) async throws {
                let world = try World()
                let password = Secret.make(0, .proxy)
                let proxy = try ProxyServer(
                    .requiringCredentials(userName: "me", password: isKnown ? password : "other"))
                defer { for shutDown in world.servers.map({ $0.shutDown }) + [proxy.shutDown] { shutDown() } }
                var options = ConnectionOptions()
                options.proxy = .server(try proxy.url, userName: "me", password: password)
                world.said.add("\(options)", String(reflecting: options))
                let configuration = world.configuration(.custom(try CurlTransport(options)))
                let homes = await send(world, RequestManager(configuration: configuration), seed: 2)
                #expect(proxy.heads.contains { !Secret.all(in: $0).filter { $0.place == .proxy }.isEmpty })
                if isKnown {
                    expectSecretsStayed(world, homes)
                } else {
                    world.said.expectNone()
                    #expect(world.servers.allSatisfy { $0.requestCount == 0 })
                }
            }

            /// Several host names share a connection to one server, but no credentials.
            ///
            /// Each HTTP/2 request names its host with the `Host` field.
            @Test func namesOnOneConnectionKeepTheirSecrets() async throws {
                let world = try World()
                let place = "http://127.0.0.1:\(world.servers[0].port)/there"
                let server = try await HTTP2Server { stream in
                    stream.number % 4 == 3
                        ? [HTTP2Server.redirect(stream.number, to: place)] : [HTTP2Server.ok(stream.number)]
                }
                defer { for shutDown in world.servers.map({ $0.shutDown }) + [server.shutDown] { shutDown() } }
                var configuration = world.configuration(
                    .custom(try CurlTransport(ConnectionOptions.trustingTestAuthority())))
                configuration.redirects.allowsInsecure = true
                let manager = RequestManager(configuration: configuration)
                var random = SeededGenerator(seed: 3)
                for number in 1...max(8, Self.count / 4) {
                    // The filler has no shorter form in HPACK, so the frames contain it as it is.
                    let key = Secret.make(number, .key, filler: "!!!!!!!!!!!!!!!!!!!!!!!!")
                    let name = ["a.example", "b.example", "c.example"].randomElement(using: &random) ?? ""
                    let request = Request<Token>.get(server.url("/")).header("Host", name).secretHeader(
                        "X-Api-Key", key
                    )
                    .bearer(key)
                    await listen(to: manager.enqueue(request), in: manager, world.said)
                    let block = String(decoding: server.blocks.events.last ?? Data(), as: UTF8.self)
                    #expect(Set(Secret.all(in: block).map(\.number)) == [number])
                }
                #expect(Set(server.streams.events.map(\.connection)) == [1])
                world.said.add(world.archive)
                world.said.expectNone()
                let requests = world.servers.flatMap(\.recordedRequests)
                #expect(!requests.isEmpty)
                for request in requests { #expect(Secret.all(in: "\(request.target) \(request.headerFields)").isEmpty) }
            }
        #endif
    }
}
