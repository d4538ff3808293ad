// Other places of a file, asked when its own server fails.
import Convoy
import Foundation

/// Sends a request to the next place of its file whenever a server fails, and so around.
///
/// One for each request. Where the digest of the file is known, the next server is asked for the rest only: the library
/// continues nothing of another server's otherwise.
final class MirrorFallback: RequestInterceptor {
    private struct State {
        /// How many servers have failed.
        var failedCount = 0
        /// The attempt that failed last: a redirect after it leads on from there.
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
        // Passwords, cookies and fields that may be keys are for the server that the list names first.
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
        // When all have failed, whether and when another round begins is the retries' to say.
        return place == 0 ? .proceed : .retry(after: .zero)
    }
}
