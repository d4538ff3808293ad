// The challenge of the Digest scheme: RFC 7616, section 3.3.

/// A hash function, and whether its keys belong to a session (the `-sess` variants).
struct DigestAlgorithm: Equatable, Sendable {
    /// Ordered from the weakest to the strongest.
    enum Function: Int, Sendable {
        case md5
        case sha256
        case sha512Truncated256
    }

    let function: Function
    let isSession: Bool

    /// - Parameter name: the value of the `algorithm` parameter; nil means MD5. The result is nil for an unknown
    ///   algorithm.
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
    func hash(_ text: String) -> String {
        let bytes = Array(text.utf8)
        return switch function {
        case .md5: MD5.digest(of: bytes).hexadecimal
        case .sha256: SHA256.digest(of: bytes).hexadecimal
        case .sha512Truncated256: SHA512Truncated256.digest(of: bytes).hexadecimal
        }
    }
}

/// A Digest challenge that Convoy can answer.
struct DigestChallenge: Equatable, Sendable {
    let realm: String
    let nonce: String
    let opaque: String?
    let algorithm: DigestAlgorithm
    /// The algorithm as the server spelt it; nil when the challenge names none.
    let algorithmName: String?
    /// Whether the challenge offers the quality of protection `auth`.
    ///
    /// If false, the challenge names no quality of protection, and the rules of RFC 2069 apply.
    let hasQuality: Bool
    let hashesUserName: Bool
    /// Whether the server has announced UTF-8 (`charset`).
    let isUTF8: Bool
    /// Whether the server reports that only the nonce was too old, and that the credentials were correct (`stale`).
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

    /// Whether a text from the server can be sent back: true if the text has no control characters.
    static func canBeSent(_ text: String) -> Bool { text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F } }

    /// The challenge with the strongest algorithm, the first among equals; nil when none is supported.
    static func strongest(of challenges: [AuthenticationChallenge]) -> DigestChallenge? {
        var strongest: DigestChallenge?
        for challenge in challenges.compactMap(DigestChallenge.init) {
            if let best = strongest, challenge.algorithm.function.rawValue <= best.algorithm.function.rawValue {
                continue
            }
            strongest = challenge
        }
        return strongest
    }
}
