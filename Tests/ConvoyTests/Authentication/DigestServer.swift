// The server's side of Digest, implemented independently: RFC 7616.
import Foundation

@testable import Convoy

/// Responds like a server with one user that requires Digest.
final class DigestServer: Sendable {
    struct Rules: Sendable {
        var password = "Circle of Life"
        var realm = "r"
        /// The name of the algorithm.
        var name = "MD5"
        var function = HashFunction.md5
        /// The number of requests for which a nonce is valid.
        var usesPerNonce = Int.max
        /// Whether the server marks challenges for an expired nonce with `stale`.
        var saysStale = true
        /// Whether the server announces the next nonce with each response.
        var saysNextNonce = false
    }

    private struct State {
        var nonceCount = 0
        /// The last count of each nonce.
        var counts: [String: UInt32] = [:]
        var accepted = 0
        var refused = 0

        mutating func makeNonce() -> String {
            nonceCount += 1
            counts["n\(nonceCount)"] = 0
            return "n\(nonceCount)"
        }
    }

    private let rules: Rules
    private let state = Locked(State())

    init(_ rules: Rules = Rules()) { self.rules = rules }

    var accepted: Int { state.withLock { $0.accepted } }
    var refused: Int { state.withLock { $0.refused } }

    /// Expires all nonces so far.
    func forgetNonces() { state.withLock { $0.counts = [:] } }

    func answer(to request: PreparedRequest) -> MadeAnswer {
        let target = request.url.path + (request.url.query.map { "?" + $0 } ?? "")
        return answer(method: request.method.rawValue, target: target, authorization: request.authorization)
    }

    func answer(to request: RecordedRequest) -> MadeAnswer {
        answer(method: request.method, target: request.target, authorization: request.value(of: "Authorization"))
    }

    /// - Parameter target: the path and the query, as in the request line.
    func answer(method: String, target: String, authorization: String?) -> MadeAnswer {
        var (isKnown, isStale) = (false, false)
        if let authorization, let parts = AuthenticationChallenge.all(in: [authorization]).first {
            isKnown = isAnswer(parts.parameters, method: method, target: target)
            isStale = isKnown && !isFresh(parts.parameters)
        }
        return state.withLock { state in
            guard isKnown, !isStale else {
                state.refused += 1
                let end = isStale && rules.saysStale ? ", stale=true" : ""
                return .challenge(
                    "Digest realm=\"\(rules.realm)\", nonce=\"\(state.makeNonce())\", qop=\"auth\", "
                        + "algorithm=\(rules.name)\(end)")
            }
            state.accepted += 1
            guard rules.saysNextNonce else { return .ok }
            return MadeAnswer(status: 200, fields: ["Authentication-Info": "nextnonce=\"\(state.makeNonce())\""])
        }
    }

    private func isAnswer(_ parameters: [String: String], method: String, target: String) -> Bool {
        func hash(_ text: String) -> String { ((try? rules.function.digest(of: Data(text.utf8))) ?? []).hexadecimal }
        let key = hash("Mufasa:\(rules.realm):\(rules.password)")
        let subject = hash("\(method):\(target)")
        let middle = ["nonce", "nc", "cnonce", "qop"].map { parameters[$0] ?? "" }.joined(separator: ":")
        return parameters["response"] == hash("\(key):\(middle):\(subject)") && parameters["uri"] == target
            && parameters["username"] == "Mufasa" && parameters["realm"] == rules.realm
    }

    /// Whether the nonce is valid and its count, which is recorded, is higher than all counts before.
    private func isFresh(_ parameters: [String: String]) -> Bool {
        state.withLock { state in
            guard let nonce = parameters["nonce"], let last = state.counts[nonce],
                let count = parameters["nc"].flatMap({ UInt32($0, radix: 16) }), count > last,
                Int(count) <= rules.usesPerNonce
            else { return false }
            state.counts[nonce] = count
            return true
        }
    }
}
