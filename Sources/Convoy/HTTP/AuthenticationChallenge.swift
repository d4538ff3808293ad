// Challenges in WWW-Authenticate fields: RFC 9110, section 11.

struct AuthenticationChallenge: Equatable, Sendable {
    let scheme: String
    /// The token68 (RFC 9110, section 11.2), which some schemes such as Negotiate have in place of parameters.
    var token68: String?
    /// Values without quotes and escapes, by names in lower case; of two values of a name, the first is used.
    var parameters: [String: String] = [:]

    init(scheme: String) { self.scheme = scheme.lowercased() }

    static func all(in fieldValues: [String]) -> [AuthenticationChallenge] {
        fieldValues.flatMap { ChallengeParser.parse($0) }
    }

    static func parameters(in fieldValue: String) -> [String: String] {
        ChallengeParser.parse(fieldValue, into: [AuthenticationChallenge(scheme: "")]).first?.parameters ?? [:]
    }
}

extension AuthenticationChallenge {
    private static let supported: Set = ["basic", "bearer", "digest"]

    static func refusal(_ fieldValues: [String], of credentials: String?) -> String {
        // A server may repeat the credentials that it rejects.
        let sent = credentials?.split(separator: " ").dropFirst().filter { $0.utf8.count > 3 } ?? []
        return sent.reduce(reason(fieldValues, of: credentials)) { $0.replacing($1, with: "<redacted>") }
    }

    private static func reason(_ fieldValues: [String], of credentials: String?) -> String {
        let challenges = all(in: fieldValues)
        let offers = challenges.prefix(4).map(\.offer).joined(separator: " or ")
        let demand = offers.isEmpty ? "the response has no WWW-Authenticate" : "the server asks for \(offers)"
        guard let credentials else {
            if !challenges.isEmpty, !challenges.contains(where: { supported.contains($0.scheme) }) {
                return "Convoy has no support for what the server asks for: \(offers)"
            }
            return "the request carried no credentials, and \(demand)"
        }
        let scheme = credentials.prefix { $0 != " " }.lowercased()
        guard let refused = challenges.first(where: { $0.scheme == scheme }) else {
            let name = supported.contains(scheme) ? scheme.prefix(1).uppercased() + scheme.dropFirst() + " " : ""
            return "the server rejected the \(name)credentials of the request, and \(demand)"
        }
        if refused.parameters["stale"]?.lowercased() == "true" {
            return "the server reports again that the nonce of the credentials has expired (stale)"
        }
        let details = ["error", "error_description"].compactMap { refused.parameters[$0]?.prefix(200).debugDescription }
        return "the server rejected the \(refused.name) credentials\(refused.place)"
            + (details.isEmpty ? "" : ": " + details.joined(separator: ", "))
    }

    private var name: String {
        Self.supported.contains(scheme) || scheme == "negotiate"
            ? scheme.prefix(1).uppercased() + scheme.dropFirst() : scheme.uppercased()
    }

    private var place: String {
        parameters["realm"].map { " for the realm \($0.prefix(100).debugDescription)" } ?? ""
    }

    private var offer: String {
        let needs = ["algorithm", "qop"].compactMap { need in
            parameters[need].map { "the \(need) \($0.prefix(100).debugDescription)" }
        }
        return name + (needs.isEmpty ? "" : " with " + needs.joined(separator: " and ")) + place
    }
}

// Commas separate challenges and also the parameters of one challenge. A name after a comma is a parameter if an equals
// sign follows it, otherwise a scheme.
private struct ChallengeParser: FieldParser {
    let bytes: [UInt8]
    var position = 0

    static func parse(
        _ text: String, into challenges: [AuthenticationChallenge] = []
    ) -> [AuthenticationChallenge] {
        var parser = ChallengeParser(bytes: Array(text.utf8))
        var challenges = challenges
        while let member = parser.nextMember() {
            switch member {
            case .scheme(let challenge):
                challenges.append(challenge)
            case .parameter(let name, let value):
                guard let last = challenges.indices.last, challenges[last].parameters[name] == nil else { continue }
                challenges[last].parameters[name] = value
            case .unreadable:
                break
            }
        }
        return challenges
    }

    private enum Member {
        case scheme(AuthenticationChallenge)
        case parameter(name: String, value: String)
        case unreadable
    }

    private init(bytes: [UInt8]) { self.bytes = bytes }

    private mutating func nextMember() -> Member? {
        skip { $0.isBlank || $0 == UInt8(ascii: ",") }
        guard let first = peek else { return nil }
        let name = take { $0.isTokenByte }
        guard !name.isEmpty else {
            // A quoted string may contain commas.
            if first == UInt8(ascii: "\"") { _ = bytes.quotedString(at: &position) }
            skip { $0 != UInt8(ascii: ",") }
            return .unreadable
        }
        let end = position
        skip(\.isBlank)
        if peek == UInt8(ascii: "=") {
            position += 1
            skip(\.isBlank)
            guard let value = takeValue() else { return .unreadable }
            return .parameter(name: name.lowercased(), value: value)
        }
        guard position > end || peek == nil || peek == UInt8(ascii: ",") else {
            skip { $0 != UInt8(ascii: ",") }
            return .unreadable
        }
        var challenge = AuthenticationChallenge(scheme: name)
        challenge.token68 = takeToken68()
        return .scheme(challenge)
    }

    /// Up to the next comma (RFC 9110, section 11.2); nil for any other text, and the position then does not change.
    private mutating func takeToken68() -> String? {
        let start = position
        let text = take { $0.isTokenByte || $0 == UInt8(ascii: "/") }
        let padding = text.isEmpty ? "" : take { $0 == UInt8(ascii: "=") }
        skip(\.isBlank)
        guard !text.isEmpty, peek == nil || peek == UInt8(ascii: ",") else {
            position = start
            return nil
        }
        return text + padding
    }

    /// Some servers omit the quotes where RFC 9110 requires them.
    private mutating func takeValue() -> String? {
        if peek == UInt8(ascii: "\"") {
            return bytes.quotedString(at: &position).map { String(decoding: $0, as: UTF8.self) }
        }
        let text = take { !$0.isBlank && $0 != UInt8(ascii: ",") && $0 != UInt8(ascii: "\"") }
        return text.isEmpty ? nil : text
    }
}
