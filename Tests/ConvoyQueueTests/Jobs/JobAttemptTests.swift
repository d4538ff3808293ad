import Foundation
import Testing

@testable import ConvoyQueue

/// Tests the stored form of attempts.
@Suite struct JobAttemptTests {
    @Test func anEndlessDateIsNoAttempt() {
        let attempt = JobAttempt(started: Date(timeIntervalSinceReferenceDate: .nan))
        #expect(throws: EncodingError.self) { try attempt.json() }
    }
}
