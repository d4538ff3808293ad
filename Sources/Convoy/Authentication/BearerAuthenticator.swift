// Bearer tokens (RFC 6750). One refresh serves all requests that need a new token.
import Foundation

/// Sends a bearer token with every request, and gets a fresh token when a server responds with 401.
///
/// Even two hundred requests that receive a 401 cause only one refresh, and each is sent once more with the new token.
/// A second 401 causes another refresh only if a server has accepted the new token since, and within the limit: five in
/// 30 seconds by default. Otherwise the 401 is the outcome. A request whose token has been replaced in the meantime is
/// sent again without a refresh. If a refresh fails, all requests that wait for it fail with its error. The next 401
/// then starts another one, and so does the next request if there is no token or the token is about to expire.
///
/// ```swift
/// let tokens = RequestManager()  // a separate manager for the refresh
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
/// The authenticator does not change requests whose caller has set `Authorization`, requests that a redirect has led
/// to another origin, and requests to servers outside its origins.
///
/// Use a separate manager for the refresh, as above: on the same manager the request of the refresh would wait for the
/// refresh itself, unless it is ``Request/withoutInterceptors()``. If the refresh token changes with each response,
/// store it in an actor and call the actor's method from the closure.
///
/// ## Concurrency
/// `Sendable`. Your code never runs under a lock. A refresh runs in a separate task, which continues when requests that
/// wait for it are cancelled; the cancelled requests finish at once.
///
/// ## Topics
/// - ``init(token:origins:maxRefreshes:within:refresh:)``
/// - ``init(token:origins:refreshesBefore:maxRefreshes:within:refresh:)``
/// - ``setToken(_:lifetime:)``
/// - ``Token``
/// - ``RefreshReason``
public final class BearerAuthenticator: RequestInterceptor, CustomStringConvertible, CustomReflectable {
    /// Why a token is requested.
    public enum RefreshReason: Sendable, Hashable {
        /// The authenticator has no token: none was given, or it was removed.
        case noToken
        /// A server responded to the token with 401; the `WWW-Authenticate` field may say more (RFC 6750, section 3.1).
        case refused(ResponseHead)
        /// The end of the token's lifetime is near.
        case expiring
    }

    /// A token and its lifetime.
    public struct Token: Sendable, Hashable {
        /// The text after `Bearer` in the header field.
        public var value: String
        /// The time from now until the token expires, as `expires_in` of RFC 6749, section 5.1; nil when unknown.
        public var lifetime: Duration?

        /// Makes a token.
        public init(_ value: String, lifetime: Duration? = nil) { (self.value, self.lifetime) = (value, lifetime) }
    }

    private let tokens: Locked<TokenState>
    private let origins: Set<String>?
    private let now: @Sendable () -> ContinuousClock.Instant
    private let refresh: @Sendable (RefreshReason) async throws -> Token

    init(
        token: Token?, origins: Set<String>?, limits: RefreshLimits,
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
        refresh: @escaping @Sendable (RefreshReason) async throws -> Token
    ) {
        tokens = Locked(TokenState(token: token, limits: limits, now: now()))
        (self.origins, self.now, self.refresh) = (origins, now, refresh)
    }

    /// Makes an authenticator to be shared by all requests that use these tokens, for a list of servers.
    ///
    /// Only servers of the origins may receive the token: scheme, host and port are compared. Without a token, the
    /// first request waits for a refresh. `maxRefreshes`, at least 1, limits the refreshes that 401 responses cause
    /// within the window, and those for one request. Two calls of the function overlap only if `setToken(_:lifetime:)`
    /// is called during the first. If it throws, the waiting requests fail with that ``RequestError``, and for any
    /// other error, an empty token or one with control characters, with `.interceptorFailed`.
    ///
    /// - Throws: `.invalidRequest` for an origin that is not an http or https URL, as ``PasswordAuthenticator`` does.
    public convenience init(
        token: String? = nil, origins: [URL], maxRefreshes: Int = 5, within window: Duration = .seconds(30),
        refresh: @escaping @Sendable (RefreshReason) async throws -> String
    ) throws(RequestError) {
        try self.init(
            token: token.map { Token($0) }, origins: origins, refreshesBefore: .zero, maxRefreshes: maxRefreshes,
            within: window, refresh: { Token(try await refresh($0)) })
    }

