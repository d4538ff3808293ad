// Sends hundreds of requests, or thousands in a long run. About one in five has a fault.
#if canImport(CLibcurl)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

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
