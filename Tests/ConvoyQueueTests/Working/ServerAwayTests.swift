import Convoy
import ConvoyTesting
import Foundation
import Testing

@testable import ConvoyQueue

/// Tests a server that is unreachable for 10,000 s of virtual time.
@Suite struct ServerAwayTests {
    @Test func theBackOffIsStoredAndNothingTurnsInCircles() async throws {
        let place = try StorePlace()
        let (clock, sent) = (place.clock, Told<Duration>())
        let stub = StubTransport(clock: clock)
        stub.route(.post, "/a") { _ in
            sent.tell(clock.elapsed)
            return clock.elapsed < .seconds(10_000) ? .failure(.connectionFailed) : .status(200)
        }
        let manager = RequestManager(
            configuration: .init(transport: .custom(stub), clock: clock, jitter: { 1 }))
        var queue = try DurableQueue(at: place.file, manager: manager)
        let url = try #require(URL(string: "http://example.com/a"))
        let jobs = (1...20).map { Job("test", JobRequest(method: .post, url: url), id: "\($0)") }
        try await queue.add(contentsOf: jobs)
        queue.start(otherwise: takesAll)
        var moves = 0
        while try await queue.status()[.done] < 20, moves < 50_000 {
            if moves == 30 {
                // A second queue continues with the same file, like another process.
                await queue.close()
                queue = try DurableQueue(at: place.file, manager: manager)
                queue.start(otherwise: takesAll)
            }
            // No timer is set while the last outcome is being written.
            do { try await clock.advanceToNextTimer(within: .seconds(1)) } catch { continue }
            moves += 1
        }
        #expect(try await queue.status()[.done] == 20)
        // The clock also advances while an outcome is being written, so the exact time depends on the machine.
        #expect(clock.elapsed >= .seconds(10_000))
        // Delays of 1, 2, 4 … 512 s and then 900 s result in 20 failed attempts and a successful one. Closing cancels
        // attempts, which are sent again.
        #expect(sent.all.count <= 20 * 30, "\(sent.all.count) requests")
        print("10,000 s away: \(sent.all.count) requests of 20 jobs, \(moves) timers")
        await queue.close()
    }
}
