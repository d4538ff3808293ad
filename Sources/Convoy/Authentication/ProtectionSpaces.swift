// Challenges by origin and realm: protection spaces, RFC 9110, section 11.5.

/// The protection spaces whose servers have requested credentials from a ``PasswordAuthenticator``, guarded by its
/// lock.
///
/// A space is a realm of an origin. If a space is recorded, later requests to it carry credentials from the start.
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

    /// The Digest credentials that a request carried.
    struct Sent: Equatable {
        let realm: String
        let nonce: String
    }

    static let maxCount = 64
    /// The maximum number of unused sessions of a space, and of its sessions whose requests have no result yet.
    ///
    /// If more requests are challenged at the same time, some share a session.
    static let maxFreshCount = 512
    static let maxDirectoryCount = 8

    private struct Space {
        /// The session for requests that have not been challenged.
        ///
        /// Nil for Basic, and until the server has accepted or rejected credentials.
        var current: DigestSession?
        /// Sessions of requests that were sent again and have no result yet, the newest last.
        ///
        /// Until the result arrives, other requests use such a session only if `fresh` is empty. Some servers require
        /// the counts of a nonce in order, and concurrent requests may arrive out of order.
        var answering: [DigestSession] = []
        /// Sessions that no request has used yet, the newest last.
        ///
        /// Each challenged request adds a session, and uses one when it is sent again. Some servers accept a nonce only
        /// once.
        var fresh: [DigestSession] = []
        var isBasic = false
        /// The directories in which requests were challenged.
        var directories: [String] = []
        /// Whether credentials were accepted in this space since they were last rejected.
        var hasWorked = false
        /// The number of the latest challenge of this space, counted over all spaces.
        var lastChallenge = 0

        /// Claims a session for the exclusive use of a request that is sent again; nil when no session is left.
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

    /// The scheme and session for a request; nil if no recorded challenge applies to the request.
    ///
    /// - Parameters:
    ///   - path: the path without the query.
    ///   - isAnswer: whether the request has received a 401 before.
    mutating func answer(origin: String, path: String, isAnswer: Bool) -> Answer? {
        var best: (key: Key, length: Int, challenge: Int)?
        for (key, space) in spaces where key.origin == origin {
            let length = space.directories.filter { path.hasPrefix($0) }.map(\.utf8.count).max()
            // Basic applies below the challenged directory (RFC 7617, section 2.2). Digest applies to the server
            // unless its `domain` limits it (RFC 7616, section 3.3), but `domain` is not evaluated.
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

    /// Records a Basic challenge.
    ///
    /// - Parameters:
    ///   - sent: the Digest credentials that the request carried; nil if there were none. Only credentials of this
    ///     realm count as rejected.
    ///   - refusals: how many 401 responses the request has received before, since its last redirect.
    /// - Returns: whether the request is to be sent again.
    mutating func challengedBasic(_ key: Key, path: String, sent: Sent?, refusals: Int) -> Bool {
        guard sent?.realm != key.realm, refusals == 0 else { return false }
        note(key, path: path) { space in
            space.isBasic = true
            (space.current, space.fresh, space.answering) = (nil, [], [])
        }
        return true
    }

    /// Removes Basic spaces whose credentials were rejected.
    ///
    /// The server may have changed to another scheme since its Basic challenge.
    mutating func refusedBasic(origin: String, path: String) {
        spaces = spaces.filter { key, space in
            !space.isBasic || key.origin != origin || !space.directories.contains { path.hasPrefix($0) }
        }
    }

    /// Records a Digest challenge.
    ///
    /// - Parameters:
    ///   - session: the session made from the challenge.
    ///   - sent: the credentials that were rejected; nil if the request carried none.
    ///   - refusals: how many 401 responses the request has received before, since its last redirect.
    /// - Returns: whether the request is to be sent again.
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

    /// Whether a request is sent again: once if it had no credentials, and once if its credentials were for another
    /// realm or had an expired nonce.
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

    /// Records that credentials were accepted.
    ///
    /// Later requests use the session of these credentials.
    ///
    /// - Parameters:
    ///   - hasWorked: whether the response had a status below 400.
    ///   - nextNonce: the nonce that the server wants next, if it named one.
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