    /// Makes an authenticator that replaces tokens a margin before they expire, for which requests wait.
    ///
    /// The lifetime of a token counts from when it is given or returned. A token whose lifetime is less than twice the
    /// margin is used for half of its lifetime. `maxRefreshes` limits the refreshes that 401 responses, not expiries,
    /// cause within the window. The rest is as for ``init(token:origins:maxRefreshes:within:refresh:)``.
    public convenience init(
        token: Token? = nil, origins: [URL], refreshesBefore margin: Duration, maxRefreshes: Int = 5,
        within window: Duration = .seconds(30), refresh: @escaping @Sendable (RefreshReason) async throws -> Token
    ) throws(RequestError) {
        self.init(
            token: token, origins: try URL.origins(of: origins),
            limits: RefreshLimits(margin: margin, maxRefreshes: max(1, maxRefreshes), window: window), refresh: refresh)
    }

    /// Sets or removes the token: at a sign-in, a change of the user, a sign-out.
    ///
    /// The result of a running refresh is ignored. Requests that wait for it get the new token, or fail with
    /// `.interceptorFailed` if the token was removed. A request that was sent with the earlier token is not sent again
    /// with the new token, which may belong to another user. Cancel the requests that must not be sent any more.
    /// Without a token, the next request waits for a refresh; without a lifetime, the token is used until a 401.
    public func setToken(_ token: String?, lifetime: Duration? = nil) {
        let now = now()
        let refresh = tokens.withLock { $0.set(token.map { Token($0, lifetime: lifetime) }, now: now) }
        let error = RequestError(
            .interceptorFailed, "the token was removed while the request waited for a fresh one")
        refresh?.end(with: token.map { .success($0) } ?? .failure(error))
    }

    /// Adds the token, after a refresh if there is none, it is about to expire, or a refresh is running.
    ///
    /// - Throws: the error of the refresh; `CancellationError` when the task is cancelled.
    public func adapt(_ request: PreparedRequest, for attempt: AttemptContext) async throws -> PreparedRequest {
        guard isMeant(request, attempt), !request.headerFields.contains("Authorization") else { return request }
        let token = try await currentToken(insteadOf: nil, because: .noToken)
        var request = request
        request.headerFields["Authorization"] = TokenState.prefix + token
        return request
    }

    /// False for a request with a token of this authenticator that has been replaced or is being refreshed.
    public func isCurrent(_ request: PreparedRequest) -> Bool {
        guard let field = request.headerFields["Authorization"] else { return true }
        return tokens.withLock { $0.isCurrent(field) }
    }

    /// Requests another attempt after a 401, once a token other than the rejected one is available.
    ///
    /// - Throws: the error of the refresh; `CancellationError` when the task is cancelled.
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
        case .replaced: break
        case .refused(let token): _ = try await currentToken(insteadOf: token, because: .refused(response))
        }
        return .retry(after: .zero)
    }

    private func isMeant(_ request: PreparedRequest, _ attempt: AttemptContext) -> Bool {
        attempt.credentialOrigin(of: request, origins) != nil
    }

    /// - Parameter refused: a token that a server has rejected, and that must not be returned; nil if there is none.
    private func currentToken(insteadOf refused: String?, because reason: RefreshReason) async throws -> String {
        // A cancelled task starts no refresh.
        try Task.checkCancellation()
        let now = now()
        switch tokens.withLock({ $0.access(insteadOf: refused, because: reason, now: now) }) {
        case .token(let token): return token
        case .wait(let refresh, let start):
            let waiter = refresh.makeReader()
            if let start { self.start(refresh, start) }
            guard let result = await waiter.next() else { throw CancellationError() }
            return try result.get()
        }
    }

    private func start(_ refreshing: TokenState.Refresh, _ reason: RefreshReason) {
        // The refresh is not a child of the task that received the 401, because other requests wait for the token too.
        Task(priority: .userInitiated) {
            let result: Result<Token, any Error>
            do {
                let token = try await refresh(reason)
                guard !token.value.isEmpty, !token.value.hasControlBytes else {
                    // The message does not quote the text, which may be a token.
                    throw RequestError(
                        .interceptorFailed,
                        "the refresh function returned a token that is empty or contains control characters")
                }
                result = .success(token)
            } catch {
                result = .failure(error)
            }
            let now = now()
            guard tokens.withLock({ $0.finish(refreshing, result, now: now) }) else { return }
            refreshing.end(with: result.map(\.value))
        }
    }

    /// The type's name, without the tokens.
    public var description: String { "BearerAuthenticator" }
    /// Empty, because a reflection would show the tokens.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

extension BearerAuthenticator.Token: CustomStringConvertible, CustomReflectable {
    /// The lifetime, without the token.
    public var description: String { lifetime.map { "a token for \($0)" } ?? "a token" }
    /// Contains only the description, because a reflection would show the token.
    public var customMirror: Mirror { Mirror(self, children: ["token": description]) }
}

