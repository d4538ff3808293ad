import Convoy
import Foundation

/// The state that a server, its accept thread and its connection threads share.
///
/// The threads retain this object instead of the `TestServer`, so that releasing the server ends the threads.
final class ServerCore: Sendable {
    struct Options: Sendable {
        var recording: RequestRecording
        var bodyLimitBytes: Int
        var answersContinue: Bool
    }

    enum Plan {
        case reply(Reply)
        case handler(TestServer.Handler, TestServer.HandlerMoment)
    }

    let options: Options
    let threads = ThreadCount()
    private let state = Locked(ServerState())

    init(options: Options) {
        self.options = options
    }

    /// Changes the state, then resumes waiters whose condition is met.
    func change<Value: Sendable>(_ body: (inout ServerState) -> Value) -> Value {
        let (value, ready) = state.withLock { state in
            let value = body(&state)
            return (value, state.waits.isEmpty ? [] : state.takeReadyWaits())
        }
        for waiter in ready { waiter.resolve(.success(())) }
        return value
    }

    func read<Value: Sendable>(_ body: (ServerState) -> Value) -> Value {
        state.withLock { body($0) }
    }

    func plan(for request: RecordedRequest) -> Plan {
        let path = request.path
        let pathAndQuery = request.query.map { "\(path)?\($0)" } ?? path
        return state.withLock { state in
            if let reply = state.queue.popFirst() { return .reply(reply) }
            if let route = state.routes[pathAndQuery] ?? state.routes[path] ?? state.fallback {
                return .handler(route.handler, route.moment)
            }
            return .reply(.status(404))
        }
    }

    func record(_ request: RecordedRequest) {
        let taker = change { state in
            state.requestCount += 1
            return state.keep(request, options.recording)
        }
        if let taker { hand(request, to: taker) }
    }

    func countRejected() {
        change { $0.rejectedRequestCount += 1 }
    }

    /// Passes a request to a waiter, outside the lock.
    ///
    /// If the waiter has timed out or was cancelled, the request goes to the next waiter. If no waiter is left, the
    /// request is recorded as the oldest one.
    private func hand(_ request: RecordedRequest, to first: Waiter<RecordedRequest>) {
        var taker: Waiter<RecordedRequest>? = first
        while let current = taker {
            if current.resolve(.success(request)) {
                change { $0.takenRequestCount += 1 }
                return
            }
            taker = change { state in
                let next = state.takers.popFirst()
                if next == nil { state.requests.putBack(request) }
                return next
            }
        }
    }

    func takeRequest(within bound: Duration) async throws(TestServerError) -> RecordedRequest {
        guard options.recording != .none else { throw .recordsNothing }
        let waiter = Waiter<RecordedRequest>()
        let early: Result<RecordedRequest, TestServerError>? = change { state in
            if let request = state.requests.popFirst() {
                state.takenRequestCount += 1
                return .success(request)
            }
            if state.isShutDown { return .failure(.shutDown) }
            state.takers.append(waiter)
            return nil
        }
        if let early { return try early.get() }
        return try await waiter.value(within: bound, of: "a request (\(read { $0.requestCount }) were received)")
    }

    func wait(
        within bound: Duration, for what: String, until isTrue: @escaping @Sendable (ServerState) -> Bool
    ) async throws(TestServerError) {
        let waiter = Waiter<Void>()
        let (queueEntry, early): (Int, Result<Void, TestServerError>?) = change { state in
            if isTrue(state) { return (0, .success(())) }
            if state.isShutDown { return (0, .failure(.shutDown)) }
            state.lastQueueEntry += 1
            state.waits[state.lastQueueEntry] = (isTrue, waiter)
            return (state.lastQueueEntry, nil)
        }
        if let early { return try early.get() }
        defer { change { $0.waits[queueEntry] = nil } }
        try await waiter.value(within: bound, of: what)
    }
}

/// All mutable state of a running server, guarded by one lock.
struct ServerState: Sendable {
    typealias Route = (handler: TestServer.Handler, moment: TestServer.HandlerMoment)

    var isShutDown = false

    var queue = FIFO<Reply>()
    var routes: [String: Route] = [:]
    var fallback: Route?

    var requests = FIFO<RecordedRequest>()
    var takers = FIFO<Waiter<RecordedRequest>>()
    var requestCount = 0
    var takenRequestCount = 0
    var rejectedRequestCount = 0

    var connections: [Int: Descriptor] = [:]
    var connectionCount = 0

    var lastQueueEntry = 0
    var waits: [Int: (isTrue: @Sendable (ServerState) -> Bool, waiter: Waiter<Void>)] = [:]

    var closedConnectionCount: Int { connectionCount - connections.count }

    mutating func takeReadyWaits() -> [Waiter<Void>] {
        let ready = waits.filter { $0.value.isTrue(self) }
        for queueEntry in ready.keys { waits[queueEntry] = nil }
        return ready.values.map(\.waiter)
    }

    /// Stores a request, or returns the waiter that receives it.
    mutating func keep(_ request: RecordedRequest, _ recording: RequestRecording) -> Waiter<RecordedRequest>? {
        if recording == .none { return nil }
        if let taker = takers.popFirst() { return taker }
        requests.append(request)
        if case .last(let limit) = recording {
            while requests.count > max(0, limit) { _ = requests.popFirst() }
        }
        return nil
    }
}
