#if canImport(CLibcurl)
    import Foundation
    import Testing

    @testable import Convoy

    /// Tests the watched events of a loop's sockets, without sockets of libcurl.
    @Suite struct CurlSocketsTests {
        /// Two connected sockets, the first of which is watched.
        private final class Pair {
            let sockets: CurlSockets
            var own: Int32 = -1
            let other: Int32

            init(mostEvents: Int = 256) throws {
                sockets = try CurlSockets(mostEvents: mostEvents)
                var pair: [Int32] = [-1, -1]
                try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &pair) == 0)
                (own, other) = (pair[0], pair[1])
            }

            deinit {
                if own >= 0 { close(own) }
                close(other)
            }

            /// A transfer opens the first socket, and wants to read it.
            func open() {
                sockets.noteOpened(own)
                sockets.want(1, of: own)
            }

            func send() { #expect(write(other, "x", 1) == 1) }

            func receive() {
                var byte: UInt8 = 0
                #expect(read(own, &byte, 1) == 1)
            }

            /// The sockets with a wanted event; nil if a wait is not ended by anything.
            func wait() -> [Int32]? { sockets.wait(milliseconds: 0) ? sockets.ready.map(\.socket) : nil }
        }

        @Test func aKeptConnectionIsQuietOnceAWaitHasFoundNothingOnIt() throws {
            let pair = try Pair()
            pair.sockets.noteOpened(pair.own)
            #expect(!pair.sockets.isQuiet(pair.own))
            pair.sockets.want(1, of: pair.own)
            #expect(pair.wait() == nil)
            #expect(!pair.sockets.isQuiet(pair.own))
            pair.sockets.want(0, of: pair.own)
            #expect(!pair.sockets.isQuiet(pair.own))
            #expect(pair.wait() == nil)
            #expect(pair.sockets.isQuiet(pair.own))
        }

        /// If a wait reports the largest number of events, it may have left out an event of the reused connection.
        @Test func aKeptConnectionIsNotQuietAfterAWaitThatWasFull() throws {
            let (kept, busy) = (try Pair(mostEvents: 1), try Pair())
            let sockets = kept.sockets
            for socket in [kept.own, busy.own] {
                sockets.noteOpened(socket)
                sockets.want(1, of: socket)
            }
            sockets.want(0, of: kept.own)
            #expect(kept.wait() == nil)
            #expect(sockets.isQuiet(kept.own))
            busy.send()
            #expect(kept.wait() == [busy.own])
            #expect(!sockets.isQuiet(kept.own))
            busy.receive()
            #expect(kept.wait() == nil)
            #expect(sockets.isQuiet(kept.own))
        }

        @Test func unexpectedBytesWakeTheEngineOnce() throws {
            let pair = try Pair()
            pair.open()
            pair.sockets.want(0, of: pair.own)
            #expect(pair.wait() == nil)
            pair.send()
            #expect(pair.wait() == [])
            #expect(!pair.sockets.isQuiet(pair.own))
            #expect(pair.wait() == nil)
            #expect(!pair.sockets.isQuiet(pair.own))
            // The transfer wants events again, as after a pause.
            pair.sockets.want(1, of: pair.own)
            #expect(pair.wait() == [pair.own])
        }

        @Test func aSocketWithANumberThatWasAnothersIsWatched() throws {
            for isOpened in [true, false] {
                let (old, new) = (try Pair(), try Pair())
                let sockets = new.sockets
                // New descriptors get the lowest free number, so other tests get no number as high as this.
                let number = fcntl(old.own, F_DUPFD, 900)
                try #require(number >= 900)
                close(old.own)
                old.own = -1
                if isOpened { sockets.noteOpened(number) }
                sockets.want(1, of: number)
                sockets.want(0, of: number)
                if isOpened { #expect(sockets.end(number) == 0) } else { #expect(close(number) == 0) }
                #expect(dup2(new.own, number) == number)
                close(new.own)
                new.own = number
                sockets.want(1, of: number)
                new.send()
                #expect(new.wait() == [number])
            }
        }

        @Test func aClosedSocketIsForgottenThoughAnotherProcessHasItOpen() throws {
            let pair = try Pair()
            // The copy simulates the descriptor that a child process inherits.
            let copy = dup(pair.own)
            defer { close(copy) }
            pair.open()
            #expect(pair.sockets.end(pair.own) == 0)
            pair.own = -1
            pair.send()
            #expect(pair.wait() == nil)
        }

        @Test func aKeptConnectionIsForgottenWithItsSocket() throws {
            let pair = try Pair()
            pair.open()
            for port in 1_024..<2_024 {
                pair.sockets.keep(.init(remoteAddress: "::1", remotePort: 80, localPort: Int32(port)), socket: pair.own)
            }
            #expect(pair.sockets.kept.map(\.key.localPort) == [2_023])
            #expect(pair.sockets.end(pair.own) == 0)
            pair.own = -1
            #expect(pair.sockets.kept.isEmpty)
        }

        @Test func eachSignalEndsOneWait() throws {
            let pair = try Pair()
            for _ in 0..<3 {
                pair.sockets.wakeup.signal()
                #expect(pair.wait() == [])
                #expect(pair.wait() == nil)
            }
        }
    }

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

        // The engine polls sockets with TLS and watches other sockets, so it switches between both while requests wait.
        // libcurl's timer finds an overlooked response only after half a minute. Several such waits exceed the time
        // limit of the test.
        @Test(.enabled(if: Nginx.isInstalled, "nginx is not installed"), .timeLimit(.minutes(2)))
        func requestsWithAndWithoutTLSContinueWhileOthersWait() async throws {
            let (plain, behind) = (try GatedServer(), try GatedServer())
            let server = try await Nginx(.init(backendPort: behind.listener.port))
            let transport = try CurlTransport.trusting { $0.engineCount = 1 }
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
