import Convoy
import Foundation

/// Accepts one token, and records the requests in their order.
final class TokenServer: Sendable {
    private struct State {
        var good: String
        /// The path and token of each request, in order of arrival.
        var arrivals: [(path: String, token: String?)] = []
    }

    private let state: Locked<State>

    init(good: String) { state = Locked(State(good: good)) }

    /// Records a request; returns 200 for the accepted token, otherwise 401.
    func status(path: String, authorization: String?) -> Int {
        state.withLock { state in
            let token = authorization.map { String($0.dropFirst("Bearer ".count)) }
            state.arrivals.append((path, token))
            return token == state.good ? 200 : 401
        }
    }

    func status(of request: RecordedRequest) -> Int {
        status(path: request.path, authorization: request.value(of: "Authorization"))
    }

    func status(of exchange: StubExchange) -> Int {
        status(path: exchange.request.url.path, authorization: exchange.request.authorization)
    }

    /// Accepts only this token.
    func accept(_ token: String) { state.withLock { $0.good = token } }

    /// The tokens that were received for each path, in order.
    var tokens: [String: [String?]] {
        Dictionary(grouping: state.withLock { $0.arrivals }, by: \.path).mapValues { $0.map(\.token) }
    }

    func count(of token: String?) -> Int { state.withLock { $0.arrivals.count { $0.token == token } } }
}
