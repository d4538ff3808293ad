// The current token, and the requests that wait for the next one.

/// The tokens of a ``BearerAuthenticator``, guarded by its lock.
///
/// A state machine: it receives events and returns effects.
struct TokenState {
    typealias Waiter = CheckedContinuation<String, any Error>
    typealias Instant = ContinuousClock.Instant

    /// The token for a request, or the wait for one.
    enum Access {
        case token(String)
        /// No token can be used now: the request joins the waiting requests under this number.
        case wait(Int)
    }

    /// The next step of a request that joins the waiting requests.
    enum JoinEffect {
        case none
        case resume(Result<String, any Error>)
        /// Start a refresh with this number; `isExpiring` if the token is about to expire.
        case refresh(Int, isExpiring: Bool)
    }

    /// The consequence of a 401 for the token of the request.
    enum Verdict: Equatable {
        /// The 401 is final.
        ///
        /// The token is not this authenticator's, a limit of refreshes is reached, or the request was rejected before
        /// and no server has accepted the current token.
        case stands
        /// A newer token has replaced the token of the request.
        case replaced
        /// The current token was rejected.
        case refused(token: String)
    }

    static let prefix = "Bearer "
    /// The maximum number of replaced tokens that are recorded.
    ///
    /// A request may wait for its slot while several tokens are replaced.
    static let rememberedCount = 256

    private var token: String?
    /// The time from which requests wait for a new token; nil if the lifetime of the token is unknown.
    private var staleFrom: Instant?
    private(set) var isRefreshing = false
    private var waiters: [Int: Waiter] = [:]
    private var lastWaiter = 0
    /// Hash values of the fields of replaced tokens, the oldest first.
    ///
    /// Hash values are not secrets.
    ///
    /// They identify requests that carry a replaced token of this authenticator. Such a request is adapted again before
    /// it is sent, or sent again after a 401.
    private var replaced: [Int] = []
    /// Increased when the caller sets or removes the token, so that the result of an earlier refresh is ignored.
    private var generation = 0
    /// Whether a server has accepted the token: a response had a status other than 401.
    private var wasAccepted = false
    /// When the latest refreshes after a 401 started.
    private var refreshes: [Instant] = []
    private let limits: RefreshLimits

    init(token: BearerAuthenticator.Token?, limits: RefreshLimits = RefreshLimits(), now: Instant = .now) {
        self.limits = limits
        take(token, now)
    }

    static func canBeSent(_ token: String) -> Bool {
        !token.isEmpty && token.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }
    }

    private var field: String? { token.map { Self.prefix + $0 } }

    private mutating func take(_ fresh: BearerAuthenticator.Token?, _ now: Instant) {
        wasAccepted = false
        token = fresh.flatMap { $0.value.isEmpty ? nil : $0.value }
        // A token whose lifetime is less than twice the margin is used for half of its lifetime.
        staleFrom = fresh?.lifetime.map { now + max($0 - limits.margin, $0 / 2) }
    }

    private func usable(insteadOf refused: String?, _ now: Instant) -> String? {
        guard !isRefreshing, let token, token != refused else { return nil }
        return staleFrom.map { $0 <= now } == true ? nil : token
    }

    mutating func access(insteadOf refused: String?, now: Instant) -> Access {
        if let token = usable(insteadOf: refused, now) { return .token(token) }
        lastWaiter += 1
        return .wait(lastWaiter)
    }

    /// Makes the request wait unless a token is available, and starts a refresh unless one is running.
    ///
    /// The method looks for a token again, because a refresh may have ended since ``access(insteadOf:now:)`` returned
    /// `wait`.
    mutating func join(
        _ number: Int, _ waiter: Waiter, insteadOf refused: String?, isCancelled: Bool, now: Instant
    ) -> JoinEffect {
        if isCancelled { return .resume(.failure(CancellationError())) }
        if let token = usable(insteadOf: refused, now) { return .resume(.success(token)) }
        waiters[number] = waiter
        guard !isRefreshing else { return .none }
        isRefreshing = true
        if refused != nil { noteRefresh(at: now) }
        return .refresh(generation, isExpiring: refused == nil && token != nil)
    }

    mutating func noteRefresh(at now: Instant) { refreshes.append(now) }

    /// Removes a waiting request; nil when it has been resumed or has not joined yet.
    mutating func leave(_ number: Int) -> Waiter? { waiters.removeValue(forKey: number) }

    /// - Parameter generation: the generation in which the refresh started.
    /// - Returns: the requests that waited for the refresh, in the order of joining; empty for an outdated refresh.
    mutating func finishRefresh(
        _ result: Result<BearerAuthenticator.Token, any Error>, _ generation: Int, now: Instant
    ) -> [Waiter] {
        guard generation == self.generation else { return [] }
        if case .success(let fresh) = result {
            if fresh.value != token, let field {
                replaced.append(field.hashValue)
                if replaced.count > Self.rememberedCount { replaced.removeFirst() }
            }
            take(fresh, now)
        }
        return endWaiting()
    }

    /// Sets or removes the token for the caller.
    ///
    /// - Returns: the requests that waited for a refresh, whose result is ignored from now on.
    mutating func set(_ fresh: BearerAuthenticator.Token?, now: Instant) -> [Waiter] {
        // The token may belong to another user. Requests with an earlier token are not sent again with the new token.
        (replaced, refreshes) = ([], [])
        generation += 1
        take(fresh, now)
        return endWaiting()
    }

    private mutating func endWaiting() -> [Waiter] {
        isRefreshing = false
        let due = waiters.sorted { $0.key < $1.key }.map(\.value)
        waiters = [:]
        return due
    }

    mutating func noteAccepted(_ sent: String) { if sent == field { wasAccepted = true } }

    func isCurrent(_ sent: String) -> Bool {
        if sent == field { return !isRefreshing }
        return !replaced.contains(sent.hashValue)
    }

    /// - Parameter refusals: how many 401 responses the request received before.
    mutating func verdict(on sent: String, refusals: Int, now: Instant) -> Verdict {
        guard let token, sent == field else { return replaced.contains(sent.hashValue) ? .replaced : .stands }
        let window = limits.window
        refreshes.removeAll { $0 + window <= now }
        let mayRefresh = isRefreshing || refreshes.count < limits.maxRefreshes
        // If no server has accepted the fresh token, another refresh would not help.
        let isWorthIt = refusals == 0 || wasAccepted && refusals < limits.maxRefreshes
        return mayRefresh && isWorthIt ? .refused(token: token) : .stands
    }
}

/// When and how often tokens are refreshed.
struct RefreshLimits {
    /// How long before its expiry a token is replaced.
    var margin = Duration.zero
    /// The maximum number of refreshes that 401 responses cause within the window.
    ///
    /// The same number limits the refreshes for one request.
    var maxRefreshes = 5
    var window = Duration.seconds(30)
}
