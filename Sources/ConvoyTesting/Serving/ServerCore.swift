import Convoy
import Foundation

/// The threads retain this object instead of the `TestServer`, so that releasing the server ends them.
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

    init(options: Options) { self.options = options }

    /// Changes the state, then resumes waiters whose condition is met.
    func change<Value: Sendable>(_ body: (inout ServerState) -> Value) -> Value {
        let (value, ready) = state.withLock { state in
            let value = body(&state)
            return (value, state.waits.isEmpty ? [] : state.takeReadyWaits())
        }
        for waiter in ready { waiter.resolve(.success(())) }
        return value
    }

    func read<Value: Sendable>(_ body: (ServerState) -> Value) -> Value { state.withLock { body($0) } }

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

    func countRejected() { change { $0.rejectedRequestCount += 1 } }

    /// If the waiter has timed out or was cancelled, the request goes to the next waiter, or back as the oldest one.
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

/// `@unchecked Sendable`: `running` is used only while `condition` is locked.
final class ThreadCount: @unchecked Sendable {
    private let condition = NSCondition()
    private var running = 0

    func enter() {
        condition.lock()
        running += 1
        condition.unlock()
    }

    func leave() {
        condition.lock()
        running -= 1
        condition.broadcast()
        condition.unlock()
    }

    func wait(downTo rest: Int, until end: Date) {
        condition.lock()
        defer { condition.unlock() }
        while running > rest, condition.wait(until: end) {}
    }
}

/// `shutDown` notices that a handler shuts down its own server, and then does not wait for the handler's thread.
private let coreKey = "ConvoyTesting.core"

extension ServerCore {
    private func startThread(_ name: String, _ work: @escaping @Sendable () -> Void) {
        threads.enter()
        let thread = Thread { [self] in
            Thread.current.threadDictionary[coreKey] = ObjectIdentifier(self)
            work()
            threads.leave()
        }
        thread.name = name
        thread.stackSize = 256 * 1024
        thread.start()
    }

    func startAccepting(on listener: Descriptor, until wake: Descriptor) {
        startThread("ConvoyTesting accept") { [self] in
            accept(on: listener, until: wake)
            // A child process that is being started briefly has a copy of the listener. Without `shutDown`, that copy
            // would still accept connections.
            listener.shutDown(reading: true, writing: true)
            listener.close()
            wake.close()
        }
    }

    private func accept(on listener: Descriptor, until wake: Descriptor) {
        while true {
            guard listener.waitForInput(milliseconds: 60_000, or: wake) != .stopped else { return }
            // The loop accepts all waiting connections, so that one poll serves several.
            while let socket = listener.acceptConnection() { startConnection(socket) }
            // If no descriptors are left, the listener stays readable. The loop tries again after 10 ms, unless the
            // server stops.
            if errno == EMFILE || errno == ENFILE, wake.waitForInput(milliseconds: 10, or: nil) == .woken { return }
        }
    }

    private func startConnection(_ socket: Descriptor) {
        let number: Int? = change { state in
            guard !state.isShutDown else { return nil }
            state.connectionCount += 1
            state.connections[state.connectionCount] = socket
            return state.connectionCount
        }
        guard let number else { return socket.close() }
        startThread("ConvoyTesting \(number)") { [self] in
            var connection = Connection(core: self, number: number, socket: socket)
            connection.run()
            socket.close()
            change { $0.connections[number] = nil }
        }
    }

    /// The threads of the connections notice the end at once.
    func disconnectAll() {
        let sockets = read { Array($0.connections.values) }
        for socket in sockets { socket.shutDown(reading: true, writing: true) }
    }

    func shutDown(waking wake: Descriptor) {
        let (takers, waits) = change { state in
            state.isShutDown = true
            let result = (state.takers.all, state.waits.values.map(\.waiter))
            state.takers = FIFO()
            state.waits = [:]
            return result
        }
        wake.signal()
        disconnectAll()
        for taker in takers { taker.resolve(.failure(.shutDown)) }
        for wait in waits { wait.resolve(.failure(.shutDown)) }
        let isOwnThread = Thread.current.threadDictionary[coreKey] as? ObjectIdentifier == ObjectIdentifier(self)
        threads.wait(downTo: isOwnThread ? 1 : 0, until: Date(timeIntervalSinceNow: 10))
        wake.close()
    }
}
