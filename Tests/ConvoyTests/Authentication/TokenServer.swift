// The side that checks bearer tokens.
import ConvoyTesting
import Foundation

@testable import Convoy

/// Takes one token, and notes in one order which came and when a refresh ended.
final class TokenServer: Sendable {
    private struct State {
        var good: String
        /// Path and token of each request, in the order of arrival.
        var arrivals: [(path: String, token: String?)] = []
        /// How many had come when the refresh ended.
        var arrivedBeforeRefresh: Int?
    }

    private let state: Locked<State>

    init(good: String) { state = Locked(State(good: good)) }

    /// Notes a request.
    ///
    /// - Returns: 200 for the good token, else 401.
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

    /// A refresh ends here; what arrives from now on counts as after it.
    func noteRefreshed() { state.withLock { $0.arrivedBeforeRefresh = $0.arrivals.count } }

    /// Lets no token but this one in.
    func accept(_ token: String) { state.withLock { $0.good = token } }

    /// The tokens that came with each path, in order.
    var tokens: [String: [String?]] {
        Dictionary(grouping: state.withLock { $0.arrivals }, by: \.path).mapValues { $0.map(\.token) }
    }

    func count(of token: String?) -> Int { state.withLock { $0.arrivals.count { $0.token == token } } }

    /// How many came with that token after the refresh.
    func countAfterRefresh(of token: String) -> Int {
        state.withLock { state in
            state.arrivals.dropFirst(state.arrivedBeforeRefresh ?? state.arrivals.count).count { $0.token == token }
        }
    }
}
