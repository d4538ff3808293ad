import Convoy
import ConvoyTesting
import Foundation
import Testing

@testable import ConvoyQueue

/// Tests jobs whose file another download is writing.
@Suite struct QueueDestinationTests {
    let place: StorePlace

    init() throws { place = try StorePlace() }

    @Test(arguments: [false, true])
    func aJobWaitsForItsFileWithoutUsingUpRetries(expires: Bool) async throws {
        let (gate, clock) = (Gate(), place.clock)
        let server = try TestServer()
        server.respond { request in
            guard request.path == "/other" else { return .status(200, body: "the job's") }
            return .status(200, body: "the other's").stalling(afterBodyBytes: 0, until: gate)
        }
        let file = place.directory.appending(path: "file")
        let other = RequestManager()
        let holder = other.download(.get(server.url("/other")), to: file)
        try await gate.reached(count: 1, within: .seconds(60))
        let manager = RequestManager(configuration: .init(clock: clock))
        let told = Told<String>()
        let queue = try place.makeQueue(manager) {
            $0.retries.maxRetries = 0
            $0.onOutcome = { _, verdict, attempt in
                told.tell("\(verdict) \(attempt?.failure ?? "no failure")")
            }
        }
        var job = Job("test", JobRequest(url: server.url("/job"), destination: file), id: "a")
        if expires { job.expires = clock.date + 1_000 }
        try await queue.add(job)
        queue.start(otherwise: { _, result in result.failure.map(JobDecision.fail) ?? .done })
        // The clock stands while the job runs, so that its lease does not end.
        func advance(by step: Duration, until isTrue: (JobRecord?) -> Bool) async throws {
            try await look {
                let record = try await queue.store.job("a")
                if isTrue(record) { return true }
                if record?.state == .waiting { clock.advance(by: step) }
                return false
            }
        }
        let retry = "\(JobVerdict.retry(after: .seconds(10))) destinationInUse"
        try await advance(by: .seconds(1)) { _ in told.all.count >= 2 }
        #expect(told.all.prefix(2) == [retry, retry])
        #expect(try await queue.store.job("a")?.attemptCount == 0)
        if !expires {
            gate.open()
            _ = try await holder.response()
        }
        try await advance(by: .seconds(expires ? 100 : 1)) { $0?.state.isFinished == true }
        #expect(try await queue.store.state("a") == (expires ? .dead : .done))
        #expect(server.recordedRequests.map(\.path) == (expires ? ["/other"] : ["/other", "/job"]))
        if !expires { #expect(try Data(contentsOf: file) == Data("the job's".utf8)) }
        gate.open()
        await queue.close()
        other.shutDown()
    }
}
