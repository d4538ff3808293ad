import Convoy
import Foundation

/// A point in a scripted reply at which the connection stops until a test opens the gate.
///
/// A gate replaces sleeping. The test waits until a connection has reached the gate, inspects the client in exactly
/// that state, and then opens the gate. Many replies may use one gate. An open gate stays open.
///
/// ```swift
/// let gate = Gate()
/// server.enqueue(.status(200, body: "late").stalling(until: gate))
/// // start the client here
/// try await gate.reached()
/// gate.open()
/// ```
///
/// A connection continues when the gate is opened. The server closes a waiting connection without another byte when
/// the client disconnects (also half-closes), when the server is shut down, or after two minutes.
///
/// ## Concurrency
/// Every member may be used from any thread. `open()` resumes waiters outside its lock.
///
/// ## Topics
/// - ``open()``
/// - ``reached(count:within:)``
/// - ``opened(within:)``
public final class Gate: Sendable {
    private struct State: Sendable {
        var isOpen = false
        var arrivals = 0
        var nextQueueEntry = 0
        var threads: [Int: Descriptor] = [:]
        var tasks: [Int: (count: Int?, waiter: Waiter<Void>)] = [:]

        mutating func makeQueueEntry() -> Int {
            nextQueueEntry += 1
            return nextQueueEntry
        }

        mutating func takeReached() -> [Waiter<Void>] {
            let ready = tasks.filter { _, task in task.count.map { $0 <= arrivals } ?? isOpen }
            for queueEntry in ready.keys { tasks[queueEntry] = nil }
            return ready.values.map(\.waiter)
        }
    }

    private let state = Locked(State())

    /// Makes a closed gate.
    public init() {}

    /// Whether ``open()`` has been called.
    ///
    /// - Thread: any.
    public var isOpen: Bool { state.withLock { $0.isOpen } }

    /// The number of arrivals of connections so far, including arrivals at the open gate.
    ///
    /// - Thread: any.
    public var arrivals: Int { state.withLock { $0.arrivals } }

    /// Opens the gate for all current and later connections.
    ///
    /// A second call has no effect.
    ///
    /// - Thread: any.
    /// - Complexity: O(*w*) for *w* waiters.
    public func open() {
        let (threads, tasks) = state.withLock { state in
            state.isOpen = true
            let threads = Array(state.threads.values)
            state.threads = [:]
            return (threads, state.takeReached())
        }
        for thread in threads { thread.signal() }
        for task in tasks { task.resolve(.success(())) }
    }

    /// Waits until the gate is open; returns at once if the gate is already open.
    ///
    /// - Parameter bound: the longest wait, 60 seconds by default.
    /// - Throws: ``TestServerError/timedOut(waitingFor:bound:)`` or ``TestServerError/cancelled``.
    /// - Thread: any; suspends the task and blocks no thread.
    public func opened(within bound: Duration = .seconds(60)) async throws(TestServerError) {
        try await wait(for: nil, within: bound, what: "a gate to be opened")
    }

    /// Waits until a total of `count` connections have reached the gate.
    ///
    /// - Parameters:
    ///   - count: arrivals since the gate was made, 1 by default.
    ///   - bound: the longest wait, 60 seconds by default.
    /// - Throws: ``TestServerError/timedOut(waitingFor:bound:)`` or ``TestServerError/cancelled``.
    /// - Thread: any; suspends the task and blocks no thread.
    public func reached(count: Int = 1, within bound: Duration = .seconds(60)) async throws(TestServerError) {
        try await wait(for: count, within: bound, what: "\(count) arrival(s) at a gate")
    }

    private func wait(for count: Int?, within bound: Duration, what: String) async throws(TestServerError) {
        let waiter = Waiter<Void>()
        let (queueEntry, ready) = state.withLock { state in
            let queueEntry = state.makeQueueEntry()
            state.tasks[queueEntry] = (count, waiter)
            return (queueEntry, state.takeReached())
        }
        for waiter in ready { waiter.resolve(.success(())) }
        defer { state.withLock { $0.tasks[queueEntry] = nil } }
        try await waiter.value(within: bound, of: what)
    }

    /// Nil if the gate is open, otherwise the number to pass to ``leave(_:)``.
    func arrive(waking thread: Descriptor?) -> Int? {
        let (queueEntry, ready) = state.withLock { state in
            state.arrivals += 1
            let queueEntry = state.isOpen ? nil : state.makeQueueEntry()
            if let queueEntry, let thread { state.threads[queueEntry] = thread }
            return (queueEntry, state.takeReached())
        }
        for waiter in ready { waiter.resolve(.success(())) }
        return queueEntry
    }

    func leave(_ queueEntry: Int) { state.withLock { $0.threads[queueEntry] = nil } }
}
