// A user name and a password, with Basic or Digest: RFC 7617 and RFC 7616.
import Foundation

/// Sends a user name and a password to the servers that request them.
///
/// A request that receives a 401 is sent once more with credentials. The authenticator uses the strongest scheme that
/// the server offers and ``Schemes`` allows: Digest with SHA-512/256, SHA-256 or MD5, then Basic. A second 401 is
/// final, because the password is probably wrong. The exception is a second 401 that is the first to report an expired
/// Digest nonce: the request is sent once more. Later requests to the same server carry the credentials from the start.
/// With Basic, this applies only to paths below the directory of a request that received the challenge.
///
/// ```swift
/// let authenticator = try PasswordAuthenticator(
///     user: "Mufasa", password: password, schemes: .digest)
/// ```
///
/// The authenticator does not change requests whose caller has set `Authorization`, and requests that a redirect has
/// led away from their first origin. The 401 is the outcome if the challenge cannot be read or has another scheme
/// (Negotiate, Bearer). The same holds for Digest with an unknown algorithm or with `auth-int` alone.
///
/// User name and password are sent in UTF-8. An attacker who can change a response can demand Basic, which
/// reveals the password to all readers of the connection. Allow only ``Schemes/digest`` without TLS.
///
/// ## Concurrency
/// `Sendable`. Hashes are computed without a lock.
///
/// ## Topics
/// - ``init(user:password:schemes:origins:)``
/// - ``Schemes``
public final class PasswordAuthenticator: RequestInterceptor {
    private let credential: Credential
    private let schemes: Schemes
    private let origins: Set<String>?
    private let makeClientNonce: @Sendable () -> String
    private let spaces = Locked(ProtectionSpaces())

    /// Makes an authenticator for one user.
    ///
    /// - Parameters:
    ///   - user: the user name.
    ///   - password: the password.
    ///   - schemes: how the password may be sent; by default with Digest or Basic, whichever the server requests.
    ///   - origins: URLs of the servers that may receive the password: only scheme, host and port are compared. Nil,
    ///     the default, means the origin of each request as it was given. The mirrors of a download at other origins
    ///     have to be listed.
    /// - Throws: `.invalidRequest` for a colon in the user name when Basic is allowed, control characters in user name
    ///   or password, and an origin that is not an http or https URL.
    public convenience init(
        user: String, password: String, schemes: Schemes = [.basic, .digest], origins: [URL]? = nil
    ) throws(RequestError) {
        try self.init(user: user, password: password, schemes: schemes, origins: origins) {
            // A client nonce has 128 bits from the system's random generator.
            var generator = SystemRandomNumberGenerator()
            return [generator.next(), generator.next()].flatMap(\UInt64.bigEndianBytes).hexadecimal
        }
    }

    /// - Parameter makeClientNonce: makes a client nonce for Digest; tests make a known one.
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
    ///
    /// A request with its own `Authorization`, or to another origin, does not change.
    public func adapt(_ request: PreparedRequest, for attempt: AttemptContext) async throws -> PreparedRequest {
        guard let origin = meantOrigin(request, attempt), !request.headerFields.contains("Authorization") else {
            return request
        }
        let target = RequestTarget(of: request.url)
        let isAnswer = attempt.refusals > 0
        let answer: ProtectionSpaces.Answer? =
            schemes.contains(.preemptiveBasic)
            ? .basic : spaces.withLock { $0.answer(origin: origin, path: target.path, isAnswer: isAnswer) }
        var request = request
        switch answer {
        case .basic:
            request.headerFields["Authorization"] = credential.basicFieldValue
        case .digest(let session):
            request.headerFields["Authorization"] = session.fieldValue(method: request.method, target: target.text)
        case nil:
            break
        }
        return request
    }

