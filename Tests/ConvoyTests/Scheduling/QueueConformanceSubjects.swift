// What the cases of conformance compare: kinds of operations and queues, and the work of operations.
import Foundation
import Testing

@testable import Convoy

/// Operations and the queue that they come into.
enum QueueSubject: String, CaseIterable, CustomTestStringConvertible {
    /// Blocks, and asynchronous operations where work goes on: what the others are compared with.
    case plainOperations
    /// Added with `addOperation` to a queue that their manager does not know.
    case requestsAddedToAQueue
    /// Enqueued by a manager over a queue of the test's.
    case requestsEnqueuedInAQueue
    /// Enqueued by a manager with a queue of its own.
    case requestsOfTheManagersQueue
    /// In no queue.
    case requestsStartedByHand

    static let queues: [Self] = [
        .plainOperations, .requestsAddedToAQueue, .requestsEnqueuedInAQueue, .requestsOfTheManagersQueue,
    ]
    /// Those that come into a queue of Foundation's by its own functions.
    static let added: [Self] = [.plainOperations, .requestsAddedToAQueue]
    static let queuedRequests: [Self] = queues.filter { $0 != .plainOperations }
    /// Those of a manager.
    static let requests: [Self] = [
        .requestsAddedToAQueue, .requestsEnqueuedInAQueue, .requestsOfTheManagersQueue, .requestsStartedByHand,
    ]

    var testDescription: String { rawValue }
    var isPlain: Bool { self == .plainOperations }
}

/// Where a subject may differ from plain operations.
enum KnownDifferences {
    /// The list and the count cannot be overridden on Linux.
    private static let slots = "without a limit the queue of a manager lists and counts requests that have a slot"
    private static let unstarted =
        "what a suspended queue of a manager has not been given finishes when it is cancelled"

    /// Each stands in the page *Getting started*.
    static let all: [(promise: String, subject: QueueSubject, reason: String)] = [
        ("operationsOfASuspendedQueueAreListed", .requestsOfTheManagersQueue, slots),
        ("aBarrierIsNotCounted", .requestsOfTheManagersQueue, slots),
        ("cancellingAllOfASuspendedQueueRunsNone", .requestsOfTheManagersQueue, unstarted),
    ]
}

/// The work of operations: what has begun, and what is held until the test opens it.
final class WorkBoard: Sendable {
    private struct State {
        var held: Set<String> = []
        var ends: [String: @Sendable () -> Void] = [:]
        var running: Set<String> = []
        var mostRunning = 0
        var watched: [Operation] = []
    }

    /// "+a" when a's work begins, "-a" when it is opened, and marks of the test.
    let log = EventLog<String>()
    private let state = Locked(State())

    func hold(_ name: String) { state.withLock { _ = $0.held.insert(name) } }
    /// Operations whose flags are looked at whenever work begins.
    func watch(_ operation: Operation) { state.withLock { $0.watched.append(operation) } }

    /// Work begins; one that is not held ends at once.
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

    /// Lets held work end, now or as soon as it begins.
    func open(_ name: String) {
        log.record("-\(name)")
        leave(name)?()
    }

    /// Work ends, whoever ended it.
    @discardableResult
    func leave(_ name: String) -> (@Sendable () -> Void)? {
        state.withLock { state in
            state.held.remove(name)
            state.running.remove(name)
            return state.ends.removeValue(forKey: name)
        }
    }

    func openAll() { for name in state.withLock({ $0.held }) { leave(name)?() } }

    /// The most that ran at once, by their work or by `isExecuting` of those that are watched.
    var mostRunning: Int { state.withLock { $0.mostRunning } }
    var events: [String] { log.events }
    /// The names of what has begun, in order.
    var begun: [String] { events.filter { $0.hasPrefix("+") }.map { String($0.dropFirst()) } }
    func place(of event: String) -> Int? { events.firstIndex(of: event) }
}

/// An asynchronous operation as a program would write it.
final class PlainOperation: Operation, @unchecked Sendable {
    // @unchecked: `Operation` forces it. `phase` is a lock of its own.
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
