// Waiting for what no event tells.
import Foundation
import Testing

/// Looks once a millisecond whether something holds, and records an issue when that takes too long.
///
/// Whoever spins takes the time from those it waits for.
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
