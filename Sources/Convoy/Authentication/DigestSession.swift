// Answers to a Digest challenge: RFC 7616, section 3.4.
import Foundation

/// A secret, because its key can replace the password.
struct DigestSession: Sendable, CustomStringConvertible, CustomReflectable {
    let challenge: DigestChallenge
    private(set) var nonce: String
    /// How many requests have used this nonce (RFC 7616, section 3.4, `nc`).
    private(set) var count: UInt32 = 0
    /// Never changes, because a session key contains the client nonce of the first request (section 3.4.2).
    private let clientNonce: String
    /// H(A1) of section 3.4.2: the hash of user name, realm and password, with `-sess` also of both nonces.
    private let key: String
    private let userParameter: String

    init(answering challenge: DigestChallenge, with credential: Credential, clientNonce: String) throws(RequestError) {
        self.challenge = challenge
        self.clientNonce = clientNonce
        nonce = challenge.nonce
        let secret = try challenge.hash("\(credential.user):\(challenge.realm):\(credential.password)")
        key = challenge.isSession ? try challenge.hash("\(secret):\(challenge.nonce):\(clientNonce)") : secret
        userParameter =
            if challenge.parameters["userhash"]?.lowercased() == "true" {
                // The server accepts the hash of the user name (RFC 7616, section 3.4.4).
                "username=\"\(try challenge.hash("\(credential.user):\(challenge.realm)"))\", userhash=true"
            } else if challenge.parameters["charset"]?.lowercased() == "utf-8",
                !credential.user.utf8.allSatisfy({ $0 < 0x80 })
            {
                // The user name is sent in the notation of RFC 8187 (RFC 7616, section 3.4). A server that does not
                // announce UTF-8 receives the bytes unchanged.
                "username*=UTF-8''\(credential.user.percentEncoded)"
            } else {
                "username=\(credential.user.quoted)"
            }
    }

    /// For the next request with this nonce; nil when the count has reached its maximum.
    mutating func counted() -> DigestSession? {
        guard count < .max else { return nil }
        count += 1
        return self
    }

    mutating func proceed(to nextNonce: String) { (nonce, count) = (nextNonce, 0) }

    func fieldValue(method: HTTPMethod, target: String) throws(RequestError) -> String {
        // H(A2) of RFC 7616, section 3.4.3.
        let subject = try challenge.hash("\(method.rawValue):\(target)")
        let number = String(format: "%08x", count)
        // The formula is that of RFC 7616, section 3.4.1, or without a quality of protection that of RFC 2069, section
        // 2.1.2.
        let response = try challenge.hash(
            challenge.hasQuality
                ? "\(key):\(nonce):\(number):\(clientNonce):auth:\(subject)" : "\(key):\(nonce):\(subject)")
        var parameters = [
            userParameter, "realm=\(challenge.realm.quoted)", "nonce=\(nonce.quoted)", "uri=\(target.quoted)",
            "response=\"\(response)\"",
        ]
        if let name = challenge.parameters["algorithm"] { parameters.append("algorithm=\(name)") }
        if let opaque = challenge.parameters["opaque"] { parameters.append("opaque=\(opaque.quoted)") }
        // The values of `qop` and `nc` must not be quoted (RFC 7616, section 3.4).
        if challenge.hasQuality { parameters.append("qop=auth, nc=\(number), cnonce=\(clientNonce.quoted)") }
        return "Digest " + parameters.joined(separator: ", ")
    }

    var description: String { "Digest for the realm \(challenge.realm.debugDescription)" }
    var customMirror: Mirror { Mirror(self, children: ["realm": challenge.realm]) }
}

extension String {
    var hasControlBytes: Bool { utf8.contains { $0 < 0x20 || $0 == 0x7F } }

    fileprivate var quoted: String {
        let escaped = unicodeScalars.map { $0 == "\"" || $0 == "\\" ? "\\\($0)" : "\($0)" }
        return "\"\(escaped.joined())\""
    }
}

struct DigestChallenge: Equatable, Sendable {
    let realm: String
    let nonce: String
    let function: HashFunction
    let isSession: Bool
    /// Whether the challenge offers the quality of protection `auth`; if false, it names none, as in RFC 2069.
    let hasQuality: Bool
    let parameters: [String: String]

    var isStale: Bool { parameters["stale"]?.lowercased() == "true" }

    private static let functions: [String: HashFunction] = [
        "md5": .md5, "sha-256": .sha256, "sha-512-256": .sha512Truncated256,
    ]

    // Nil for another scheme, a missing realm or nonce, an unknown algorithm, `auth-int` alone, a session key without
    // quality of protection, and control characters in the parameters that an answer repeats.
    init?(_ challenge: AuthenticationChallenge) {
        parameters = challenge.parameters
        let name = parameters["algorithm"]?.lowercased() ?? "md5"
        isSession = name.hasSuffix("-sess")
        let qualities = (parameters["qop"] ?? "").lowercased().split { $0 == "," || $0 == " " || $0 == "\t" }
        hasQuality = !qualities.isEmpty
        guard challenge.scheme == "digest", let realm = parameters["realm"], let nonce = parameters["nonce"],
            let function = Self.functions[String(name.dropLast(isSession ? 5 : 0))],
            // A session key needs a client nonce, which is only sent along with a quality of protection.
            qualities.contains("auth") || !hasQuality && !isSession,
            ![realm, nonce, parameters["opaque"] ?? ""].contains(where: \.hasControlBytes)
        else { return nil }
        (self.realm, self.nonce, self.function) = (realm, nonce, function)
    }

    /// H(text) of RFC 7616: the hash of the UTF-8, in hexadecimal.
    func hash(_ text: String) throws(RequestError) -> String {
        do throws(HashFailure) { return try function.digest(of: Array(text.utf8)).hexadecimal } catch {
            let reason = function.defect ?? "the system's libcrypto failed"
            throw RequestError(.invalidRequest, "the Digest credentials could not be computed: \(reason)")
        }
    }

    // The first among equals; nil when none is supported. An algorithm that this system lacks is the weakest.
    static func strongest(of challenges: [AuthenticationChallenge]) -> DigestChallenge? {
        let all = challenges.compactMap(DigestChallenge.init)
        let usable = all.filter { $0.function.defect == nil }
        let order: [HashFunction] = [.sha512Truncated256, .sha256, .md5]
        return order.lazy.compactMap { function in
            (usable.isEmpty ? all : usable).first { $0.function == function }
        }.first
    }
}
