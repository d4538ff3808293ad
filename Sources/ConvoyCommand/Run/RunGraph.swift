// Decides when each request is sent: after those that it needs and those that it follows.
import Convoy
import ConvoyHTTPFile
import Foundation

/// Sends the requests of rows, each after its predecessors have ended.
///
/// The requests are members of batches, which have the lowest cost. A waiting request is only a number here, and is
/// made when there is room for it.
///
/// ## Concurrency
/// Use it from any thread. Requests are made, sent and reported outside of its lock.
final class RunGraph: Sendable {
    typealias Outcome = GraphRun.Outcome

    /// A request that is ready.
    struct Turn: Sendable {
        let rowNumber: Int
        let place: Int
        let row: Row
        /// When its row was queued.
        let queued: ContinuousClock.Instant
        /// The responses that it needs, in order.
        var answers: [Response<RunAnswer>] = []
        /// Why it is not sent; nil when it is.
        var reason: RequestError?
    }

    private struct RowState {
        let row: Row
        let queued = ContinuousClock.now
        /// For each request, the number of requests that it waits for.
        var waiting: [Int]
        /// For each response, the number of requests that still need it.
        var users: [Int]
        var answers: [Int: Response<RunAnswer>] = [:]
        var reasons: [Int: RequestError] = [:]
        var openCount: Int

        /// Records an end.
        ///
        /// Returns the requests that become ready.
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

        /// The ready request, with the responses that it needs.
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
        /// The running rows, by their numbers.
        var rows: [Int: RowState] = [:]
        var rowCount = 0
        /// Ready requests, starting with the first that was not taken.
        var ready: [(rowNumber: Int, place: Int)] = []
        var first = 0
        var sentCount = 0
        var isStopped = false
    }

    /// The parts of a plan that define the order.
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
    /// The maximum number of requests that are made ahead.
    ///
    /// The manager applies its own limits.
    private let window: Int
    private let send: @Sendable (Turn, @escaping @Sendable (Outcome) -> Void) throws(RequestError) -> Void
    private let tell: @Sendable (Turn, Outcome) -> Void
    private let state = Locked(State())

    /// - Parameters:
    ///   - window: how many requests are passed to the manager in advance.
    ///   - send: makes and sends a request; throws the reason when it cannot be sent.
    ///   - tell: called for each end, before its dependents are sent.
    init(
        _ plan: RunPlan, window: Int,
        send: @escaping @Sendable (Turn, @escaping @Sendable (Outcome) -> Void) throws(RequestError) -> Void,
        tell: @escaping @Sendable (Turn, Outcome) -> Void
    ) {
        (edges, self.window, self.send, self.tell) = (Edges(plan), window, send, tell)
    }

    /// Starts the requests of a row.
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

    /// Stops.
    ///
    /// Requests that were not sent end as cancelled.
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
        // Accessed in place, because a copy of a row is as long as the file.
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
    /// For requests that depend on a failed one.
    fileprivate init(dependency label: String, _ error: RequestError) {
        let what = error.code == .cancelled ? "was cancelled" : "failed"
        let root: any Error = error.code == .dependencyFailed ? error.underlying ?? error : error
        self.init(
            .dependencyFailed, "nothing was sent: \(label.visible()), which it depends on, \(what)", underlying: root)
    }
}
