import Convoy
import Foundation
import Testing

enum QueueSubject: String, CaseIterable, CustomTestStringConvertible {
    /// Block operations, and asynchronous operations for longer work.
    ///
    /// The other subjects are compared with these plain operations.
    case plainOperations
    /// Requests that are added with `addOperation` to a queue that their manager does not know.
    case requestsAddedToAQueue
    /// Requests that a manager enqueues in a queue of the test.
    case requestsEnqueuedInAQueue
    /// Requests that a manager enqueues in its own queue.
    case requestsOfTheManagersQueue
    case requestsStartedByHand

    static let queues: [Self] = [
        .plainOperations, .requestsAddedToAQueue, .requestsEnqueuedInAQueue, .requestsOfTheManagersQueue,
    ]
    /// The subjects that Foundation's own functions add to a queue.
    static let added: [Self] = [.plainOperations, .requestsAddedToAQueue]
    static let queuedRequests: [Self] = queues.filter { $0 != .plainOperations }
    static let requests: [Self] = [
        .requestsAddedToAQueue, .requestsEnqueuedInAQueue, .requestsOfTheManagersQueue, .requestsStartedByHand,
    ]

    var testDescription: String { rawValue }
    var isPlain: Bool { self == .plainOperations }
}

/// The cases in which a subject may differ from plain operations.
enum KnownDifferences {
    /// The list and the count of a queue cannot be overridden on Linux.
    private static let slots = "without a limit the queue of a manager lists and counts requests that have a slot"
    private static let unstarted =
        "what a suspended queue of a manager has not been given finishes when it is cancelled"

    /// All differences, each of which the page *Getting started* explains.
    static let all: [(promise: String, subject: QueueSubject, reason: String)] = [
        ("operationsOfASuspendedQueueAreListed", .requestsOfTheManagersQueue, slots),
        ("aBarrierIsNotCounted", .requestsOfTheManagersQueue, slots),
        ("cancellingAllOfASuspendedQueueRunsNone", .requestsOfTheManagersQueue, unstarted),
    ]
}

/// Records which operations have begun their work, and holds some work until the test opens it.
final class WorkBoard: Sendable {
    private struct State {
        var held: Set<String> = []
        var ends: [String: @Sendable () -> Void] = [:]
        var running: Set<String> = []
        var mostRunning = 0
        var watched: [Operation] = []
    }

    /// "+a" when the work of the operation `a` begins, "-a" when the test opens it, and marks of the test.
    let log = EventLog<String>()
    private let state = Locked(State())

    func hold(_ name: String) { state.withLock { _ = $0.held.insert(name) } }
    /// Adds an operation whose flags are read whenever work begins.
    func watch(_ operation: Operation) { state.withLock { $0.watched.append(operation) } }

    /// Records that work begins, and ends the work at once unless the test holds it.
    func begin(_ name: String, _ end: @escaping @Sendable () -> Void) {
        log.record("+\(name)")
        let watched = state.withLock { $0.watched }
        let executing = watched.count { $0.isExecuting }
        let isHeld = state.withLock { state in
            state.running.insert(name)
            state.mostRunning = max(state.mostRunning, state.running.count, executing)
            if state.held.contains(name) { state.ends[name] = end } else { state.running.remove(name) }
            return state.held.contains(name)
        }
        if !isHeld { end() }
    }

    func open(_ name: String) {
        log.record("-\(name)")
        leave(name)?()
    }

    /// Records the end of work, whatever ended it.
    ///
    /// Returns the closure that ends held work; nil if the work is not held or has not begun.
    @discardableResult
    func leave(_ name: String) -> (@Sendable () -> Void)? {
        state.withLock { state in
            state.held.remove(name)
            state.running.remove(name)
            return state.ends.removeValue(forKey: name)
        }
    }

    func openAll() { for name in state.withLock({ $0.held }) { leave(name)?() } }

    /// The largest number of operations that ran at once, counted by their work or by `isExecuting`.
    var mostRunning: Int { state.withLock { $0.mostRunning } }
    var events: [String] { log.events }
    var begun: [String] { events.filter { $0.hasPrefix("+") }.map { String($0.dropFirst()) } }
    func place(of event: String) -> Int? { events.firstIndex(of: event) }
}

final class PlainOperation: Operation, @unchecked Sendable {
    // @unchecked: `Operation` requires it, and `phase` has its own lock.
    private enum Phase {
        case waiting
        case executing
        case finished
    }

    private let board: WorkBoard
    private let phase = Locked(Phase.waiting)

    init(_ name: String, _ board: WorkBoard) {
        self.board = board
        super.init()
        self.name = name
    }

    override var isAsynchronous: Bool { true }
    override var isExecuting: Bool { phase.withLock { $0 == .executing } }
    override var isFinished: Bool { phase.withLock { $0 == .finished } }

    override func start() {
        guard !isCancelled else { return finish() }
        willChangeValue(forKey: "isExecuting")
        phase.withLock { $0 = .executing }
        didChangeValue(forKey: "isExecuting")
        board.begin(name ?? "") { self.finish() }
        if isCancelled { finish() }
    }

    override func cancel() {
        super.cancel()
        if isExecuting { finish() }
    }

    private func finish() {
        board.leave(name ?? "")
        willChangeValue(forKey: "isExecuting")
        willChangeValue(forKey: "isFinished")
        let isFirst = phase.withLock { phase in
            defer { phase = .finished }
            return phase != .finished
        }
        guard isFirst else { return }
        didChangeValue(forKey: "isExecuting")
        didChangeValue(forKey: "isFinished")
    }
}
