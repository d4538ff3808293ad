// A user name and a password, with Basic or Digest: RFC 7617 and RFC 7616.
import Foundation

/// Sends a user name and a password to the servers that request them.
///
/// A request that receives a 401 is sent once more, with the strongest scheme that the server offers and ``Schemes``
/// allows: Digest with SHA-512/256, SHA-256 or MD5, then Basic. A second 401 is final, because the password is probably
/// wrong, unless it is the first to report an expired Digest nonce. Later requests to the same server carry the
/// credentials from the start; with Basic, only those to paths below the directory of a challenged request.
///
/// ```swift
/// let authenticator = try PasswordAuthenticator(
///     user: "Mufasa", password: password, schemes: .digest)
/// ```
///
/// The authenticator does not change requests whose caller has set `Authorization`, and requests that a redirect has
/// led away from their first origin. The 401 is the outcome if the challenge cannot be read or has another scheme
/// (Negotiate, Bearer), and for Digest with an unknown algorithm or with `auth-int` alone.
///
/// User name and password are sent in UTF-8. Allow only ``Schemes/digest`` without TLS: an attacker who can change a
/// response can demand Basic, which reveals the password to all readers of the connection.
///
/// ## Concurrency
/// `Sendable`. Hashes are computed without a lock.
///
/// ## Topics
/// - ``init(user:password:schemes:origins:)``
/// - ``Schemes``
public final class PasswordAuthenticator: RequestInterceptor, CustomStringConvertible, CustomReflectable {
    private let credential: Credential
    private let schemes: Schemes
    private let origins: Set<String>?
    private let makeClientNonce: @Sendable () -> String
    private let spaces = Locked(ProtectionSpaces())

    /// Makes an authenticator for one user, by default with Digest or Basic, whichever the server requests.
    ///
    /// Only servers of the origins may receive the password: scheme, host and port are compared. Nil, the default,
    /// means the origin of each request as it was given. The mirrors of a download at other origins have to be listed.
    ///
    /// - Throws: `.invalidRequest` for a colon in the user name when Basic is allowed, control characters in user name
    ///   or password, and an origin that is not an http or https URL.
    public convenience init(
        user: String, password: String, schemes: Schemes = [.basic, .digest], origins: [URL]? = nil
    ) throws(RequestError) {
        try self.init(user: user, password: password, schemes: schemes, origins: origins) {
            // A client nonce has 128 bits from the system's random generator.
            var generator = SystemRandomNumberGenerator()
            return (0..<16).map { _ in UInt8.random(in: 0...255, using: &generator) }.hexadecimal
        }
    }

    init(
        user: String, password: String, schemes: Schemes, origins: [URL]? = nil,
        makeClientNonce: @escaping @Sendable () -> String
    ) throws(RequestError) {
        credential = Credential(user: user, password: password)
        let mayBeBasic = !schemes.isDisjoint(with: [.basic, .preemptiveBasic])
        if let defect = mayBeBasic ? credential.basicDefect : credential.defect {
            throw RequestError(.invalidRequest, "no authenticator was made: \(defect)")
        }
        self.schemes = schemes
        self.origins = if let origins { try URL.origins(of: origins) } else { nil }
        self.makeClientNonce = makeClientNonce
    }

    /// Adds credentials if the scheme is already known from a challenge, or is preemptive Basic.
    public func adapt(_ request: PreparedRequest, for attempt: AttemptContext) async throws -> PreparedRequest {
        guard let origin = meantOrigin(request, attempt), !request.headerFields.contains("Authorization") else {
            return request
        }
        let target = request.url.target
        let isAnswer = attempt.refusals > 0
        let answer =
            schemes.contains(.preemptiveBasic)
            ? .basic : spaces.withLock { $0.answer(origin: origin, path: target.path, isAnswer: isAnswer) }
        var request = request
        switch answer {
        case .basic:
            request.headerFields["Authorization"] = credential.basicFieldValue
        case .digest(let session):
            request.headerFields["Authorization"] = try session.fieldValue(method: request.method, target: target.text)
        case nil:
            break
        }
        return request
    }

