// Where user code of operations runs: in order for each operation, and never long behind another's.
import Foundation

/// Runs callbacks, decoders and builders of one manager's operations.
///
/// An executor with workers that are added while they block. An operation is queued once, with all the code it has to run; a
/// worker dequeues it, runs that code in order and takes the next. One worker is enough for brief code, and waking it once for
/// many operations is what makes them cheap. A timer ticks every millisecond while operations wait: if none was dequeued since
/// the last tick, the workers are assumed to be blocked and their number doubles; otherwise one is added, up to the number of
/// cores. So what blocks delays others by a millisecond or two.
final class Lanes: Sendable {
    private struct State {
        /// Those before `next` have been dequeued.
        var waiting: [AnyRequestOperation?] = []
        var next = 0
        /// How many have been dequeued, ever.
        var dequeuedCount = 0
        var dequeuedAtLastTick = 0
        var isTicking = false
        var workers = 0
        var extraWorkers = 0
        /// Workers' queues without work; the last one's thread is awake.
        var idle: [DispatchQueue] = []
        var queueCount = 0

        var waitingCount: Int { waiting.count - next }

        mutating func dequeue() -> AnyRequestOperation? {
            guard next < waiting.count else {
                (waiting, next) = ([], 0)
                return nil
            }
            defer {
                // What has been dequeued is not kept.
                waiting[next] = nil
                (next, dequeuedCount) = (next + 1, dequeuedCount + 1)
                if next > 256, next * 2 > waiting.count {
                    waiting.removeFirst(next)
                    next = 0
                }
            }
            return waiting[next]
        }

        /// Queues for so many more workers.
        mutating func makeWorkers(_ count: Int) -> [DispatchQueue] {
            workers += count
            return (0..<count).map { _ in
                if let queue = idle.popLast() { return queue }
                queueCount += 1
                return DispatchQueue(label: "convoy.lane.\(queueCount)")
            }
        }

        /// Lets a worker go that has no work; whether an extra one is to be given back.
        mutating func retire(_ queue: DispatchQueue) -> Bool {
            workers -= 1
            if idle.count < Lanes.coreCount { idle.append(queue) }
            guard extraWorkers > 0 else { return false }
            extraWorkers -= 1
            return true
        }
    }

    private let state = Locked(State())
    private let timerQueue = DispatchQueue(label: "convoy.lanes")
    private static let coreCount = max(1, ProcessInfo.processInfo.activeProcessorCount)
    /// How many extra workers all managers may have together; each manager has one worker besides.
    ///
    /// libdispatch has 255 threads, and others need some: corelibs makes the thread that starts a task wait for a queue of its own,
    /// and were all threads to wait for it, none would be left to run it.
    private static let extraLimit = 128
    private static let extraWorkers = Locked(0)

    /// Queues an operation with code to run.
    func submit(_ operation: AnyRequestOperation) {
        let (queues, ticks) = state.withLock { state -> ([DispatchQueue], Bool) in
            state.waiting.append(operation)
            if state.workers == 0 { return (state.makeWorkers(1), false) }
            guard !state.isTicking else { return ([], false) }
            (state.isTicking, state.dequeuedAtLastTick) = (true, state.dequeuedCount)
            return ([], true)
        }
        for queue in queues { work(on: queue) }
        if ticks { tickLater() }
    }

    private func work(on queue: DispatchQueue) {
        queue.async {
            while let operation = self.takeNext(for: queue) { operation.runLane() }
        }
    }

    private func takeNext(for queue: DispatchQueue) -> AnyRequestOperation? {
        let (operation, wasExtra) = state.withLock { state -> (AnyRequestOperation?, Bool) in
            let operation = state.dequeue()
            return (operation, operation == nil && state.retire(queue))
        }
        if wasExtra { Self.extraWorkers.withLock { $0 -= 1 } }
        return operation
    }

    private func tickLater() { timerQueue.asyncAfter(deadline: .now() + .milliseconds(1)) { self.tick() } }

    private func tick() {
        let wanted = state.withLock { state -> Int? in
            state.isTicking = state.waitingCount > 0
            guard state.isTicking else { return nil }
            let isStuck = state.dequeuedCount == state.dequeuedAtLastTick
            state.dequeuedAtLastTick = state.dequeuedCount
            if isStuck { return min(state.waitingCount, max(1, state.workers)) }
            return state.workers < Self.coreCount ? 1 : 0
        }
        guard let wanted else { return }
        let granted = Self.extraWorkers.withLock { count in
            let granted = max(0, min(wanted, Self.extraLimit - count))
            count += granted
            return granted
        }
        let queues = state.withLock { state in
            state.extraWorkers += granted
            return state.makeWorkers(granted)
        }
        for queue in queues { work(on: queue) }
        tickLater()
    }
}

/// The code an operation has to run.
struct LaneWork {
    private var pending: [@Sendable () -> Void] = []
    private var isQueued = false

    /// Adds a piece; true when the operation has to be queued for it.
    mutating func add(_ piece: @escaping @Sendable () -> Void) -> Bool {
        pending.append(piece)
        defer { isQueued = true }
        return !isQueued
    }

    /// Everything to run now; nil when there is nothing, and the operation is queued no more.
    mutating func take() -> [@Sendable () -> Void]? {
        isQueued = !pending.isEmpty
        defer { pending = [] }
        return isQueued ? pending : nil
    }
}

extension AnyRequestOperation {
    /// Runs something of the user's, after what was asked for before, one after the other.
    func onLane(_ work: @escaping @Sendable () -> Void) {
        if state.withLock({ $0.lane.add(work) }) { context.lanes.submit(self) }
    }

    fileprivate func runLane() {
        while let pieces = state.withLock({ $0.lane.take() }) {
            for piece in pieces { piece() }
        }
    }
}
