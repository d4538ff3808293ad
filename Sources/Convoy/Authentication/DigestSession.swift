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

    init(answering challenge: DigestChallenge, with credential: Credential, clientNonce: String) {
        self.challenge = challenge
        self.clientNonce = clientNonce
        nonce = challenge.nonce
        let algorithm = challenge.algorithm
        let secret = algorithm.hash("\(credential.user):\(challenge.realm):\(credential.password)")
        key = algorithm.isSession ? algorithm.hash("\(secret):\(challenge.nonce):\(clientNonce)") : secret
        userParameter =
            if challenge.hashesUserName {
                // The server accepts the hash of the user name (RFC 7616, section 3.4.4).
                "username=\"\(algorithm.hash("\(credential.user):\(challenge.realm)"))\", userhash=true"
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

    /// Switches to the nonce that the server wants next (RFC 7616, section 3.5).
    mutating func proceed(to nextNonce: String) {
        nonce = nextNonce
        count = 0
    }

    /// The value of an `Authorization` field.
    ///
    /// - Parameter target: path and query, as in the request line.
    func fieldValue(method: HTTPMethod, target: String) -> String {
        let algorithm = challenge.algorithm
        // H(A2) of RFC 7616, section 3.4.3.
        let subject = algorithm.hash("\(method.rawValue):\(target)")
        let digits = String(count, radix: 16)
        let number = String(repeating: "0", count: 8 - digits.count) + digits
        // The formula is that of RFC 7616, section 3.4.1, or without a quality of protection that of RFC 2069, section
        // 2.1.2.
        let response = algorithm.hash(
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
