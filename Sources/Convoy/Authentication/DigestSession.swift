// Answers to a Digest challenge: RFC 7616, section 3.4.
import Foundation

/// A server's nonce, and the values for answering its challenge.
///
/// The session is a secret, because its key can replace the password.
struct DigestSession: Sendable {
    let challenge: DigestChallenge
    private(set) var nonce: String
    /// How many requests have used this nonce (RFC 7616, section 3.4, `nc`).
    private(set) var count: UInt32 = 0
    /// The client nonce of all requests with this session.
    ///
    /// It never changes, because a session key contains the client nonce of the first request (RFC 7616, section
    /// 3.4.2).
    private let clientNonce: String
    /// H(A1) of RFC 7616, section 3.4.2: the hash of user name, realm and password.
    ///
    /// The hash of a session variant (`-sess`) includes both nonces.
    private let key: String
    private let userParameter: String

    init(answering challenge: DigestChallenge, with credential: Credential, clientNonce: String) throws(RequestError) {
        self.challenge = challenge
        self.clientNonce = clientNonce
        nonce = challenge.nonce
        let algorithm = challenge.algorithm
        let secret = try algorithm.hash("\(credential.user):\(challenge.realm):\(credential.password)")
        key = algorithm.isSession ? try algorithm.hash("\(secret):\(challenge.nonce):\(clientNonce)") : secret
        userParameter =
            if challenge.hashesUserName {
                // The server accepts the hash of the user name (RFC 7616, section 3.4.4).
                "username=\"\(try algorithm.hash("\(credential.user):\(challenge.realm)"))\", userhash=true"
            } else if challenge.isUTF8, !credential.user.utf8.allSatisfy({ $0 < 0x80 }) {
                // The user name is sent in the notation of RFC 8187 (RFC 7616, section 3.4). A server that does not
                // announce UTF-8 receives the bytes unchanged.
                "username*=UTF-8''\(credential.user.percentEncoded)"
            } else {
                "username=\(credential.user.quoted)"
            }
    }

    /// The session for the next request with this nonce; nil when the count has reached its maximum.
    mutating func counted() -> DigestSession? {
        guard count < .max else { return nil }
        count += 1
        return self
    }

    mutating func proceed(to nextNonce: String) {
        nonce = nextNonce
        count = 0
    }

    func fieldValue(method: HTTPMethod, target: String) throws(RequestError) -> String {
        let algorithm = challenge.algorithm
        // H(A2) of RFC 7616, section 3.4.3.
        let subject = try algorithm.hash("\(method.rawValue):\(target)")
        let digits = String(count, radix: 16)
        let number = String(repeating: "0", count: 8 - digits.count) + digits
        // The formula is that of RFC 7616, section 3.4.1, or without a quality of protection that of RFC 2069, section
        // 2.1.2.
        let response = try algorithm.hash(
            challenge.hasQuality
                ? "\(key):\(nonce):\(number):\(clientNonce):auth:\(subject)" : "\(key):\(nonce):\(subject)")
        var parameters = [
            userParameter, "realm=\(challenge.realm.quoted)", "nonce=\(nonce.quoted)", "uri=\(target.quoted)",
            "response=\"\(response)\"",
        ]
        if let name = challenge.algorithmName { parameters.append("algorithm=\(name)") }
        if let opaque = challenge.opaque { parameters.append("opaque=\(opaque.quoted)") }
        // The values of `qop` and `nc` must not be quoted (RFC 7616, section 3.4).
        if challenge.hasQuality { parameters.append("qop=auth, nc=\(number), cnonce=\(clientNonce.quoted)") }
        return "Digest " + parameters.joined(separator: ", ")
    }
}

extension DigestSession: CustomStringConvertible, CustomReflectable {
    var description: String { "Digest for the realm \(challenge.realm.debugDescription)" }
    var customMirror: Mirror { Mirror(self, children: ["realm": challenge.realm]) }
}

