// Which token is current, and which requests wait for the next one.

/// The tokens of a ``BearerAuthenticator``, behind its lock: events in, effects out.
struct TokenState {
    typealias Waiter = CheckedContinuation<String, any Error>
    typealias Instant = ContinuousClock.Instant

    /// What an adapted request gets.
    enum Access {
        case token(String)
        /// Nothing yet: to join under this number.
        case wait(Int)
    }

    /// What is to be done with a request that joins.
    enum JoinEffect {
        case none
        case resume(Result<String, any Error>)
        /// A refresh begins, with its number; perhaps because the token expires.
        case refresh(Int, isExpiring: Bool)
    }

    /// What a 401 says about the token it answers.
    enum Verdict: Equatable {
        /// Nothing can be done: the token is not ours, or there were too many refreshes.
        case stands
        /// There is another token by now.
        case replaced
        /// The current token was refused.
        case refused(token: String)
    }

    static let prefix = "Bearer "
    /// So many replaced tokens are known again: a request may have waited for its slot while they came and went.
    static let rememberedCount = 256

    private var token: String?
    /// From when on a request waits for another token.
    private var staleFrom: Instant?
    private(set) var isRefreshing = false
    private var waiters: [Int: Waiter] = [:]
    private var lastWaiter = 0
    /// Hash values of the fields of tokens that were replaced, the oldest first; no secrets.
    ///
    /// They tell a request with an old token of ours, to be adapted again, from one with another token, to be left
    /// alone.
    private var replaced: [Int] = []
    /// Rises when the caller sets a token: a refresh that began before counts no more.
    private var generation = 0
    /// Whether a server has answered the token with anything but 401.
    private var wasAccepted = false
    /// When the latest refreshes after a 401 began.
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
        // One that lives shorter than the margin is used for half of its life.
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

    /// A request that was told to wait waits from now on; the refresh may have ended in between.
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

    /// A request waits no longer; nil when it has been resumed, or has not joined yet.
    mutating func leave(_ number: Int) -> Waiter? { waiters.removeValue(forKey: number) }

    /// - Parameter generation: the number that the refresh began with.
    /// - Returns: those that waited for it, first come first.
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

    /// The caller sets a token, or takes it away.
    ///
    /// - Returns: those that waited for a refresh, which counts no more.
    mutating func set(_ fresh: BearerAuthenticator.Token?, now: Instant) -> [Waiter] {
        // It may be another user's: what carried an earlier one is not sent again with this.
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

    /// - Parameter refusals: how often the request has been refused before.
    mutating func verdict(on sent: String, refusals: Int, now: Instant) -> Verdict {
        guard let token, sent == field else { return replaced.contains(sent.hashValue) ? .replaced : .stands }
        let window = limits.window
        refreshes.removeAll { $0 + window <= now }
        let mayRefresh = isRefreshing || refreshes.count < limits.maxRefreshes
        // A fresh token that nobody takes is no better than the next.
        let isWorthIt = refusals == 0 || wasAccepted && refusals < limits.maxRefreshes
        return mayRefresh && isWorthIt ? .refused(token: token) : .stands
    }
}

/// How often tokens are refreshed.
struct RefreshLimits {
    /// How long before its end a token is replaced.
    var margin = Duration.zero
    /// How many refreshes may follow refusals within the window, and how many one request.
    var maxRefreshes = 5
    var window = Duration.seconds(30)
}
