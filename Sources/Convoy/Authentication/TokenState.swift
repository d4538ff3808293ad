// Which token is current, and which requests wait for the next one.

/// The tokens of a ``BearerAuthenticator``, behind its lock: events in, effects out.
struct TokenState {
    typealias Waiter = CheckedContinuation<String, any Error>

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
        case refresh
    }

    /// What a 401 says about the token it answers.
    enum Verdict: Equatable {
        /// Nothing can be done: the token is not ours, or a fresh one has been refused too.
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
    private(set) var isRefreshing = false
    private var waiters: [Int: Waiter] = [:]
    private var lastWaiter = 0
    /// Hash values of the fields of tokens that were replaced, the oldest first; no secrets.
    ///
    /// They tell a request with an old token of ours, to be adapted again, from one with another token, to be left
    /// alone.
    private var replaced: [Int] = []

    init(token: String?) {
        self.token = token.flatMap { $0.isEmpty ? nil : $0 }
    }

    static func canBeSent(_ token: String) -> Bool {
        !token.isEmpty && token.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }
    }

    private var field: String? { token.map { Self.prefix + $0 } }

    mutating func access(insteadOf refused: String?) -> Access {
        if !isRefreshing, let token, token != refused { return .token(token) }
        lastWaiter += 1
        return .wait(lastWaiter)
    }

    /// A request that was told to wait waits from now on; the refresh may have ended in between.
    mutating func join(
        _ number: Int, _ waiter: Waiter, insteadOf refused: String?, isCancelled: Bool
    ) -> JoinEffect {
        if isCancelled { return .resume(.failure(CancellationError())) }
        if !isRefreshing, let token, token != refused { return .resume(.success(token)) }
        waiters[number] = waiter
        guard !isRefreshing else { return .none }
        isRefreshing = true
        return .refresh
    }

    /// A request waits no longer; nil when it has been resumed, or has not joined yet.
    mutating func leave(_ number: Int) -> Waiter? { waiters.removeValue(forKey: number) }

    /// - Returns: those that waited for it, first come first.
    mutating func finishRefresh(_ result: Result<String, any Error>) -> [Waiter] {
        if case .success(let fresh) = result {
            if fresh != token, let field {
                replaced.append(field.hashValue)
                if replaced.count > Self.rememberedCount { replaced.removeFirst() }
            }
            token = fresh
        }
        isRefreshing = false
        let due = waiters.sorted { $0.key < $1.key }.map(\.value)
        waiters = [:]
        return due
    }

    func isCurrent(_ sent: String) -> Bool {
        if sent == field { return !isRefreshing }
        return !replaced.contains(sent.hashValue)
    }

    func verdict(on sent: String, wasRefusedBefore: Bool) -> Verdict {
        if let token, sent == field { return wasRefusedBefore ? .stands : .refused(token: token) }
        return replaced.contains(sent.hashValue) ? .replaced : .stands
    }
}
