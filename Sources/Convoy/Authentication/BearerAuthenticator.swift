// Bearer tokens, refreshed by one request for all that need it: RFC 6750.
import Foundation

/// Sends a bearer token with every request, and gets a fresh one when a server refuses it.
///
/// Two hundred requests that are answered 401 make one refresh. Each of them is sent once more with the new token. One
/// that is refused again asks for another if a server has taken the new token meanwhile, and while the limit of refreshes
/// allows it: five within 30 seconds, unless you set others. Else the 401 is the outcome. A request that carried a token which has been replaced in the meantime is sent
/// again without a refresh. A refresh that fails ends all that wait for it with its error; the next request, or the next
/// 401, tries again.
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
/// servers that are not among the authenticator's origins.
///
/// ``setToken(_:lifetime:)`` sets the token when a user signs in, and takes it away when one signs out.
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
/// - ``init(token:origins:maxRefreshes:within:refresh:)``
/// - ``init(token:origins:refreshesBefore:maxRefreshes:within:refresh:)``
/// - ``setToken(_:lifetime:)``
/// - ``Token``
/// - ``RefreshReason``
public final class BearerAuthenticator: RequestInterceptor {
    /// Why a token is asked for.
    public enum RefreshReason: Sendable, Hashable {
        /// There has been no token yet.
        case noToken
        /// A server answered 401 to the token; its `WWW-Authenticate` field may say more (RFC 6750, section 3.1).
        case refused(ResponseHead)
        /// The end of its lifetime is near.
        case expiring
    }

    /// A token, and how long it is good for.
    public struct Token: Sendable, Hashable {
        /// What follows `Bearer` in the header field.
        public var value: String
        /// How long it is good for from now on, as `expires_in` of RFC 6749, section 5.1; nil when that is not known.
        public var lifetime: Duration?

        /// Makes a token.
        public init(_ value: String, lifetime: Duration? = nil) { (self.value, self.lifetime) = (value, lifetime) }
    }

    private let tokens: Locked<TokenState>
    private let origins: Set<String>?
    private let now: @Sendable () -> ContinuousClock.Instant
    private let refresh: @Sendable (RefreshReason) async throws -> Token

    /// - Parameter origins: nil for every server.
    init(
        token: Token?, origins: Set<String>?, limits: RefreshLimits,
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
        refresh: @escaping @Sendable (RefreshReason) async throws -> Token
    ) {
        tokens = Locked(TokenState(token: token, limits: limits, now: now()))
        (self.origins, self.now, self.refresh) = (origins, now, refresh)
    }

    /// Makes an authenticator for one set of tokens and for these servers; share it among the requests that use them.
    ///
    /// - Parameters:
    ///   - token: the token to begin with; without one, the first request waits for a refresh.
    ///   - origins: URLs of the servers that may have the token: scheme, host and port count, the path does not. An empty
    ///     list is no server at all.
    ///   - maxRefreshes: how many refreshes may follow a 401 within the window; of one request as many. At least 1.
    ///   - window: the time in which they are counted.
    ///   - refresh: gets a token; never runs twice at once. What it throws is what ends the requests that wait: a
    ///     ``RequestError`` as it is, anything else as `.interceptorFailed`. So does a token that is empty or has
    ///     control characters.
    /// - Throws: `.invalidRequest` for an origin that is no http or https URL, as ``PasswordAuthenticator`` does.
    public convenience init(
        token: String? = nil, origins: [URL], maxRefreshes: Int = 5, within window: Duration = .seconds(30),
        refresh: @escaping @Sendable (RefreshReason) async throws -> String
    ) throws(RequestError) {
        try self.init(
            token: token.map { Token($0) }, origins: origins, refreshesBefore: .zero, maxRefreshes: maxRefreshes,
            within: window, refresh: { Token(try await refresh($0)) })
    }