/// The tokens of a ``BearerAuthenticator``: a state machine, which receives events and returns effects.
struct TokenState {
    /// The token of a running refresh, for the requests that wait for it.
    typealias Refresh = BroadcastSource<Result<String, any Error>>
    typealias Instant = ContinuousClock.Instant

    enum Access {
        case token(String)
        /// With the reason if the request has to start the refresh.
        case wait(for: Refresh, start: BearerAuthenticator.RefreshReason?)
    }

    enum Verdict: Equatable {
        // The token is not this authenticator's, a limit of refreshes is reached, or the request was rejected before
        // and no server has accepted the current token.
        case stands
        /// A newer token has replaced the token of the request.
        case replaced
        case refused(token: String)
    }

    static let prefix = "Bearer "
    /// A request may wait for its slot while several tokens are replaced.
    private static let rememberedCount = 256

    private var token: String?
    private var staleFrom: Instant?
    /// Nil while no refresh runs; the result of an earlier one is ignored when the caller has set or removed the token.
    private var refresh: Refresh?
    // Hash values, which are no secrets, of the fields of replaced tokens, the oldest first. A request that carries one
    // is adapted again before it is sent, or sent again after a 401.
    private var replaced: [Int] = []
    private var wasAccepted = false
    private var refreshes: [Instant] = []
    private let limits: RefreshLimits

    init(token: BearerAuthenticator.Token?, limits: RefreshLimits = RefreshLimits(), now: Instant = .now) {
        self.limits = limits
        take(token, now)
    }

    private var field: String? { token.map { Self.prefix + $0 } }

    private mutating func take(_ fresh: BearerAuthenticator.Token?, _ now: Instant) {
        wasAccepted = false
        token = fresh.flatMap { $0.value.isEmpty ? nil : $0.value }
        // A token whose lifetime is less than twice the margin is used for half of its lifetime.
        staleFrom = fresh?.lifetime.map { now + max($0 - limits.margin, $0 / 2) }
    }

    private func usable(insteadOf refused: String?, _ now: Instant) -> String? {
        guard refresh == nil, let token, token != refused else { return nil }
        return staleFrom.map { $0 <= now } == true ? nil : token
    }

    mutating func access(
        insteadOf refused: String?, because reason: BearerAuthenticator.RefreshReason, now: Instant
    ) -> Access {
        if let token = usable(insteadOf: refused, now) { return .token(token) }
        if let refresh { return .wait(for: refresh, start: nil) }
        let fresh = Refresh { _, _ in true }
        refresh = fresh
        if refused != nil { noteRefresh(at: now) }
        return .wait(for: fresh, start: refused == nil && token != nil ? .expiring : reason)
    }

    mutating func noteRefresh(at now: Instant) { refreshes.append(now) }

    /// False for a refresh that `set` has ended.
    mutating func finish(
        _ ended: Refresh, _ result: Result<BearerAuthenticator.Token, any Error>, now: Instant
    ) -> Bool {
        guard ended === refresh else { return false }
        refresh = nil
        guard case .success(let fresh) = result else { return true }
        if fresh.value != token, let field {
            replaced.append(field.hashValue)
            if replaced.count > Self.rememberedCount { replaced.removeFirst() }
        }
        take(fresh, now)
        return true
    }

    /// Returns the refresh whose waiting requests get the new token.
    mutating func set(_ fresh: BearerAuthenticator.Token?, now: Instant) -> Refresh? {
        // The token may belong to another user. Requests with an earlier token are not sent again with the new token.
        (replaced, refreshes) = ([], [])
        take(fresh, now)
        defer { refresh = nil }
        return refresh
    }

    mutating func noteAccepted(_ sent: String) { if sent == field { wasAccepted = true } }

    func isCurrent(_ sent: String) -> Bool {
        if sent == field { return refresh == nil }
        return !replaced.contains(sent.hashValue)
    }

    mutating func verdict(on sent: String, refusals: Int, now: Instant) -> Verdict {
        guard let token, sent == field else { return replaced.contains(sent.hashValue) ? .replaced : .stands }
        let window = limits.window
        refreshes.removeAll { $0 + window <= now }
        let mayRefresh = refresh != nil || refreshes.count < limits.maxRefreshes
        // If no server has accepted the fresh token, another refresh would not help.
        let isWorthIt = refusals == 0 || wasAccepted && refusals < limits.maxRefreshes
        return mayRefresh && isWorthIt ? .refused(token: token) : .stands
    }
}

struct RefreshLimits {
    var margin = Duration.zero
    /// Of the refreshes that 401 responses cause within the window, and of those for one request.
    var maxRefreshes = 5
    var window = Duration.seconds(30)
}