    /// Requests another attempt after a 401 whose challenge can be answered.
    public func decide(after end: AttemptEnd, of attempt: AttemptContext) async throws -> InterceptorDecision {
        guard let head = end.response, let origin = meantOrigin(end.request, attempt) else { return .proceed }
        let path = end.request.url.target.path
        let field = end.request.headerFields["Authorization"]
        let sent = ProtectionSpaces.Sent(field)
        guard head.statusCode == 401 else {
            guard let sent else { return .proceed }
            // `Authentication-Info` is read whatever the status, because a server that sends it has verified the
            // credentials (RFC 7615, section 3).
            let information = AuthenticationChallenge.parameters(in: head.headerFields["Authentication-Info"] ?? "")
            let (hasWorked, nextNonce) = (head.statusCode < 400, information["nextnonce"])
            spaces.withLock { $0.passed(sent, origin: origin, hasWorked: hasWorked, nextNonce: nextNonce) }
            return .proceed
        }
        let isBasicRefused = field == credential.basicFieldValue
        if isBasicRefused {
            spaces.withLock { $0.refusedBasic(origin: origin, path: path) }
        } else if field != nil, sent == nil {
            return .proceed
        }
        guard !schemes.contains(.preemptiveBasic) else { return .proceed }
        let challenges = AuthenticationChallenge.all(in: head.headerFields.values(of: "WWW-Authenticate"))
        let refusals = attempt.refusals
        let isAnswered: Bool
        if schemes.contains(.digest), let challenge = DigestChallenge.strongest(of: challenges) {
            let key = ProtectionSpaces.Key(origin: origin, realm: challenge.realm)
            let session = try DigestSession(answering: challenge, with: credential, clientNonce: makeClientNonce())
            isAnswered = spaces.withLock {
                $0.challenged(key, path: path, session: session, sent: sent, refusals: refusals)
            }
        } else if schemes.contains(.basic), !isBasicRefused,
            // Basic credentials that were rejected would be rejected again. If they were sent without a challenge,
            // Digest may succeed, in the branch above.
            let challenge = challenges.first(where: { $0.scheme == "basic" })
        {
            let key = ProtectionSpaces.Key(origin: origin, realm: challenge.parameters["realm"] ?? "")
            isAnswered = spaces.withLock { $0.challengedBasic(key, path: path, sent: sent, refusals: refusals) }
        } else {
            isAnswered = false
        }
        return isAnswered ? .retry(after: .zero) : .proceed
    }

    private func meantOrigin(_ request: PreparedRequest, _ attempt: AttemptContext) -> String? {
        // Another interceptor may have changed the URL, so the original URL is compared too.
        guard let origin = attempt.credentialOrigin(of: request, origins),
            case .success(origin) = attempt.originalRequest.url.origin
        else { return nil }
        return origin
    }

    /// The schemes by which a password may be sent.
    public struct Schemes: OptionSet, Sendable {
        /// The bits of the options.
        public let rawValue: Int

        /// Makes a set from the bits of its options.
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// Basic with every request, and no other scheme: it saves a round trip, but servers get the password unasked.
        public static let preemptiveBasic = Schemes(rawValue: 1)
        /// Basic, if a server requests it.
        public static let basic = Schemes(rawValue: 2)
        /// Digest, if a server requests it.
        public static let digest = Schemes(rawValue: 4)
    }

    /// The type and the user, without the password.
    public var description: String { "PasswordAuthenticator for \(credential)" }
    /// Contains only the description, because a reflection would show the password.
    public var customMirror: Mirror { Mirror(self, children: ["credential": credential.description]) }
}

extension AttemptContext {
    func credentialOrigin(of request: PreparedRequest, _ origins: Set<String>?) -> String? {
        guard !hasLeftOrigin, !originalRequest.headerFields.contains("Authorization"),
            case .success(let origin) = request.url.origin, origins?.contains(origin) ?? !isMirror
        else { return nil }
        return origin
    }

