// A refresh that ends when the test decides.
import Foundation
import Testing

@testable import Convoy

/// Holds each refresh that has begun until the test gives its result.
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

    /// Waits for the refresh with this number, from 1, and ends it.
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
