// Tries other URLs of a file when a server fails.
import Convoy
import Foundation

/// Sends a request to the next URL of its file when a server fails, cyclically.
///
/// Each request has a separate instance. If the digest of the file is known, the next server is requested only for the
/// missing bytes. Otherwise the library does not resume bytes of another server.
final class MirrorFallback: RequestInterceptor {
    private struct State {
        /// The number of attempts that failed at a server.
        var failedCount = 0
        /// The number of the last failed attempt.
        ///
        /// A redirect after this attempt is followed; a mirror does not replace its target.
        var lastFailed = 0
    }

    private let mirrors: [URL]
    private let state = Locked(State())

    init(_ mirrors: [URL]) { self.mirrors = mirrors }

    func adapt(_ request: PreparedRequest, for attempt: AttemptContext) async throws -> PreparedRequest {
        let (failedCount, lastFailed) = state.withLock { ($0.failedCount, $0.lastFailed) }
        let isRedirected = attempt.earlierAttempts.contains { record in
            if case .redirect = record.next { record.number > lastFailed } else { false }
        }
        let place = failedCount % (mirrors.count + 1)
        var request = request
        if place > 0, !isRedirected { request.url = mirrors[place - 1] }
        // Passwords, cookies and fields that may be keys are sent only to the origin of the first URL.
        if (try? request.url.origin.get()) != (try? attempt.originalRequest.url.origin.get()) {
            for field in request.headerFields where field.isSecret { request.headerFields[field.name] = nil }
        }
        return request
    }

    func decide(after end: AttemptEnd, of attempt: AttemptContext) async throws -> InterceptorDecision {
        guard let error = end.error, error.code.facts.contains(.otherServerHelps),
            !(300..<400).contains(end.response?.statusCode ?? 0)
        else {
            return .proceed
        }
        let place = state.withLock { state in
            state.failedCount += 1
            state.lastFailed = attempt.number
            return state.failedCount % (mirrors.count + 1)
        }
        // After every server has failed, the retry policy decides about another round.
        return place == 0 ? .proceed : .retry(after: .zero)
    }
}
