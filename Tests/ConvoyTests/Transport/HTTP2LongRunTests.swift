// Measures HTTP/2 against nginx for minutes, only on request.
import Foundation
import Testing

@testable import Convoy

#if canImport(CLibcurl)
    /// Measures over a long time whether responses arrive as soon as the server has sent them, and whether each
    /// request is sent once.
    ///
    /// `CONVOY_HTTP2=1` in the environment runs the tests, which print the measurements.
    @Suite(
        .serialized, .enabled(if: Nginx.isInstalled, "nginx is not installed"),
        .enabled(if: ProcessInfo.processInfo.environment["CONVOY_HTTP2"] == "1", "CONVOY_HTTP2 is not 1"))
    struct HTTP2LongRunTests {
        @Test(.timeLimit(.minutes(15))) func roundsWithPauses() async throws {
            let server = try await Nginx()
            defer { server.shutDown() }
            let load = HTTP2Load(server)
            var generator = SeededGenerator(seed: 7)
            for _ in 1...2_000 {
                try await load.run(requests: [1, 2, 6, 20].randomElement(using: &generator) ?? 1, atOnce: 20)
                // The test does not wait for an event: it measures the effect of a pause on open connections.
                try await Task.sleep(for: .milliseconds(Int.random(in: 0...200, using: &generator)))
            }
            #expect(load.failures.events.isEmpty)
            await load.expectEachAnsweredOnce()
            let latest = load.greatestDelay
            print("rounds: \(load.ends.count) requests, the latest \(latest) s after the log, \(load.connections)")
            #expect(latest < 0.2)
        }

        @Test(.timeLimit(.minutes(15)), arguments: [10, 50, 1_000])
        func connectionsThatEnd(_ perConnection: Int) async throws {
            let server = try await Nginx(.init(requestsPerConnection: perConnection))
            defer { server.shutDown() }
            let load = HTTP2Load(server)
            try await load.run(requests: 5_000, atOnce: 50)
            #expect(load.failures.events.isEmpty, "\(load.failures.events.prefix(3))")
            await load.expectEachAnsweredOnce()
            let latest = load.greatestDelay
            print(
                "\(perConnection) a connection: \(load.failures.count) of \(load.ends.count) failed, "
                    + "the latest \(latest) s after the log, \(load.connections)")
            #expect(latest < 0.2)
        }

        @Test(.timeLimit(.minutes(5))) func coldRequests() async throws {
            for _ in 1...20 {
                let server = try await Nginx()
                defer { server.shutDown() }
                let load = HTTP2Load(server)
                try await load.run(requests: 200, atOnce: 200)
                #expect(load.failures.events.isEmpty)
                await load.expectEachAnsweredOnce()
                #expect(load.connectionCount <= 3)
                print("cold: \(load.connections), the latest \(load.greatestDelay) s after the log")
            }
        }
    }

    extension HTTP2Load {
        /// The longest delay between the server's log entry and the response, in seconds.
        var greatestDelay: Double {
            let sent = Dictionary(answers.map { ($0.target, $0.time) }) { first, _ in first }
            return ends.events.compactMap { end in sent["/\(end.number)"].map { end.time - $0 } }.max() ?? 0
        }

        var connectionCount: Int { Set(answers.map(\.connection)).count }

        /// The number of connections, and the largest number at the same time.
        var connections: String {
            var spans: [String: (first: Double, last: Double)] = [:]
            for answer in answers {
                spans[answer.connection, default: (answer.time, answer.time)].last = answer.time
            }
            let most = spans.values.map { span in
                spans.values.count { $0.first <= span.first && span.first <= $0.last }
            }
            return "\(spans.count) connections, at most \(most.max() ?? 0) answering at once"
        }
    }
#endif
