// What a server asks for with the Digest scheme: RFC 7616, section 3.3.

/// A hash function, and whether its keys belong to a session.
struct DigestAlgorithm: Equatable, Sendable {
    /// From the weakest to the strongest.
    enum Function: Int, Sendable {
        case md5
        case sha256
        case sha512Truncated256
    }

    let function: Function
    let isSession: Bool

    /// - Parameter name: the parameter's value; MD5 when there is none. Nil for an unknown algorithm.
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

    /// H(text): of the UTF-8, in hexadecimal.
    func hash(_ text: String) -> String {
        let bytes = Array(text.utf8)
        return switch function {
        case .md5: MD5.digest(of: bytes).hexadecimal
        case .sha256: SHA256.digest(of: bytes).hexadecimal
        case .sha512Truncated256: SHA512Truncated256.digest(of: bytes).hexadecimal
        }
    }
}

/// A Digest challenge that can be answered.
struct DigestChallenge: Equatable, Sendable {
    let realm: String
    let nonce: String
    let opaque: String?
    let algorithm: DigestAlgorithm
    /// As the server spelt it; nil when it named none.
    let algorithmName: String?
    /// Whether the quality of protection is `auth`; without one, it is what RFC 2069 had.
    let hasQuality: Bool
    let hashesUserName: Bool
    /// Whether the server says that it reads UTF-8.
    let isUTF8: Bool
    /// Whether the credentials were right, and only the nonce too old.
    let isStale: Bool

    /// Nil when the challenge is of another scheme, has no realm or nonce, or asks for what cannot be done: an unknown
    /// algorithm, `auth-int` and nothing else, or a session key without quality of protection.
    init?(_ challenge: AuthenticationChallenge) {
        let parameters = challenge.parameters
        guard challenge.scheme == "digest", let realm = parameters["realm"], let nonce = parameters["nonce"],
            let algorithm = DigestAlgorithm(name: parameters["algorithm"])
        else { return nil }
        let qualities = (parameters["qop"] ?? "").lowercased().split { $0 == "," || $0 == " " || $0 == "\t" }
        // The key of a session is made with a client nonce, which is only sent along with a quality.
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

    /// Whether a request that sends a server's words back to it is one that may be sent.
    static func canBeSent(_ text: String) -> Bool { text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F } }

    /// The challenge with the strongest algorithm, the first among equals; nil when none can be answered.
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