    /// Makes an authenticator for tokens that expire: requests wait for another one shortly before that.
    ///
    /// - Parameters:
    ///   - token: the token to begin with; its lifetime counts from now on.
    ///   - origins: as for ``init(token:origins:maxRefreshes:within:refresh:)``.
    ///   - margin: how long before its end a token is replaced; one that lives less than twice as long is used for half
    ///     of its life.
    ///   - maxRefreshes: how many refreshes may follow a 401 within the window. Those before an end are not counted.
    ///   - window: the time in which they are counted.
    ///   - refresh: gets a token, whose lifetime counts from its return.
    public convenience init(
        token: Token? = nil, origins: [URL], refreshesBefore margin: Duration, maxRefreshes: Int = 5,
        within window: Duration = .seconds(30), refresh: @escaping @Sendable (RefreshReason) async throws -> Token
    ) throws(RequestError) {
        self.init(
            token: token, origins: try URL.origins(of: origins),
            limits: RefreshLimits(margin: margin, maxRefreshes: max(1, maxRefreshes), window: window), refresh: refresh)
    }

    /// Sets the token, or forgets it: at a sign-in, a change of the user, a sign-out.
    ///
    /// A refresh that is under way counts no more: those that wait for it get the new token, or end with
    /// `.interceptorFailed` when there is none. A request that has been sent with the earlier token is not sent again with
    /// this one, which may be another user's; cancel what is to be sent no more.
    ///
    /// - Parameters:
    ///   - token: nil to forget it; the next request then waits for a refresh.
    ///   - lifetime: how long it is good for from now on; nil when that is not known.
    public func setToken(_ token: String?, lifetime: Duration? = nil) {
        let now = now()
        let waiters = tokens.withLock { $0.set(token.map { Token($0, lifetime: lifetime) }, now: now) }
        let error = RequestError(
            .interceptorFailed, "the token was taken away while the request waited for a fresh one")
        for waiter in waiters {
            if let token { waiter.resume(returning: token) } else { waiter.resume(throwing: error) }
        }
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
        guard let response = end.response, isMeant(end.request, attempt),
            let field = end.request.headerFields["Authorization"]
        else { return .proceed }
        guard response.statusCode == 401 else {
            tokens.withLock { $0.noteAccepted(field) }
            return .proceed
        }
        let (refusals, now) = (attempt.earlierAttempts.count { $0.statusCode == 401 }, now())
        switch tokens.withLock({ $0.verdict(on: field, refusals: refusals, now: now) }) {
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
        let begin = now()
        switch tokens.withLock({ $0.access(insteadOf: refused, now: begin) }) {
        case .token(let token): return token
        case .wait(let number): waiter = number
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                // The task is marked as cancelled before `onCancel` runs. That either comes after this and finds the
                // continuation, or came before it, and then the mark is seen here.
                let now = now()
                let effect = tokens.withLock {
                    $0.join(waiter, continuation, insteadOf: refused, isCancelled: Task.isCancelled, now: now)
                }
                switch effect {
                case .resume(let result): continuation.resume(with: result)
                case .refresh(let number, let isExpiring): startRefresh(isExpiring ? .expiring : reason, number)
                case .none: break
                }
            }
        } onCancel: {
            tokens.withLock { $0.leave(waiter) }?.resume(throwing: CancellationError())
        }
    }

    private func startRefresh(_ reason: RefreshReason, _ number: Int) {
        // Not a child of the task that met the 401: others wait for the token too.
        Task(priority: .userInitiated) {
            let result = await freshToken(reason)
            let now = now()
            for waiter in tokens.withLock({ $0.finishRefresh(result, number, now: now) }) {
                waiter.resume(with: result.map(\.value))
            }
        }
    }

    private func freshToken(_ reason: RefreshReason) async -> Result<Token, any Error> {
        do {
            let token = try await refresh(reason)
            guard TokenState.canBeSent(token.value) else {
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

extension BearerAuthenticator.Token: CustomStringConvertible, CustomReflectable {
    /// The lifetime; the token is not shown.
    public var description: String { lifetime.map { "a token for \($0)" } ?? "a token" }
    /// The description only: a reflection would show the token.
    public var customMirror: Mirror { Mirror(self, children: ["token": description]) }
}

extension BearerAuthenticator: CustomStringConvertible, CustomReflectable {
    /// The type's name: tokens are not shown.
    public var description: String { "BearerAuthenticator" }
    /// Nothing: a reflection would show the tokens.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