    /// How many 401 responses have come from this target: a 401 before a redirect came from another one.
    fileprivate var refusals: Int {
        let sameTarget = earlierAttempts.reversed().prefix { if case .redirect = $0.next { false } else { true } }
        return sameTarget.count { $0.statusCode == 401 }
    }
}

extension ProtectionSpaces.Sent {
    fileprivate init?(_ field: String?) {
        guard let field, let parts = AuthenticationChallenge.all(in: [field]).first, parts.scheme == "digest",
            let realm = parts.parameters["realm"], let nonce = parts.parameters["nonce"]
        else { return nil }
        self.init(realm: realm, nonce: nonce)
    }
}

extension URL {
    /// The path and the text of the request target; `URLComponents` would change the spelling of escapes.
    var target: (path: String, text: String) {
        let reference = URLReference(absoluteString)
        let path = reference.path.isEmpty ? "/" : reference.path
        return (path, path + (reference.query.map { "?" + $0 } ?? ""))
    }

    static func origins(of urls: [URL]) throws(RequestError) -> Set<String> {
        var origins: Set<String> = []
        for url in urls {
            switch url.origin {
            case .success(let origin): origins.insert(origin)
            case .failure(let defect):
                throw RequestError(.invalidRequest, "no authenticator was made: \(defect.reason)")
            }
        }
        return origins
    }
}

// The realms of origins whose servers have requested credentials. Later requests to them carry credentials from the
// start.
struct ProtectionSpaces {
    struct Key: Hashable {
        let origin: String
        let realm: String
    }

    enum Answer {
        case basic
        case digest(DigestSession)
    }

    struct Sent: Equatable {
        let realm: String
        let nonce: String
    }

    static let maxCount = 64
    /// Of unused sessions, and of sessions without a result; more requests than that share sessions.
    static let maxFreshCount = 512
    static let maxDirectoryCount = 8

    private struct Space {
        // For requests that have not been challenged. Nil for Basic, and until the server has accepted or rejected
        // credentials.
        var current: DigestSession?
        // Of requests that were sent again and have no result yet, the newest last. Other requests use such a session
        // only if `fresh` is empty: some servers require the counts of a nonce in order, and concurrent requests may
        // arrive out of order.
        var answering: [DigestSession] = []
        // Unused, the newest last. Each challenged request adds a session, and uses one when it is sent again, because
        // some servers accept a nonce only once.
        var fresh: [DigestSession] = []
        var isBasic = false
        var directories: [String] = []
        var hasWorked = false
        var lastChallenge = 0

        mutating func takeAnswer() -> DigestSession? {
            // A request that was sent again before, but got no response, may find `fresh` empty. It then uses the
            // newest session of `answering`.
            guard var session = fresh.popLast() ?? answering.popLast(), let answer = session.counted() else {
                return nil
            }
            answering.append(session)
            if answering.count > ProtectionSpaces.maxFreshCount { answering.removeFirst() }
            return answer
        }
    }

    private var spaces: [Key: Space] = [:]
    private var challengeCount = 0

    var count: Int { spaces.count }

    mutating func answer(origin: String, path: String, isAnswer: Bool) -> Answer? {
        var best: (key: Key, length: Int, challenge: Int)?
        for (key, space) in spaces where key.origin == origin {
            let length = space.directories.filter { path.hasPrefix($0) }.map(\.utf8.count).max()
            // Basic applies below the challenged directory (RFC 7617, section 2.2). Digest applies to the server
            // unless its `domain` limits it (RFC 7616, section 3.3), but `domain` is not evaluated.
            guard length != nil || !space.isBasic,
                best.map({ ($0.length, $0.challenge) < (length ?? 0, space.lastChallenge) }) ?? true
            else { continue }
            best = (key, length ?? 0, space.lastChallenge)
        }
        guard let key = best?.key, var space = spaces[key] else { return nil }
        defer { spaces[key] = space }
        if space.isBasic { return .basic }
        if isAnswer, let answer = space.takeAnswer() { return .digest(answer) }
        guard let session = space.current?.counted() else {
            space.current = nil
            return nil
        }
        return .digest(session)
    }