    /// Requests another attempt after a 401 whose challenge can be answered.
    public func decide(after end: AttemptEnd, of attempt: AttemptContext) async throws -> InterceptorDecision {
        guard let head = end.response, let origin = meantOrigin(end.request, attempt) else { return .proceed }
        let path = RequestTarget(of: end.request.url).path
        let sent = ProtectionSpaces.Sent(end.request.headerFields["Authorization"])
        guard head.statusCode == 401 else {
            if let sent { notePassed(sent, head, origin: origin) }
            return .proceed
        }
        let field = end.request.headerFields["Authorization"]
        let isBasicRefused = field == credential.basicFieldValue
        if isBasicRefused {
            spaces.withLock { $0.refusedBasic(origin: origin, path: path) }
        } else if field != nil, sent == nil {
            return .proceed
        }
        guard !schemes.contains(.preemptiveBasic) else { return .proceed }
        let challenges = AuthenticationChallenge.all(in: head.headerFields.values(of: "WWW-Authenticate"))
        let refusals = attempt.refusals
        if schemes.contains(.digest), let challenge = DigestChallenge.strongest(of: challenges) {
            let key = ProtectionSpaces.Key(origin: origin, realm: challenge.realm)
            let session = DigestSession(answering: challenge, with: credential, clientNonce: makeClientNonce())
            let isAnswered = spaces.withLock {
                $0.challenged(key, path: path, session: session, sent: sent, refusals: refusals)
            }
            return isAnswered ? .retry(after: .zero) : .proceed
        }
        // Basic credentials that were rejected would be rejected again. If they were sent without a challenge, Digest
        // may succeed, in the branch above.
        if schemes.contains(.basic), !isBasicRefused, let challenge = challenges.first(where: { $0.scheme == "basic" })
        {
            let key = ProtectionSpaces.Key(origin: origin, realm: challenge.parameters["realm"] ?? "")
            let isAnswered = spaces.withLock { $0.challengedBasic(key, path: path, sent: sent, refusals: refusals) }
            return isAnswered ? .retry(after: .zero) : .proceed
        }
        return .proceed
    }

    private func notePassed(_ sent: ProtectionSpaces.Sent, _ head: ResponseHead, origin: String) {
        let hasWorked = head.statusCode < 400
        // `Authentication-Info` is read whatever the status, because a server that sends it has verified the
        // credentials (RFC 7615, section 3).
        let information = head.headerFields["Authentication-Info"].map { AuthenticationChallenge.parameters(in: $0) }
        let nextNonce = information?["nextnonce"]
        spaces.withLock { $0.passed(sent, origin: origin, hasWorked: hasWorked, nextNonce: nextNonce) }
    }

    /// The origin of the request, if it may receive the password.
    private func meantOrigin(_ request: PreparedRequest, _ attempt: AttemptContext) -> String? {
        // Another interceptor may have changed the URL, so the original URL is compared too.
        guard let origin = attempt.credentialOrigin(of: request, origins),
            case .success(origin) = attempt.originalRequest.url.origin
        else { return nil }
        return origin
    }
}

extension PasswordAuthenticator: CustomStringConvertible, CustomReflectable {
    /// The type and the user, without the password.
    public var description: String { "PasswordAuthenticator for \(credential)" }
    /// Contains only the description, because a reflection would show the password.
    public var customMirror: Mirror { Mirror(self, children: ["credential": credential.description]) }
}

extension AttemptContext {
    /// The origin of the request; nil if it may not receive credentials.
    ///
    /// - Parameter origins: the origins that may receive credentials; nil allows the request's own origin but no
    ///   mirror.
    func credentialOrigin(of request: PreparedRequest, _ origins: Set<String>?) -> String? {
        guard !hasLeftOrigin, !originalRequest.headerFields.contains("Authorization"),
            case .success(let origin) = request.url.origin, origins?.contains(origin) ?? !isMirror
        else { return nil }
        return origin
    }

    /// How many 401 responses the request has received since its last redirect.
    ///
    /// A 401 before a redirect does not count, because it came from another target.
    fileprivate var refusals: Int {
        let isRedirect = { (record: AttemptRecord) in if case .redirect = record.next { true } else { false } }
        let first = earlierAttempts.lastIndex(where: isRedirect).map { $0 + 1 } ?? 0
        return earlierAttempts[first...].count { $0.statusCode == 401 }
    }
}

extension ProtectionSpaces.Sent {
    /// Reads the parameters of an `Authorization` field; nil unless its scheme is Digest.
    fileprivate init?(_ field: String?) {
        guard let field, let parts = AuthenticationChallenge.all(in: [field]).first, parts.scheme == "digest",
            let realm = parts.parameters["realm"], let nonce = parts.parameters["nonce"]
        else { return nil }
        self.init(realm: realm, nonce: nonce)
    }
}

extension URL {
    /// The origins of a list of URLs.
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
