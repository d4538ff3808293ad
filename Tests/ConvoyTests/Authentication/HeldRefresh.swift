import Foundation
import Testing

@testable import Convoy

/// Suspends each refresh until the test calls `finish` with its result.
final class HeldRefresh: Sendable {
    typealias Result = Swift.Result<String, any Error>

    let begun = EventLog<BearerAuthenticator.RefreshReason>()
    private let held = Locked<[CheckedContinuation<String, any Error>]>([])

    func authenticator(token: String?) -> BearerAuthenticator {
        BearerAuthenticator(token: token) { reason in
            try await withCheckedThrowingContinuation { continuation in
                self.held.withLock { $0.append(continuation) }
                self.begun.record(reason)
            }
        }
    }

    /// Waits until `number` refreshes have begun, and ends the oldest one that is suspended.
    func finish(_ result: Result, number: Int = 1) async {
        await begun.wait(count: number)
        let continuation = held.withLock { $0.isEmpty ? nil : $0.removeFirst() }
        continuation?.resume(with: result)
    }
}

extension BearerAuthenticator {
    /// Creates an authenticator for all servers, unlike the public initialisers.
    convenience init(
        token: String? = nil, limits: RefreshLimits = RefreshLimits(),
        refresh: @escaping @Sendable (RefreshReason) async throws -> String
    ) {
        self.init(
            token: token.map { Token($0) }, origins: nil, limits: limits, refresh: { Token(try await refresh($0)) })
    }
}
