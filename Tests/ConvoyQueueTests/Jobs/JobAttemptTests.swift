import Foundation
import Testing

@testable import ConvoyQueue

/// Tests the stored form of attempts.
@Suite struct JobAttemptTests {
    /// Attempts without a text do not use the encoder.
    @Test(arguments: [
        JobAttempt(started: Date(timeIntervalSinceReferenceDate: 785_000_000.123), milliseconds: 7, statusCode: 200),
        JobAttempt(started: Date(timeIntervalSinceReferenceDate: -1e-9), milliseconds: .max),
        JobAttempt(started: .distantFuture, failure: "timedOut", message: "\"late\"\n"),
    ])
    func anAttemptIsReadAsItWasStored(attempt: JobAttempt) throws {
        #expect(try JSONDecoder().decode(JobAttempt.self, from: Data(attempt.json().utf8)) == attempt)
        #expect(JobText.attempts(of: JobText.attempts([attempt, attempt])) == [attempt, attempt])
    }

    @Test func anEndlessDateIsNoAttempt() {
        let attempt = JobAttempt(started: Date(timeIntervalSinceReferenceDate: .nan))
        #expect(throws: EncodingError.self) { try attempt.json() }
    }
}
