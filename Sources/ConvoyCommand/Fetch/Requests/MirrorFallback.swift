import Convoy
import Foundation

// After the last URL, the first follows. A server whose file has another digest is not requested again; if that leaves
// no server, the first failure is reported.
// Each request has its own instance. Only with a digest does the library combine bytes of two servers.
final class MirrorFallback: RequestInterceptor {
    private struct State {
        var place = 0
        var wrongPlaces: Set<Int> = []
        var firstError: RequestError?
        var hasStartedOver = false
        // A redirect after this attempt is followed; a mirror does not replace its target.
        var lastFailed = 0
    }

    private let mirrors: [URL]
    private let state = Locked(State())

    init(_ mirrors: [URL]) { self.mirrors = mirrors }

    func adapt(_ request: PreparedRequest, for attempt: AttemptContext) async throws -> PreparedRequest {
        let (place, lastFailed) = state.withLock { ($0.place, $0.lastFailed) }
        let isRedirected = attempt.earlierAttempts.contains { record in
            if case .redirect = record.next { record.number > lastFailed } else { false }
        }
        var request = request
        if place > 0, !isRedirected { request.url = mirrors[place - 1] }
        // Passwords, cookies and fields that may be keys are sent only to the origin of the first URL.
        if (try? request.url.origin.get()) != (try? attempt.originalRequest.url.origin.get()) {
            for field in request.headerFields where field.isSecret { request.headerFields[field.name] = nil }
        }
        return request
    }

    func decide(after end: AttemptEnd, of attempt: AttemptContext) async throws -> InterceptorDecision {
        guard let error = end.error, error.code.facts.contains(.otherServerHelps), !end.isRedirect else {
            return .proceed
        }
        let isWrong = error.code == .integrityFailed
        // If a file with resumed bytes has another digest, the library requests the complete file from the same server.
        let isResumed = isWrong && end.request.headerFields.contains("Range")
        let decision: Result<InterceptorDecision, RequestError> = state.withLock { state in
            state.lastFailed = attempt.number
            if isResumed, !state.hasStartedOver {
                state.hasStartedOver = true
                return .success(.proceed)
            }
            let first = state.firstError ?? error
            state.firstError = first
            if isWrong { state.wrongPlaces.insert(state.place) }
            let places = (1...mirrors.count + 1).map { (state.place + $0) % (mirrors.count + 1) }
            guard let next = places.first(where: { !state.wrongPlaces.contains($0) }) else { return .failure(first) }
            defer { state.place = next }
            if next > state.place { return .success(.retry(after: .zero)) }
            // After every server has failed, the retry policy decides about another round.
            return state.wrongPlaces.isEmpty || error.isRetryable ? .success(.proceed) : .failure(first)
        }
        return try decision.get()
    }
}
