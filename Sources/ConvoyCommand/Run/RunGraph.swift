import Convoy
import ConvoyHTTPFile
import Foundation

/// Sends the requests of rows, each after its predecessors have ended.
///
/// The requests are added to batches, because members of a batch cost less than single operations. A waiting request is
/// only an index; the request is made when fewer than `window` requests are in flight.
///
/// ## Concurrency
/// Safe to use from any thread. Requests are made, sent and reported outside of the lock.
final class RunGraph: Sendable {
    typealias Outcome = GraphRun.Outcome

    struct Turn: Sendable {
        let rowNumber: Int
        let place: Int
        let row: Row
        let queued: ContinuousClock.Instant
        var answers: [Response<RunAnswer>] = []
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
        var hasFailed = false

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
            for next in edges.successors[place] {
                waiting[next] -= 1
                if waiting[next] == 0 { ready.append(next) }
            }
            return ready
        }

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
        var rows: [Int: RowState] = [:]
        var rowCount = 0
        var ready: [(rowNumber: Int, place: Int)] = []
        var first = 0
        var sentCount = 0
        var isStopped = false
    }

    private struct Edges: Sendable {
        var needs: [[Int]]
        var dependents: [[Int]]
        var successors: [[Int]]
        var waiting: [Int]
        var first: [Int]
        var labels: [String]

        init(_ plan: RunPlan) {
            needs = plan.requests.map(\.needs)
            labels = plan.requests.map(\.label)
            dependents = [[Int]](repeating: [], count: needs.count)
            successors = dependents
            waiting = plan.requests.map { $0.needs.count + $0.follows.count }
            first = waiting.indices.filter { [waiting] in waiting[$0] == 0 }
            for place in needs.indices { for needed in needs[place] { dependents[needed].append(place) } }
            for place in needs.indices {
                for before in needs[place] + plan.requests[place].follows { successors[before].append(place) }
            }
        }
    }

    private let edges: Edges
    private let window: Int
    typealias Finish = @Sendable (Outcome, _ secrets: Set<String>) -> Void

    private let send: @Sendable (Turn, @escaping Finish) throws(RequestError) -> Void
    private let report: @Sendable (Turn, Outcome, _ secrets: Set<String>) -> Bool
    private let rowEnded: @Sendable (Row, _ hasFailed: Bool) -> Void
    private let state = Locked(State())

    /// - Parameters:
    ///   - window: the maximum number of requests in the managers, queued or running.
    ///   - report: called before the dependents of the request are sent; returns whether the request has failed.
    init(
        _ plan: RunPlan, window: Int, send: @escaping @Sendable (Turn, @escaping Finish) throws(RequestError) -> Void,
        report: @escaping @Sendable (Turn, Outcome, _ secrets: Set<String>) -> Bool,
        rowEnded: @escaping @Sendable (Row, _ hasFailed: Bool) -> Void
    ) {
        (edges, self.window, self.send, self.report, self.rowEnded) = (Edges(plan), window, send, report, rowEnded)
    }

    func begin(_ row: Row) {
        state.withLock { state in
            let number = state.rowCount
            state.rowCount += 1
            state.rows[number] = RowState(
                row: row, waiting: edges.waiting, users: edges.dependents.map(\.count), openCount: edges.waiting.count)
            for place in edges.first { state.ready.append((number, place)) }
        }
        sendReady()
    }

    // Requests that were not sent fail as cancelled, or because a dependency failed.
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
                    finish(turn, $0, $1)
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
        // Changes the row in the dictionary. A copy of its arrays would take O(*n*) for *n* requests in the file.
        return state.rows[number]?.turn(number, place, edges, isStopped: state.isStopped)
    }

    private func finish(_ turn: Turn, _ outcome: Outcome, _ secrets: Set<String> = []) {
        let hasFailed = report(turn, outcome, secrets)
        let ended = state.withLock { state -> RowState? in
            state.sentCount -= 1
            let ready = state.rows[turn.rowNumber]?.finish(turn.place, outcome, edges) ?? []
            for place in ready { state.ready.append((turn.rowNumber, place)) }
            if hasFailed { state.rows[turn.rowNumber]?.hasFailed = true }
            return state.rows[turn.rowNumber]?.openCount == 0 ? state.rows.removeValue(forKey: turn.rowNumber) : nil
        }
        if let ended { rowEnded(ended.row, ended.hasFailed) }
    }
}

extension RequestError {
    fileprivate init(dependency label: String, _ error: RequestError) {
        let what = error.code == .cancelled ? "was cancelled" : "failed"
        let root: any Error = error.code == .dependencyFailed ? error.underlying ?? error : error
        self.init(
            .dependencyFailed, "nothing was sent: \(label.visible()), which it depends on, \(what)", underlying: root)
    }
}
