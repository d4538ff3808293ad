// A test suite for a program's retries. It simulates hours in virtual time.
import Convoy
import ConvoyTesting
import Foundation
import Testing

@Suite struct RetrySuiteExampleTests {
    /// The server's replies, the expected outcome of the request, and the time that it takes.
    struct Case {
        let name: String
        var request = Request<Data>.get("http://example.com/report")
        let replies: [StubReply]
        /// The number of delays before retries.
        let waits: Int
        let elapsed: Duration
        /// The expected error; nil for a success.
        var failure: RequestError.Code?
    }

    private static let unavailable = StubReply.status(503)
    private static let busy = StubReply.status(429, headerFields: ["Retry-After": "120"])
    private static let overnight = StubReply.status(503, headerFields: ["Retry-After": "36000"])
    private static let patient = RetryPolicy(maxRetries: 9, baseDelay: .seconds(1), maxDelay: .seconds(30))

    private static let cases: [Case] = [
        Case(name: "one refusal", replies: [unavailable, .status(200)], waits: 1, elapsed: .milliseconds(500)),
        Case(
            name: "three refusals", replies: [unavailable, unavailable, unavailable, .status(200)], waits: 3,
            elapsed: .milliseconds(3_500)),
        Case(
            name: "one refusal too many", replies: [unavailable], waits: 3, elapsed: .milliseconds(3_500),
            failure: .unacceptableStatus),
        Case(
            name: "lost connections", replies: [.failure(.connectionLost), .failure(.timedOut), .status(200)], waits: 2,
            elapsed: .milliseconds(1_500)),
        Case(name: "a busy server", replies: [busy, busy, .status(200)], waits: 2, elapsed: .milliseconds(241_500)),
        Case(
            name: "a server that asks for too much", replies: [overnight, .status(200)], waits: 0, elapsed: .zero,
            failure: .unacceptableStatus),
        Case(
            name: "a server that is slow, too",
            replies: [unavailable.after(.seconds(20)), .status(200).after(.seconds(20))], waits: 3,
            elapsed: .milliseconds(40_500)),
        Case(
            name: "nothing to be retried", replies: [.status(404)], waits: 0, elapsed: .zero,
            failure: .unacceptableStatus),
        Case(
            name: "a POST", request: .post("http://example.com/report"), replies: [unavailable], waits: 0,
            elapsed: .zero,
            failure: .unacceptableStatus),
        Case(
            name: "a POST with a key", request: .post("http://example.com/report").idempotencyKey("1"),
            replies: [unavailable, .status(200)], waits: 1, elapsed: .milliseconds(500)),
        Case(
            name: "patience", request: .get("http://example.com/report").retries(patient), replies: [unavailable],
            waits: 9,
            elapsed: .seconds(151), failure: .unacceptableStatus),
        Case(
            name: "a deadline", request: .get("http://example.com/report").deadline(.seconds(3_600)), replies: [.never],
            waits: 1, elapsed: .seconds(3_600), failure: .deadlineExceeded),
    ]

    @Test func theCompleteSuiteRunsInVirtualTime() async throws {
        let start = ContinuousClock.now
        var virtual = Duration.zero
        for one in Self.cases { virtual += try await run(one) }
        let taken = start.duration(to: .now)
        print("a user's retries: \(Self.cases.count) cases, \(virtual) of virtual time in \(taken)")
    }

    private func run(_ one: Case) async throws -> Duration {
        let clock = VirtualClock()
        let stub = StubTransport(clock: clock)
        stub.route("/report", replies: one.replies)
        let manager = RequestManager(
            configuration: .init(retries: .standard, transport: .custom(stub), clock: clock, jitter: { 1 }))
        let operation = manager.enqueue(one.request)
        for _ in 0..<one.waits { try await clock.advanceToNextTimer(dueWithin: .seconds(3_600)) }
        let failure: RequestError.Code?
        do throws(RequestError) {
            _ = try await operation.response()
            failure = nil
        } catch {
            failure = error.code
        }
        #expect(failure == one.failure, "\(one.name)")
        #expect(clock.elapsed == one.elapsed, "\(one.name)")
        return clock.elapsed
    }
}
