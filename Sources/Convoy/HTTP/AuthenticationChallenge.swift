// Challenges in WWW-Authenticate fields: RFC 9110, section 11.

struct AuthenticationChallenge: Equatable, Sendable {
    let scheme: String
    /// Values without quotes and escapes, by names in lower case; of two values of a name, the first is used.
    var parameters: [String: String] = [:]

    init(scheme: String) { self.scheme = scheme.lowercased() }

    static func all(in fieldValues: [String]) -> [AuthenticationChallenge] { fieldValues.flatMap { read($0) } }

    static func parameters(in fieldValue: String) -> [String: String] {
        read(fieldValue, into: [AuthenticationChallenge(scheme: "")])[0].parameters
    }

    // Commas separate challenges and also the parameters of one challenge. A name after a comma is a parameter if an
    // equals sign follows it, otherwise a scheme.
    private static func read(
        _ text: String, into challenges: [AuthenticationChallenge] = []
    ) -> [AuthenticationChallenge] {
        var (scanner, challenges) = (FieldScanner(text.utf8), challenges)
        while true {
            scanner.skip { $0.isBlank || $0 == UInt8(ascii: ",") }
            guard scanner.peek != nil else { return challenges }
            let name = scanner.take(\.isTokenByte)
            let end = scanner.position
            if name.isEmpty {
                scanner.skip(to: ",")
            } else if scanner.skip(past: "=") {
                // Some servers omit the quotes where RFC 9110 requires them.
                guard let (value, isQuoted) = scanner.takeValue(upTo: ",\""), isQuoted || !value.isEmpty,
                    let last = challenges.indices.last
                else { continue }
                let key = name.lowercased()
                challenges[last].parameters[key] = challenges[last].parameters[key] ?? value
            } else if scanner.position > end || scanner.peek == nil || scanner.isNext(",") {
                challenges.append(AuthenticationChallenge(scheme: name))
                scanner.skipToken68()
            } else {
                scanner.skip(to: ",")
            }
        }
    }

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

    private var place: String { parameters["realm"].map { " for the realm \($0.prefix(100).debugDescription)" } ?? "" }

    private var offer: String {
        let needs = ["algorithm", "qop"].compactMap { need in
            parameters[need].map { "the \(need) \($0.prefix(100).debugDescription)" }
        }
        return name + (needs.isEmpty ? "" : " with " + needs.joined(separator: " and ")) + place
    }
}

extension FieldScanner {
    /// What some schemes such as Negotiate have in place of parameters (RFC 9110, section 11.2), up to the next comma.
    fileprivate mutating func skipToken68() {
        let start = position
        let isEmpty = take { $0.isTokenByte || $0 == UInt8(ascii: "/") }.isEmpty
        if !isEmpty { skip { $0 == UInt8(ascii: "=") } }
        skip(\.isBlank)
        if isEmpty || peek != nil && !isNext(",") { position = start }
    }
}