extension String {
    fileprivate var quoted: String {
        var text = "\""
        for scalar in unicodeScalars {
            if scalar == "\"" || scalar == "\\" { text.unicodeScalars.append("\\") }
            text.unicodeScalars.append(scalar)
        }
        return text + "\""
    }
}

struct DigestAlgorithm: Equatable, Sendable {
    let function: HashFunction
    let isSession: Bool

    init?(name: String?) {
        switch name?.lowercased() {
        case nil, "md5": (function, isSession) = (.md5, false)
        case "md5-sess": (function, isSession) = (.md5, true)
        case "sha-256": (function, isSession) = (.sha256, false)
        case "sha-256-sess": (function, isSession) = (.sha256, true)
        case "sha-512-256": (function, isSession) = (.sha512Truncated256, false)
        case "sha-512-256-sess": (function, isSession) = (.sha512Truncated256, true)
        default: return nil
        }
    }

    /// H(text) of RFC 7616: the hash of the UTF-8, in hexadecimal.
    func hash(_ text: String) throws(RequestError) -> String {
        do throws(HashFailure) { return try function.digest(of: Array(text.utf8)).hexadecimal } catch {
            let reason = function.defect ?? "the system's libcrypto failed"
            throw RequestError(.invalidRequest, "the Digest credentials could not be computed: \(reason)")
        }
    }
}

struct DigestChallenge: Equatable, Sendable {
    let realm: String
    let nonce: String
    let opaque: String?
    let algorithm: DigestAlgorithm
    let algorithmName: String?
    /// Whether the challenge offers the quality of protection `auth`.
    ///
    /// If false, the challenge names no quality of protection, and the rules of RFC 2069 apply.
    let hasQuality: Bool
    let hashesUserName: Bool
    let isUTF8: Bool
    let isStale: Bool

    /// Reads a challenge; nil for another scheme, a missing realm or nonce, or an unsupported feature.
    ///
    /// Unsupported are unknown algorithms, `auth-int` alone, a session key without quality of protection, and control
    /// characters in the parameters that an answer repeats.
    init?(_ challenge: AuthenticationChallenge) {
        let parameters = challenge.parameters
        guard challenge.scheme == "digest", let realm = parameters["realm"], let nonce = parameters["nonce"],
            let algorithm = DigestAlgorithm(name: parameters["algorithm"])
        else { return nil }
        let qualities = (parameters["qop"] ?? "").lowercased().split { $0 == "," || $0 == " " || $0 == "\t" }
        // A session key needs a client nonce, which is only sent along with a quality of protection.
        guard qualities.contains("auth") || (qualities.isEmpty && !algorithm.isSession) else { return nil }
        guard [realm, nonce, parameters["opaque"] ?? ""].allSatisfy(Self.canBeSent) else { return nil }
        self.realm = realm
        self.nonce = nonce
        self.algorithm = algorithm
        algorithmName = parameters["algorithm"]
        opaque = parameters["opaque"]
        hasQuality = !qualities.isEmpty
        hashesUserName = parameters["userhash"]?.lowercased() == "true"
        isUTF8 = parameters["charset"]?.lowercased() == "utf-8"
        isStale = parameters["stale"]?.lowercased() == "true"
    }

    static func canBeSent(_ text: String) -> Bool { text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F } }

    /// The challenge with the strongest algorithm, the first among equals; nil when none is supported.
    ///
    /// An algorithm that this system cannot compute is the weakest.
    static func strongest(of challenges: [AuthenticationChallenge]) -> DigestChallenge? {
        let all = challenges.compactMap(DigestChallenge.init)
        let usable = all.filter { $0.algorithm.function.defect == nil }
        let order: [HashFunction] = [.sha512Truncated256, .sha256, .md5]
        return order.lazy.compactMap { function in
            (usable.isEmpty ? all : usable).first { $0.algorithm.function == function }
        }.first
    }
}
