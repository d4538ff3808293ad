// Waits for conditions without an event.
import Foundation
import Testing

/// Checks a condition once each millisecond, and records an issue when it takes too long.
///
/// Spinning would take time from the code that it waits for.
func look(
    within bound: Duration = .seconds(120), sourceLocation: SourceLocation = #_sourceLocation,
    until isTrue: () async throws -> Bool
) async rethrows {
    let end = ContinuousClock.now + bound
    while try await !isTrue() {
        guard .now < end else {
            Issue.record("it did not come to pass within \(bound)", sourceLocation: sourceLocation)
            return
        }
        await withCheckedContinuation { continuation in
            DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(1)) { continuation.resume() }
        }
    }
}
