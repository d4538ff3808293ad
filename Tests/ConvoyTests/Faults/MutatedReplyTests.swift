// Tests randomly damaged responses of many requests.
#if canImport(CLibcurl)
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
        /// Neither descriptors nor threads are left behind.
        @Test func malformedResponsesEndOnceAndNoneIsAcceptedThatCurlRefuses() async {
            await #expect(processExitsWith: .success) {
                let count = MutatedReplyTests.count
                endProcessIfStuck(after: 60 + count / 20)
                let server = try TestServer(recording: .none)
                let visited = Locked<Set<Int>>([])
                server.respond { request in
                    guard let place = MutatedReply(path: request.path) else { return .status(404) }
                    // The first attempt of one request in five gets no response, so that the manager retries.
                    if !place.isBare, place.hop == 0, place.index % 5 == 4,
                        visited.withLock({ $0.insert(place.index).inserted })
                    {
                        return Reply(steps: [.close])
                    }
                    let (bytes, closes) = place.mutation
                    return .raw(bytes, closes: closes)
                }
                let transport = try CurlTransport.alone()
                var taken = 0
                var before: (descriptors: Int, threads: Int)?
                for start in stride(from: 0, to: count, by: MutatedReplyTests.share) {
                    let limit = (start / MutatedReplyTests.share).isMultiple(of: 2) ? 8 : 16
                    let range = start..<min(start + MutatedReplyTests.share, count)
                    let results = await MutatedReplyTests.send(range, limit, to: server, over: transport)
                    for case (_, .success(let response)) in results {
                        taken += 1
                        MutatedReplyTests.compare(response, server)
                    }
                    before = before ?? MutatedReplyTests.figures
                }
                #expect(taken > count / 10)
                // On a loaded machine workers seem to block, and a pool adds threads. libdispatch ends idle threads
                // after five seconds.
                let (warm, deadline) = (try #require(before), ContinuousClock.now + .seconds(15))
                while MutatedReplyTests.figures.threads > warm.threads + 40, .now < deadline { sched_yield() }
                let after = MutatedReplyTests.figures
                // At most sixteen connections stay open, each with two descriptors in this process and a thread of
                // the server.
                #expect(after.descriptors <= warm.descriptors + 64, "\(warm) \(after)")
                #expect(after.threads <= warm.threads + 40, "\(warm) \(after)")
                server.shutDown()
            }
        }

        private static var figures: (descriptors: Int, threads: Int) {
            let count = { (name: String) in
                (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/\(name)").count) ?? 0
            }
            return (count("fd"), count("task"))
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

        var mutation: (bytes: Data, closes: Bool) {
            let seed = UInt64(index) &* 1_000_003 &+ UInt64(hop)
            var mutator = ReplyMutator(seed: seed, redirectingTo: "/sent/\(index)/\(hop + 1)")
            return mutator.makeReply()
        }

        var shown: String { String(decoding: mutation.bytes.prefix(400), as: UTF8.self).debugDescription }
    }
#endif