    mutating func challengedBasic(_ key: Key, path: String, sent: Sent?, refusals: Int) -> Bool {
        guard sent?.realm != key.realm, refusals == 0 else { return false }
        note(key, path: path) { space in
            space.isBasic = true
            (space.current, space.fresh, space.answering) = (nil, [], [])
        }
        return true
    }

    /// The server may have changed to another scheme since its Basic challenge.
    mutating func refusedBasic(origin: String, path: String) {
        spaces = spaces.filter { key, space in
            !space.isBasic || key.origin != origin || !space.directories.contains { path.hasPrefix($0) }
        }
    }

    mutating func challenged(_ key: Key, path: String, session: DigestSession, sent: Sent?, refusals: Int) -> Bool {
        let isAnswered = deserves(key, session.challenge, sent: sent, refusals: refusals)
        note(key, path: path) { space in
            space.isBasic = false
            space.answering.removeAll { $0.nonce == sent?.nonce }
            guard isAnswered else {
                // The 401 is final. The credentials are probably wrong, or the nonce expired and the server did not
                // mark it as stale. The next request uses the session of this challenge.
                (space.current, space.hasWorked) = (session, false)
                return
            }
            space.fresh.append(session)
            if space.fresh.count > Self.maxFreshCount { space.fresh.removeFirst() }
        }
        return isAnswered
    }

    // A request is sent again once without credentials, and once if they were for another realm or an expired nonce.
    private func deserves(_ key: Key, _ challenge: DigestChallenge, sent: Sent?, refusals: Int) -> Bool {
        guard let sent else { return refusals == 0 }
        guard sent.realm != key.realm || sent.nonce != challenge.nonce else { return false }
        let space = spaces[key]
        if challenge.isStale {
            // `stale` means that the server accepts the password but not the nonce (RFC 7616, section 3.3). The request
            // is then sent again. After a second 401 it is sent again only if its last nonce did not come from a stale
            // challenge.
            let used = space?.answering.first { $0.nonce == sent.nonce } ?? space?.current
            let isSecond = used?.nonce == sent.nonce && used?.challenge.isStale == true
            return refusals == 0 || (refusals == 1 && !isSecond)
        }
        guard refusals == 0 else { return false }
        // Credentials for another realm, or with a nonce that had worked before, were a guess. A wrong guess does not
        // mean that the password is wrong.
        return sent.realm != key.realm || space?.hasWorked == true
    }

    /// Later requests use the session of these credentials; `hasWorked` is false for a status of 400 or above.
    mutating func passed(_ sent: Sent, origin: String, hasWorked: Bool, nextNonce: String?) {
        let key = Key(origin: origin, realm: sent.realm)
        guard var space = spaces[key], !space.isBasic else { return }
        if let index = space.answering.firstIndex(where: { $0.nonce == sent.nonce }) {
            space.current = space.answering.remove(at: index)
        }
        if hasWorked { space.hasWorked = true }
        if let nextNonce, !nextNonce.hasControlBytes, space.current?.nonce == sent.nonce {
            space.current?.proceed(to: nextNonce)
        }
        spaces[key] = space
    }

    private mutating func note(_ key: Key, path: String, _ change: (inout Space) -> Void) {
        challengeCount += 1
        var space = spaces[key] ?? Space()
        space.lastChallenge = challengeCount
        let directory = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "/"
        if !space.directories.contains(where: { directory.hasPrefix($0) }) {
            space.directories.removeAll { $0.hasPrefix(directory) }
            space.directories.append(directory)
            if space.directories.count > Self.maxDirectoryCount { space.directories.removeFirst() }
        }
        change(&space)
        spaces[key] = space
        guard spaces.count > Self.maxCount else { return }
        if let oldest = spaces.min(by: { $0.value.lastChallenge < $1.value.lastChallenge }) { spaces[oldest.key] = nil }
    }
}
