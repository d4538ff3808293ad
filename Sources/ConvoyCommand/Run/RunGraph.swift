// Which request is sent when: each after those that it needs and those that it follows.
import Convoy
import ConvoyHTTPFile
import Foundation

/// Sends the requests of rows, each when what comes before it has ended.
///
/// The requests are members of batches, which cost least: one that waits for others is a number here, and is made when
/// there is room for it.
///
/// ## Concurrency
/// Use it from any thread. Its lock is a leaf: requests are made, sent and told of outside of it.
final class RunGraph: Sendable {
    typealias Outcome = GraphRun.Outcome

    /// A request whose turn it is.
    struct Turn: Sendable {
        let rowNumber: Int
        let place: Int
        let row: Row
        /// When its row was taken.
        let queued: ContinuousClock.Instant
        /// Of those that it needs, in their order.
        var answers: [Response<RunAnswer>] = []
        /// Why it is not sent; nil where it is.
        var reason: RequestError?
    }

    private struct RowState {
        let row: Row
        let queued = ContinuousClock.now
        /// For how many each still waits.
        var waiting: [Int]
        /// How many have still to take the answer of each.
        var users: [Int]
        var answers: [Int: Response<RunAnswer>] = [:]
        var reasons: [Int: RequestError] = [:]
        var openCount: Int

        /// Notes an end; those that wait for nothing more.
        mutating func finish(_ place: Int, _ outcome: Outcome, _ edges: Edges) -> [Int] {
            switch outcome {
            case .success(let response): if users[place] > 0 { answers[place] = response }
            case .failure(let error):
                if !edges.dependents[place].isEmpty {
                    let reason = RequestError(dependency: edges.labels[place], error)
                    for dependent in edges.dependents[place] where reasons[dependent] == nil {
                        reasons[dependent] = reason
                    }
                }
            }
            openCount -= 1
            var ready: [Int] = []
            for next in edges.dependents[place] + edges.followers[place] {
                waiting[next] -= 1
                if waiting[next] == 0 { ready.append(next) }
            }
            return ready
        }

        /// The turn of a request, with the answers that it needs.
        mutating func turn(_ number: Int, _ place: Int, _ edges: Edges, isStopped: Bool) -> Turn {
            var turn = Turn(rowNumber: number, place: place, row: row, queued: queued)
            for needed in edges.needs[place] {
                if let answer = answers[needed] { turn.answers.append(answer) }
                users[needed] -= 1
                if users[needed] == 0 { answers[needed] = nil }
            }
            turn.reason = reasons[place]
            if turn.reason == nil, isStopped { turn.reason = RequestError(.cancelled, "cancelled before it was sent") }
            return turn
        }
    }

    private struct State {
        /// Those under way, by their numbers.
        var rows: [Int: RowState] = [:]
        var rowCount = 0
        /// What may be sent, from the first that has not been taken on.
        var ready: [(rowNumber: Int, place: Int)] = []
        var first = 0
        var sentCount = 0
        var isStopped = false
    }

    /// What of a plan says the order.
    private struct Edges: Sendable {
        var needs: [[Int]]
        var dependents: [[Int]]
        var followers: [[Int]]
        var waiting: [Int]
        var labels: [String]

        init(_ plan: RunPlan) {
            needs = plan.requests.map(\.needs)
            labels = plan.requests.map(\.label)
            dependents = [[Int]](repeating: [], count: needs.count)
            followers = dependents
            waiting = []
            for (place, request) in plan.requests.enumerated() {
                for needed in request.needs { dependents[needed].append(place) }
                for followed in request.follows { followers[followed].append(place) }
                waiting.append(request.needs.count + request.follows.count)
            }
        }
    }

    private let edges: Edges
    /// How many are made and sent at once; the manager holds back what is too much for it or for a host.
    private let window: Int
    private let send: @Sendable (Turn, @escaping @Sendable (Outcome) -> Void) throws(RequestError) -> Void
    private let tell: @Sendable (Turn, Outcome) -> Void
    private let state = Locked(State())

    /// - Parameters:
    ///   - window: how many are sent ahead of their turn in the manager.
    ///   - send: makes and sends a request; throws why it cannot be sent.
    ///   - tell: told of each end, before what waits for it is sent.
    init(
        _ plan: RunPlan, window: Int,
        send: @escaping @Sendable (Turn, @escaping @Sendable (Outcome) -> Void) throws(RequestError) -> Void,
        tell: @escaping @Sendable (Turn, Outcome) -> Void
    ) {
        (edges, self.window, self.send, self.tell) = (Edges(plan), window, send, tell)
    }

    /// Begins with the requests of a row.
    func begin(_ row: Row) {
        state.withLock { state in
            let number = state.rowCount
            state.rowCount += 1
            state.rows[number] = RowState(
                row: row, waiting: edges.waiting, users: edges.dependents.map(\.count), openCount: edges.waiting.count)
            for (place, count) in edges.waiting.enumerated() where count == 0 { state.ready.append((number, place)) }
        }
        sendReady()
    }

    /// Sends nothing more: what has not been sent ends as cancelled.
    func stop() {
        state.withLock { $0.isStopped = true }
        sendReady()
    }

    private func sendReady() {
        while let turn = state.withLock({ take(&$0) }) {
            if let reason = turn.reason {
                finish(turn, .failure(reason))
                continue
            }
            do throws(RequestError) {
                try send(turn) { [self] in
                    finish(turn, $0)
                    sendReady()
                }
            } catch { finish(turn, .failure(error)) }
        }
    }

    private func take(_ state: inout State) -> Turn? {
        guard state.first < state.ready.count, state.sentCount < window || state.isStopped else { return nil }
        let (number, place) = state.ready[state.first]
        state.first += 1
        if state.first == state.ready.count {
            state.ready.removeAll(keepingCapacity: true)
            state.first = 0
        }
        state.sentCount += 1
        // In place: a row that is copied is as long as the file.
        return state.rows[number]?.turn(number, place, edges, isStopped: state.isStopped)
    }

    private func finish(_ turn: Turn, _ outcome: Outcome) {
        tell(turn, outcome)
        state.withLock { state in
            state.sentCount -= 1
            let ready = state.rows[turn.rowNumber]?.finish(turn.place, outcome, edges) ?? []
            for place in ready { state.ready.append((turn.rowNumber, place)) }
            if state.rows[turn.rowNumber]?.openCount == 0 { state.rows[turn.rowNumber] = nil }
        }
    }
}

extension RequestError {
    /// For what depends on a request that has failed.
    fileprivate init(dependency label: String, _ error: RequestError) {
        let what = error.code == .cancelled ? "was cancelled" : "failed"
        let root: any Error = error.code == .dependencyFailed ? error.underlying ?? error : error
        self.init(
            .dependencyFailed, "nothing was sent: \(label.visible()), which it depends on, \(what)", underlying: root)
    }
}
