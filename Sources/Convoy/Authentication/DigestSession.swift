// Answers to a Digest challenge: RFC 7616, section 3.4.
import Foundation

/// A server's nonce, and the values for answering its challenge.
///
/// The session is a secret, because its key can replace the password.
struct DigestSession: Sendable {
    let challenge: DigestChallenge
    private(set) var nonce: String
    /// How many requests have used this nonce (section 3.4, `nc`).
    private(set) var count: UInt32 = 0
    /// All requests use one client nonce, because a session key contains the client nonce of the first request
    /// (section 3.4.2).
    private let clientNonce: String
    /// H(A1) of section 3.4.2.
    private let key: String
    private let userParameter: String

    init(answering challenge: DigestChallenge, with credential: Credential, clientNonce: String) {
        self.challenge = challenge
        self.clientNonce = clientNonce
        nonce = challenge.nonce
        let algorithm = challenge.algorithm
        let secret = algorithm.hash("\(credential.user):\(challenge.realm):\(credential.password)")
        // Section 3.4.2: A1 of the session variant contains both nonces.
        key = algorithm.isSession ? algorithm.hash("\(secret):\(challenge.nonce):\(clientNonce)") : secret
        userParameter =
            if challenge.hashesUserName {
                // Section 3.4.4: the server accepts the hash of the user name.
                "username=\"\(algorithm.hash("\(credential.user):\(challenge.realm)"))\", userhash=true"
            } else if challenge.isUTF8, !credential.user.utf8.allSatisfy({ $0 < 0x80 }) {
                // Section 3.4: the user name in the notation of RFC 8187. A server that does not announce UTF-8
                // receives the bytes unchanged.
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

    /// Switches to the nonce that the server wants next (section 3.5).
    mutating func proceed(to nextNonce: String) {
        nonce = nextNonce
        count = 0
    }

    /// The value of an `Authorization` field.
    ///
    /// - Parameter target: path and query, as in the request line.
    func fieldValue(method: HTTPMethod, target: String) -> String {
        let algorithm = challenge.algorithm
        // Section 3.4.3: A2.
        let subject = algorithm.hash("\(method.rawValue):\(target)")
        let digits = String(count, radix: 16)
        let number = String(repeating: "0", count: 8 - digits.count) + digits
        // Section 3.4.1; without a quality of protection the formula of RFC 2069, section 2.1.2.
        let response = algorithm.hash(
            challenge.hasQuality
                ? "\(key):\(nonce):\(number):\(clientNonce):auth:\(subject)" : "\(key):\(nonce):\(subject)")
        var parameters = [
            userParameter, "realm=\(challenge.realm.quoted)", "nonce=\(nonce.quoted)", "uri=\(target.quoted)",
            "response=\"\(response)\"",
        ]
        if let name = challenge.algorithmName { parameters.append("algorithm=\(name)") }
        if let opaque = challenge.opaque { parameters.append("opaque=\(opaque.quoted)") }
        // Neither the quality nor the count is quoted.
        if challenge.hasQuality { parameters.append("qop=auth, nc=\(number), cnonce=\(clientNonce.quoted)") }
        return "Digest " + parameters.joined(separator: ", ")
    }
}

extension DigestSession: CustomStringConvertible, CustomReflectable {
    var description: String { "Digest for the realm \(challenge.realm.debugDescription)" }
    var customMirror: Mirror { Mirror(self, children: ["realm": challenge.realm]) }
}

extension String {
    /// The string as a quoted-string: RFC 9110, section 5.6.4.
    fileprivate var quoted: String {
        var text = "\""
        for scalar in unicodeScalars {
            if scalar == "\"" || scalar == "\\" { text.unicodeScalars.append("\\") }
            text.unicodeScalars.append(scalar)
        }
        return text + "\""
    }
}
