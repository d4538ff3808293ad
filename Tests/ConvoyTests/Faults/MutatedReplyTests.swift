// Tests randomly damaged responses, and random faults of many requests.
#if canImport(CLibcurl)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    /// Receives damaged responses in a child process, which a bug in libcurl could crash.
    ///
    /// `CONVOY_MUTATIONS` in the environment sets the number of responses, 1,200 by default.
    @Suite struct MutatedReplyTests {
        static let count = ProcessInfo.processInfo.environment["CONVOY_MUTATIONS"].flatMap { Int($0) } ?? 1_200
        private static let share = 400

        /// Sends requests over reused connections, with redirects and retries, 8 and 16 at a time.
        ///
        /// Each request ends once. A response is accepted only if libcurl alone also accepts it with the same body.
        @Test func malformedResponsesEndOnceAndNoneIsAcceptedThatCurlRefuses() async {
            await #expect(processExitsWith: .success) {
                let count = MutatedReplyTests.count
                endProcessIfStuck(after: 60 + count / 20)
                let server = try TestServer(recording: .none)
                let visits = Locked<[Int: Int]>([:])
                server.respond { request in
                    guard let place = MutatedReply(path: request.path) else { return .status(404) }
                    if !place.isBare, place.needsARetry {
                        let visit = visits.withLock { visits in
                            visits[place.index, default: 0] += 1
                            return visits[place.index] ?? 0
                        }
                        if visit == 1 { return Reply(steps: [.close]) }
                    }
                    return place.reply
                }
                let transport = try CurlTransport.alone()
                var (taken, redirected, repeated) = (0, 0, 0)
                for start in stride(from: 0, to: count, by: MutatedReplyTests.share) {
                    let limit = (start / MutatedReplyTests.share).isMultiple(of: 2) ? 8 : 16
                    let range = start..<min(start + MutatedReplyTests.share, count)
                    let results = await MutatedReplyTests.send(range, limit, to: server, over: transport)
                    for (_, result) in results {
                        guard case .success(let response) = result else { continue }
                        taken += 1
                        redirected += response.redirects
                        repeated += response.attempts.count - 1 - response.redirects
                        MutatedReplyTests.compare(response, server)
                    }
                }
                print("\(count) mutated: \(taken) taken, \(redirected) after a redirect, \(repeated) after a retry")
                #expect(taken > count / 10)
                server.shutDown()
            }
        }

        private static func send(
            _ indices: Range<Int>, _ limit: Int, to server: TestServer, over transport: CurlTransport
        ) async -> [(Int, RequestOperation<Data>.Result)] {
            let retries = RetryPolicy(maxRetries: 2, baseDelay: .milliseconds(1), maxDelay: .milliseconds(2))
            var configuration = RequestManager.Configuration(
                maxConcurrentOperationCount: limit, maxConcurrentPerHost: limit, transport: .custom(transport))
            configuration.retries = retries
            // A damaged Location may name another host, so only redirects to the same host and port are followed.
            configuration.redirects = RedirectPolicy { hop in
                hop.to.url.host() == hop.from.url.host() && hop.to.url.port == hop.from.url.port ? .follow : .refuse
            }
            let manager = RequestManager(configuration: configuration)
            let outcomes = EventLog<(Int, RequestOperation<Data>.Result)>()
            for index in indices {
                let request = server.get(MutatedReply(index: index).path).idleTimeout(.milliseconds(250))
                manager.enqueue(index.isMultiple(of: 3) ? request : request.acceptableStatusCodes(.any)) {
                    outcomes.record((index, $0))
                }
            }
            await outcomes.wait(count: indices.count, within: .seconds(100))
            await manager.drain()
            #expect(outcomes.events.map(\.0).sorted() == Array(indices))
            return outcomes.events
        }

        /// Compares the final response with the one that libcurl gets without Convoy.
        private static func compare(_ response: Response<Data>, _ server: TestServer) {
            // A damaged Location may lead to another path. Its 404 is not compared.
            guard var place = response.head.url.flatMap({ MutatedReply(path: $0.path) }) else { return }
            place.isBare = true
            let bare = BareCurl.get(server.url(place.path))
            let taken = "\(response.statusCode), \(response.value.count) bytes, attempt \(response.attempts.count)"
            #expect(bare.code == 0, "\(place.path): \(taken), libcurl says \(bare.code): \(place.shown)")
            guard response.headerFields["Content-Encoding"] == nil, bare.code == 0 else { return }
            #expect(response.value == bare.body, "\(place.path) has another body: \(place.shown)")
        }
    }

    extension Response {
        fileprivate var redirects: Int { attempts.count { [301, 302, 303, 307, 308].contains($0.statusCode) } }
    }

    /// The reply for a path; the path determines its bytes.
    private struct MutatedReply {
        var index: Int
        var hop = 0
        /// Whether libcurl sends the request without Convoy.
        var isBare = false

        init(index: Int) { self.index = index }

        init?(path: String) {
            let parts = path.split(separator: "/")
            guard parts.count == 3, let index = Int(parts[1]), let hop = Int(parts[2]) else { return nil }
            (self.index, self.hop, isBare) = (index, hop, parts[0] == "bare")
        }

        var path: String { "/\(isBare ? "bare" : "sent")/\(index)/\(hop)" }

        /// Whether the first attempt gets no response, so that the manager retries; true for one index in five.
        var needsARetry: Bool { index % 5 == 4 && hop == 0 }

        private var mutation: (bytes: Data, closes: Bool) {
            let seed = UInt64(index) &* 1_000_003 &+ UInt64(hop)
            var mutator = ReplyMutator(seed: seed, redirectingTo: "/sent/\(index)/\(hop + 1)")
            return mutator.makeReply()
        }

        var reply: Reply {
            let (bytes, closes) = mutation
            return .raw(bytes, closes: closes)
        }

        var shown: String { String(decoding: mutation.bytes.prefix(400), as: UTF8.self).debugDescription }
    }

    /// Runs in a child process, because the test counts descriptors and threads.
    @Suite struct SeededFaultTests {
        @Test func everyRequestEndsOnceAndEveryHealthyOneIsRight() async {
            await #expect(processExitsWith: .success) {
                endProcessIfStuck(after: 100)
                let server = try TestServer(recording: .none)
                server.respond { SeededExchange(path: $0.path).reply }
                let transport = try CurlTransport.alone()
                // Warms up the pools of dispatch and malloc, and the reused connections.
                await Self.send(0..<200, seed: 1, to: server, over: transport)
                let before = (descriptors: Self.count("/proc/self/fd"), threads: Self.count("/proc/self/task"))
                for seed in 1...2 as ClosedRange<UInt64> {
                    await Self.send(400..<LongRuns.count(700, long: 2_400), seed: seed, to: server, over: transport)
                }
                // On a loaded machine workers seem to block, and a pool adds threads. libdispatch ends idle threads
                // after five seconds.
                let deadline = ContinuousClock.now + .seconds(15)
                while Self.count("/proc/self/task") > before.threads + 24, .now < deadline { sched_yield() }
                let after = (descriptors: Self.count("/proc/self/fd"), threads: Self.count("/proc/self/task"))
                // At most sixteen connections stay open, each with two descriptors in this process and a thread of
                // the server.
                #expect(after.descriptors <= before.descriptors + 40, "\(before) \(after)")
                #expect(after.threads <= before.threads + 24, "\(before) \(after)")
                #expect(server.rejectedRequestCount == 0)
                server.shutDown()
            }
        }

        private static func count(_ path: String) -> Int {
            (try? FileManager.default.contentsOfDirectory(atPath: path).count) ?? 0
        }

        /// Sends the requests with these indices, and checks each outcome against its fault.
        private static func send(
            _ indices: Range<Int>, seed: UInt64, to server: TestServer, over transport: CurlTransport
        ) async {
            let manager = RequestManager(
                configuration: .init(
                    maxConcurrentOperationCount: 16, maxConcurrentPerHost: 16, transport: .custom(transport)))
            let outcomes = EventLog<(index: Int, result: RequestOperation<Data>.Result)>()
            for index in indices {
                let exchange = SeededExchange(seed: seed, index: index)
                let request = server.get(exchange.path)
                    .idleTimeout(exchange.fault == .stall ? .milliseconds(200) : .seconds(60))
                manager.enqueue(request) { outcomes.record((index, $0)) }
            }
            await outcomes.wait(count: indices.count, within: .seconds(80))
            await manager.drain()
            let events = outcomes.events
            #expect(events.count == indices.count)
            #expect(Set(events.map(\.index)) == Set(indices))
            for (index, result) in events {
                let exchange = SeededExchange(seed: seed, index: index)
                switch result {
                case .success(let response):
                    #expect(exchange.codes.isEmpty, "\(exchange.path) succeeded")
                    #expect(response.value == exchange.body, "\(exchange.path)")
                case .failure(let error):
                    #expect(exchange.codes.contains(error.code), "\(exchange.path): \(error)")
                }
            }
        }
    }

    /// The request and the response for an index; the seed and the index determine them.
    private struct SeededExchange {
        enum Fault: String, CaseIterable {
            case none, reset, close, stall, garbage, badChunk, cutHead, trailers, interim, shortLength, longLength
            case cutCoding
        }

        let path: String
        let fault: Fault
        let body: Data
        private let place: Int64

        init(seed: UInt64, index: Int) {
            var random = SeededGenerator(seed: seed &* 1_000_003 &+ UInt64(index))
            let fault =
                Int.random(in: 0..<5, using: &random) == 0
                ? Fault.allCases.dropFirst().randomElement(using: &random) : nil
            self.fault = fault ?? .none
            // The server sends an overlong response in one write. Bytes that arrived after the next request would
            // look like the response to that request.
            let isLarge = Int64.random(in: 0..<5, using: &random) == 0 && fault != .longLength
            let size = isLarge ? 200_000 : Int64.random(in: 1..<5_000, using: &random)
            let offset = Int64(index) * 1_000
            body = Reply.pattern(range: offset..<(offset + size))
            place = Int64.random(in: 0..<size, using: &random)
            path = "/\(seed)/\(index)/\(self.fault)"
        }

        /// - Parameter path: the `path` of an exchange that `init(seed:index:)` created.
        init(path: String) {
            let parts = path.split(separator: "/").compactMap { UInt64($0) }
            self.init(seed: parts.first ?? 0, index: parts.count > 1 ? Int(parts[1]) : 0)
        }

        /// The allowed error codes; empty when the request must succeed.
        var codes: Set<RequestError.Code> {
            switch fault {
            case .none, .trailers, .interim, .longLength: []
            case .shortLength: [.connectionLost]
            case .stall: [.timedOut]
            case .garbage, .cutCoding: [.badResponse]
            case .reset, .close, .cutHead, .badChunk: [.connectionLost, .badResponse]
            }
        }

        var reply: Reply {
            let whole = Reply.body(body)
            switch fault {
            case .none: return whole
            case .reset: return whole.resetting(afterBytes: place)
            case .close: return whole.disconnecting(afterBytes: place)
            case .stall: return whole.stalling(afterBodyBytes: place)
            case .garbage: return .raw(Reply.pattern(range: 1..<(place + 2)))
            case .badChunk:
                return .raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nxyz\r\n", closes: false)
            case .cutHead: return whole.disconnecting(afterBytes: place % 20)
            case .trailers:
                return .chunked([body.prefix(7), body.dropFirst(7)], trailers: [("X-A", "b"), ("X-C", "d")])
            case .interim: return whole.informational(Array(repeating: 103, count: 100))
            case .shortLength:
                return .status(200, headerFields: [("Content-Length", "\(body.count + 1)")], body: body)
                    .disconnectingAtEnd()
            case .longLength:
                // More bytes than announced: the first ones are the body, the rest is ignored.
                let head = "HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\r\n"
                return .raw(Data(head.utf8) + body + Data("HTTP/1.1 200 OK\r\n\r\nevil".utf8), closes: false)
            case .cutCoding:
                let zipped = Data(base64Encoded: "H4sIAAAAAAACA0vOzyvLr1RIHqVGqVFqlBqlRqlRapTCRwEAiHc6/zQIAAA=")
                return .status(
                    200, headerFields: [("Content-Encoding", "gzip")], body: (zipped ?? Data()).dropLast(9))
            }
        }
    }
#endif
