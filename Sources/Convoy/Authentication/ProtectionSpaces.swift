// What servers have asked for, and where: protection spaces, RFC 9110, section 11.5.

/// The protection spaces in which a ``PasswordAuthenticator`` has been asked for credentials, behind its lock.
///
/// A space is a realm of an origin. What is kept of it lets later requests bring their credentials along.
struct ProtectionSpaces {
    struct Key: Hashable {
        let origin: String
        let realm: String
    }

    /// How credentials are to be sent.
    enum Answer {
        case basic
        case digest(DigestSession)
    }

    /// The credentials a refused request carried.
    struct Sent: Equatable {
        let realm: String
        let nonce: String
    }

    static let maxCount = 64
    /// More than can be with their interceptors at once: with fewer, requests that are challenged together would share.
    static let maxFreshCount = 512
    static let maxDirectoryCount = 8

    private struct Space {
        /// What requests are sent with before they are asked; nil until one got through, and for Basic.
        var current: DigestSession?
        /// Sessions of requests that were sent again, the newest last, until it is known what came of that.
        ///
        /// No other uses them so long: there are servers that want the counts of a nonce in order, and of requests under
        /// way at once the second may arrive first.
        var answering: [DigestSession] = []
        /// Sessions no request has used yet, the newest last.
        ///
        /// Each request that was refused leaves one and takes one when it is sent again: there are servers that take a
        /// nonce once only.
        var fresh: [DigestSession] = []
        var isBasic = false
        /// Where requests were challenged.
        var directories: [String] = []
        /// Whether credentials were accepted here since they were last refused.
        var hasWorked = false
        /// When it was last asked for, in challenges.
        var lastChallenge = 0

        /// Takes the session of a request that is sent again, for its own use; nil when there is none.
        mutating func takeAnswer() -> DigestSession? {
            // The second: it was sent again before, and got no answer.
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

    /// How a request is to be sent, or nil when nothing is known of its server.
    ///
    /// - Parameters:
    ///   - path: without query.
    ///   - isAnswer: whether the request has been refused before.
    mutating func answer(origin: String, path: String, isAnswer: Bool) -> Answer? {
        var best: (key: Key, length: Int, challenge: Int)?
        for (key, space) in spaces where key.origin == origin {
            let length = space.directories.filter { path.hasPrefix($0) }.map(\.utf8.count).max()
            // Basic holds below where it was asked for (RFC 7617, section 2.2), Digest on the whole server unless it says
            // otherwise (RFC 7616, section 3.3); what it says, its `domain`, is not looked at.
            guard length != nil || !space.isBasic else { continue }
            let candidate = (key: key, length: length ?? 0, challenge: space.lastChallenge)
            if let best, (best.length, best.challenge) >= (candidate.length, candidate.challenge) { continue }
            best = candidate
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

    /// Takes note that Basic was asked for.
    ///
    /// - Parameter refusals: how often the operation has been answered 401 before.
    /// - Returns: whether the request is to be sent again.
    mutating func challengedBasic(_ key: Key, path: String, sent: Sent?, refusals: Int) -> Bool {
        guard sent == nil, refusals == 0 else { return false }
        note(key, path: path) { space in
            space.isBasic = true
            (space.current, space.fresh, space.answering) = (nil, [], [])
        }
        return true
    }

    /// Forgets where Basic was asked for: what was sent there was refused, and perhaps something else is wanted by now.
    mutating func refusedBasic(origin: String, path: String) {
        spaces = spaces.filter { key, space in
            !space.isBasic || key.origin != origin || !space.directories.contains { path.hasPrefix($0) }
        }
    }

    /// Takes note of a Digest challenge.
    ///
    /// - Parameters:
    ///   - session: what was made of the challenge.
    ///   - sent: the credentials that were refused; nil when there were none.
    ///   - refusals: how often the operation has been answered 401 before.
    /// - Returns: whether the request is to be sent again.
    mutating func challenged(_ key: Key, path: String, session: DigestSession, sent: Sent?, refusals: Int) -> Bool {
        let isAnswered = deserves(key, session.challenge, sent: sent, refusals: refusals)
        note(key, path: path) { space in
            space.isBasic = false
            space.answering.removeAll { $0.nonce == sent?.nonce }
            guard isAnswered else {
                // Wrong credentials, or an old nonce of a server that does not say so: the next request begins with this
                // one.
                (space.current, space.hasWorked) = (session, false)
                return
            }
            space.fresh.append(session)
            if space.fresh.count > Self.maxFreshCount { space.fresh.removeFirst() }
        }
        return isAnswered
    }

    /// One try for credentials, and one more where they were not what was refused.
    private func deserves(_ key: Key, _ challenge: DigestChallenge, sent: Sent?, refusals: Int) -> Bool {
        guard let sent else { return refusals == 0 }
        guard sent.realm != key.realm || sent.nonce != challenge.nonce else { return false }
        let space = spaces[key]
        if challenge.isStale {
            // Section 3.3: the credentials are right. A nonce that came of such an answer has had its try.
            let used = space?.answering.first { $0.nonce == sent.nonce } ?? space?.current
            let isSecond = used?.nonce == sent.nonce && used?.challenge.isStale == true
            return refusals == 0 || (refusals == 1 && !isSecond)
        }
        guard refusals == 0 else { return false }
        // Another realm's credentials, or a nonce that was good once: a guess of ours, which was wrong.
        return sent.realm != key.realm || space?.hasWorked == true
    }

    /// Takes note that credentials were not refused: those that come later are sent like them.
    ///
    /// - Parameters:
    ///   - hasWorked: whether what was asked for was done.
    ///   - nextNonce: the nonce that the server wants next, if it has said so.
    mutating func passed(_ sent: Sent, origin: String, hasWorked: Bool, nextNonce: String?) {
        let key = Key(origin: origin, realm: sent.realm)
        guard var space = spaces[key], !space.isBasic else { return }
        if let index = space.answering.firstIndex(where: { $0.nonce == sent.nonce }) {
            space.current = space.answering.remove(at: index)
        }
        if hasWorked { space.hasWorked = true }
        if let nextNonce, DigestChallenge.canBeSent(nextNonce), space.current?.nonce == sent.nonce {
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
        if let oldest = spaces.min(by: { $0.value.lastChallenge < $1.value.lastChallenge })?.key {
            spaces[oldest] = nil
        }
    }
}
