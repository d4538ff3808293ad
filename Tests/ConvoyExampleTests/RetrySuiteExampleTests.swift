// A test suite for a program's retries. It simulates hours in virtual time.
import Convoy
import ConvoyTesting
import Foundation
import Testing

@Suite struct RetrySuiteExampleTests {
    /// The server's replies, the expected outcome of the request, and the time that it takes.
    struct Case {
        let name: String
        let request: Request<Data>
        let replies: [StubReply]
        /// The number of delays before retries.
        let waits: Int
        let elapsed: Duration
        /// The expected error; nil for a success.
        let failure: RequestError.Code?

        init(
            _ name: String, _ replies: [StubReply], to request: Request<Data> = .get(url), waits: Int,
            _ elapsed: Duration, failure: RequestError.Code? = nil
        ) {
            (self.name, self.request, self.replies) = (name, request, replies)
            (self.waits, self.elapsed, self.failure) = (waits, elapsed, failure)
        }
    }

    private static let url = "http://example.com/report"
    private static let unavailable = StubReply.status(503)
    private static let busy = StubReply.status(429, headerFields: ["Retry-After": "120"])
    private static let overnight = StubReply.status(503, headerFields: ["Retry-After": "36000"])
    private static let slow = [unavailable.after(.seconds(20)), .status(200).after(.seconds(20))]
    private static let patient = RetryPolicy(maxRetries: 9, baseDelay: .seconds(1), maxDelay: .seconds(30))

    private static let cases: [Case] = [
        Case("one refusal", [unavailable, .status(200)], waits: 1, .milliseconds(500)),
        Case("three refusals", [unavailable, unavailable, unavailable, .status(200)], waits: 3, .milliseconds(3_500)),
        Case("one refusal too many", [unavailable], waits: 3, .milliseconds(3_500), failure: .unacceptableStatus),
        Case(
            "lost connections", [.failure(.connectionLost), .failure(.timedOut), .status(200)], waits: 2,
            .milliseconds(1_500)),
        Case("a busy server", [busy, busy, .status(200)], waits: 2, .milliseconds(241_500)),
        Case("a server that asks for much", [overnight, .status(200)], waits: 0, .zero, failure: .unacceptableStatus),
        Case("a server that is slow, too", slow, waits: 3, .milliseconds(40_500)),
        Case("nothing to be retried", [.status(404)], waits: 0, .zero, failure: .unacceptableStatus),
        Case("a POST", [unavailable], to: .post(url), waits: 0, .zero, failure: .unacceptableStatus),
        Case(
            "a POST with a key", [unavailable, .status(200)], to: .post(url).idempotencyKey("1"), waits: 1,
            .milliseconds(500)),
        Case(
            "patience", [unavailable], to: .get(url).retries(patient), waits: 9, .seconds(151),
            failure: .unacceptableStatus),
        Case(
            "a deadline", [.never], to: .get(url).deadline(.seconds(3_600)), waits: 1, .seconds(3_600),
            failure: .deadlineExceeded),
    ]

    @Test func theCompleteSuiteRunsInVirtualTime() async throws {
        for one in Self.cases { try await run(one) }
    }

    private func run(_ one: Case) async throws {
        let clock = VirtualClock()
        let stub = StubTransport(clock: clock)
        stub.route("/report", replies: one.replies)
        let manager = RequestManager(
            configuration: .init(retries: .standard, transport: .custom(stub), clock: clock, jitter: { 1 }))
        let operation = manager.enqueue(one.request)
        for _ in 0..<one.waits { try await clock.advanceToNextTimer(dueWithin: .seconds(3_600)) }
        _ = try? await operation.response()
        #expect(operation.error?.code == one.failure, "\(one.name)")
        #expect(clock.elapsed == one.elapsed, "\(one.name)")
    }
}
