// Tests how one engine waits for many requests, and how many connections it keeps.
#if canImport(CLibcurl)
    import Foundation
    import Testing

    @testable import Convoy

    @Suite(.timeLimit(.minutes(5))) struct CurlLoopTests {
        /// Responds to every request, but to paths that end in `wait` only when the gate opens.
        private final class GatedServer: Sendable {
            let arrivals = EventLog<Void>()
            private let gate = DispatchSemaphore(value: 0)
            let listener: LoopbackListener

            init() throws {
                listener = try LoopbackListener { [arrivals, gate] connection in
                    while let head = connection.readHead() {
                        if head.contains("wait HTTP/") {
                            arrivals.record(())
                            gate.wait()
                        }
                        connection.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                    }
                }
            }

            func letOneGo() { gate.signal() }
        }

        /// The engine polls sockets with TLS and watches other sockets, so it switches between both while requests
        /// wait.
        ///
        /// libcurl's timer finds an overlooked response only after half a minute. Several such waits exceed the time
        /// limit of the test.
        @Test(.enabled(if: Nginx.isInstalled, "nginx is not installed"), .timeLimit(.minutes(2)))
        func requestsWithAndWithoutTLSContinueWhileOthersWait() async throws {
            let (plain, behind) = (try GatedServer(), try GatedServer())
            let server = try await Nginx(.init(backendPort: behind.listener.port))
            defer { server.shutDown() }
            var options = try ConnectionOptions.trustingTestAuthority()
            options.engineCount = 1
            let transport = try CurlTransport(options)
            func send(_ url: String) -> Sending<String> { Sending(.get(url), over: transport) }
            let (plainURL, secureURL) = ("http://127.0.0.1:\(plain.listener.port)/", server.url("/behind/"))
            for round in 1...5 {
                // A plain and a TLS request wait. Two times the older one ends, and another request replaces it.
                // At last the younger one ends before the older one.
                var (first, last) = (send(plainURL + "wait"), send(secureURL + "wait"))
                await plain.arrivals.wait(count: 2 * round - 1)
                await behind.arrivals.wait(count: 2 * round - 1)
                #expect(try await send(plainURL).response().value == "ok")
                plain.letOneGo()
                #expect(try await first.response().value == "ok")
                (first, last) = (last, send(plainURL + "wait"))
                await plain.arrivals.wait(count: 2 * round)
                behind.letOneGo()
                #expect(try await first.response().value == "ok")
                (first, last) = (last, send(secureURL + "wait"))
                await behind.arrivals.wait(count: 2 * round)
                behind.letOneGo()
                #expect(try await last.response().value == "ok")
                plain.letOneGo()
                #expect(try await first.response().value == "ok")
            }
            #expect(plain.listener.connectionCount <= 2)
        }

        /// libcurl's limit of connections also counts the connections in use.
        @Test(.enabled(if: FileDescriptors.freeCount >= 8_192, "where descriptors are few, few connections are kept"))
        func connectionsAreKeptHoweverManyAreInUse() async throws {
            let count = 280
            let server = try GatedServer()
            var options = ConnectionOptions()
            options.engineCount = 1
            let transport = try CurlTransport(options)
            let outcomes = EventLog<String?>()
            func send() {
                let url = "http://127.0.0.1:\(server.listener.port)/wait"
                let operation = RequestOperation(Request<String>.get(url), transport: transport)
                operation.onFinish { outcomes.record((try? $0.get())?.value) }
                operation.start()
            }
            for number in 1...count {
                send()
                await server.arrivals.wait(count: number)
            }
            for number in 1...20 {
                server.letOneGo()
                await outcomes.wait(count: number)
                send()
                await server.arrivals.wait(count: count + number)
            }
            for _ in 1...count { server.letOneGo() }
            let answers = await outcomes.wait(count: count + 20)
            #expect(answers.allSatisfy { $0 == "ok" })
            #expect(server.listener.connectionCount == count)
        }
    }
#endif
