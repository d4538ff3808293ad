// Bearer tokens, refreshed by one request for all that need it: RFC 6750.
import Foundation

/// Sends a bearer token with every request, and gets a fresh one when a server refuses it.
///
/// Two hundred requests that are answered 401 make one refresh. Each of them is sent once more with the new token; one
/// that is refused again then ends with that answer. A request that carried a token which has been replaced in the
/// meantime is sent again without a refresh. A refresh that fails ends all that wait for it with its error; the next
/// request, or the next 401, tries again.
///
/// ```swift
/// let tokens = RequestManager()  // another than the authenticator is for
/// var configuration = RequestManager.Configuration()
/// configuration.interceptors = [
///     try BearerAuthenticator(origins: [apiURL]) { reason in
///         let request = Request<Token>.post(tokenURL, json: credentials)
///         return try await tokens.send(request).value.accessToken
///     }
/// ]
/// let manager = RequestManager(configuration: configuration)
/// ```
///
/// Left alone are requests whose caller has set `Authorization`, those a redirect has led to another origin, and those to
/// servers that are not among the authenticator's origins, where it was given some: without them every server that a
/// manager with this authenticator talks to gets the token, over http for everybody to read, whatever its base URL is; but
/// mirrors of a download at other origins, which have to be named.
///
/// The refresh uses another manager, as above: its own request would wait for itself. One through the same manager has to be
/// ``Request/withoutInterceptors()``. A refresh token that changes with each answer belongs to an actor of yours, whose
/// method the closure calls.
///
/// ## Concurrency
/// `Sendable`; one lock, which is never held while code of yours runs. A refresh runs in a task of its own: it goes on
/// when those that wait for it are cancelled, and they go at once.
///
/// ## Topics
/// - ``init(token:refresh:)``
/// - ``init(token:origins:refresh:)``
/// - ``RefreshReason``
public final class BearerAuthenticator: RequestInterceptor {
    /// Why a token is asked for.
    public enum RefreshReason: Sendable, Hashable {
        /// There has been no token yet.
        case noToken
        /// A server answered 401 to the token; its `WWW-Authenticate` field may say more (RFC 6750, section 3.1).
        case refused(ResponseHead)
    }

    private let tokens: Locked<TokenState>
    private let origins: Set<String>?
    private let refresh: @Sendable (RefreshReason) async throws -> String

    /// Makes an authenticator for one set of tokens and for every server; share it among the requests that use them.
    ///
    /// - Parameters:
    ///   - token: the token to begin with; without one, the first request waits for a refresh.
    ///   - refresh: gets a token; never runs twice at once. What it throws is what ends the requests that wait: a
    ///     ``RequestError`` as it is, anything else as `.interceptorFailed`. So does a token that is empty or has
    ///     control characters.
    public init(token: String? = nil, refresh: @escaping @Sendable (RefreshReason) async throws -> String) {
        tokens = Locked(TokenState(token: token))
        origins = nil
        self.refresh = refresh
    }

    /// Makes an authenticator for one set of tokens and for these servers; share it among the requests that use them.
    ///
    /// - Parameters:
    ///   - token: the token to begin with; without one, the first request waits for a refresh.
    ///   - origins: URLs of the servers that may have the token: scheme, host and port count, the path does not. An empty
    ///     list is no server at all.
    ///   - refresh: gets a token, as for ``init(token:refresh:)``.
    /// - Throws: `.invalidRequest` for an origin that is no http or https URL, as ``PasswordAuthenticator`` does.
    public init(
        token: String? = nil, origins: [URL], refresh: @escaping @Sendable (RefreshReason) async throws -> String
    ) throws(RequestError) {
        tokens = Locked(TokenState(token: token))
        self.origins = try URL.origins(of: origins)
        self.refresh = refresh
    }

    /// Sets the token, after a wait for it where there is none yet or a refresh is under way.
    ///
    /// - Throws: what the refresh threw; `CancellationError` when the task is cancelled.
    public func adapt(_ request: PreparedRequest, for attempt: AttemptContext) async throws -> PreparedRequest {
        guard isMeant(request, attempt), !request.headerFields.contains("Authorization") else { return request }
        let token = try await currentToken(insteadOf: nil, because: .noToken)
        var request = request
        request.headerFields["Authorization"] = TokenState.prefix + token
        return request
    }

    /// False for a request with a token of this authenticator that has been replaced, or is just being replaced.
    public func isCurrent(_ request: PreparedRequest) -> Bool {
        guard let field = request.headerFields["Authorization"] else { return true }
        return tokens.withLock { $0.isCurrent(field) }
    }

    /// Asks for another attempt after a 401, with the token that is there by then.
    ///
    /// - Throws: what the refresh threw; `CancellationError` when the task is cancelled.
    public func decide(after end: AttemptEnd, of attempt: AttemptContext) async throws -> InterceptorDecision {
        guard let response = end.response, response.statusCode == 401, isMeant(end.request, attempt),
            let field = end.request.headerFields["Authorization"]
        else { return .proceed }
        let wasRefusedBefore = attempt.earlierAttempts.contains { $0.statusCode == 401 }
        switch tokens.withLock({ $0.verdict(on: field, wasRefusedBefore: wasRefusedBefore) }) {
        case .stands: return .proceed
        case .replaced: return .retry(after: .zero)
        case .refused(let token):
            _ = try await currentToken(insteadOf: token, because: .refused(response))
            return .retry(after: .zero)
        }
    }

    private func isMeant(_ request: PreparedRequest, _ attempt: AttemptContext) -> Bool {
        attempt.credentialOrigin(of: request, origins) != nil
    }

    /// The token, or the one that comes of the refresh that is under way or is begun here.
    ///
    /// - Parameter refused: a token that will not do.
    private func currentToken(insteadOf refused: String?, because reason: RefreshReason) async throws -> String {
        let waiter: Int
        switch tokens.withLock({ $0.access(insteadOf: refused) }) {
        case .token(let token): return token
        case .wait(let number): waiter = number
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                // The task is marked as cancelled before `onCancel` runs. That either comes after this and finds the
                // continuation, or came before it, and then the mark is seen here.
                let effect = tokens.withLock {
                    $0.join(waiter, continuation, insteadOf: refused, isCancelled: Task.isCancelled)
                }
                switch effect {
                case .resume(let result): continuation.resume(with: result)
                case .refresh: startRefresh(reason)
                case .none: break
                }
            }
        } onCancel: {
            tokens.withLock { $0.leave(waiter) }?.resume(throwing: CancellationError())
        }
    }

    private func startRefresh(_ reason: RefreshReason) {
        // Not a child of the task that met the 401: others wait for the token too.
        Task(priority: .userInitiated) {
            let result = await freshToken(reason)
            for waiter in tokens.withLock({ $0.finishRefresh(result) }) { waiter.resume(with: result) }
        }
    }

    private func freshToken(_ reason: RefreshReason) async -> Result<String, any Error> {
        do {
            let token = try await refresh(reason)
            guard TokenState.canBeSent(token) else {
                // Not the token: it may be one.
                throw RequestError(
                    .interceptorFailed, "the refresh function gave a token that is empty or has control characters")
            }
            return .success(token)
        } catch {
            return .failure(error)
        }
    }
}

extension BearerAuthenticator: CustomStringConvertible, CustomReflectable {
    /// The type's name: tokens are not shown.
    public var description: String { "BearerAuthenticator" }
    /// Nothing: a reflection would show the tokens.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
