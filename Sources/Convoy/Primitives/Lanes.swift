// Where code runs that may block: in order for each member, and never long behind another's.
import Foundation

/// What has code to run in order, on whatever worker takes it.
protocol LaneMember: AnyObject, Sendable {
    /// Runs all of it.
    func runLane()
}

/// Runs callbacks, decoders and builders of one manager's operations, or works with the disk of all downloads.
///
/// An executor with workers that are added while they block. A member is queued once, with all the code it has to run; a
/// worker dequeues it, runs that code in order and takes the next. One worker is enough for brief code, and waking it once
/// for many members is what makes them cheap. A timer ticks every millisecond while members wait: if none was dequeued since
/// the last tick, the workers are assumed to be blocked and their number doubles; otherwise one is added, up to the number of
/// cores. So what blocks delays others by a millisecond or two.
final class Lanes: Sendable {
    private struct State {
        /// Those before `next` have been dequeued.
        var waiting: [(any LaneMember)?] = []
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
        /// Of the workers.
        let quality: DispatchQoS

        var waitingCount: Int { waiting.count - next }

        mutating func dequeue() -> (any LaneMember)? {
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
                let name = quality == .unspecified ? "" : "\(quality.qosClass)."
                return DispatchQueue(label: "convoy.lane.\(name)\(queueCount)", qos: quality)
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

    private let state: Locked<State>
    private let timerQueue = DispatchQueue(label: "convoy.lanes")
    private static let coreCount = max(1, ProcessInfo.processInfo.activeProcessorCount)
    /// How many extra workers lanes may have together; each has one worker besides.
    ///
    /// libdispatch has 255 threads, and others need some: corelibs makes the thread that starts a task wait for a queue of
    /// its own, and were all threads to wait for it, none would be left to run it.
    final class WorkerLimit: Sendable {
        /// Of the callbacks of all managers.
        static let callbacks = WorkerLimit(128)
        /// A limit of its own, so that a disk that hangs holds up no callback.
        static let disk = WorkerLimit(96)

        private let limit: Int
        private let used = Locked(0)

        private init(_ limit: Int) { self.limit = limit }

        /// Takes as many as are left, but no more than are wanted.
        func take(_ wanted: Int) -> Int {
            used.withLock { used in
                let granted = max(0, min(wanted, limit - used))
                used += granted
                return granted
            }
        }

        func giveBack() { used.withLock { $0 -= 1 } }
    }

    private let extraWorkers: WorkerLimit

    init(extraWorkers: WorkerLimit = .callbacks, quality: DispatchQoS = .unspecified) {
        self.extraWorkers = extraWorkers
        state = Locked(State(quality: quality))
    }

    /// Queues a member with code to run.
    func submit(_ member: any LaneMember) {
        let (queues, ticks) = state.withLock { state -> ([DispatchQueue], Bool) in
            state.waiting.append(member)
            if state.workers == 0 { return (state.makeWorkers(1), false) }
            guard !state.isTicking else { return ([], false) }
            (state.isTicking, state.dequeuedAtLastTick) = (true, state.dequeuedCount)
            return ([], true)
        }
        for queue in queues { work(on: queue) }
        if ticks { tickLater() }
    }

    /// Does what is known to block, on a worker: meanwhile it counts for none, so that nothing waits for it, or for a tick.
    func blocking<Value>(_ work: () -> Value) -> Value {
        let queues = state.withLock { state in
            state.workers -= 1
            return state.workers == 0 && state.waitingCount > 0 ? state.makeWorkers(1) : []
        }
        for queue in queues { self.work(on: queue) }
        defer { state.withLock { $0.workers += 1 } }
        return work()
    }

    private func work(on queue: DispatchQueue) {
        queue.async {
            while let member = self.takeNext(for: queue) { member.runLane() }
        }
    }

    private func takeNext(for queue: DispatchQueue) -> (any LaneMember)? {
        let (member, wasExtra) = state.withLock { state -> ((any LaneMember)?, Bool) in
            let member = state.dequeue()
            return (member, member == nil && state.retire(queue))
        }
        if wasExtra { extraWorkers.giveBack() }
        return member
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
        let granted = extraWorkers.take(wanted)
        let queues = state.withLock { state in
            state.extraWorkers += granted
            return state.makeWorkers(granted)
        }
        for queue in queues { work(on: queue) }
        tickLater()
    }
}

/// The code a member has to run.
struct LaneWork {
    private var pending: [@Sendable () -> Void] = []
    private var isQueued = false

    /// Adds a piece; true when the member has to be queued for it.
    mutating func add(_ piece: @escaping @Sendable () -> Void) -> Bool {
        put(piece)
        defer { isQueued = true }
        return !isQueued
    }

    /// Adds a piece that may wait for the next one.
    mutating func put(_ piece: @escaping @Sendable () -> Void) { pending.append(piece) }

    /// Everything to run now; nil when there is nothing, and the member is queued no more.
    mutating func take() -> [@Sendable () -> Void]? {
        isQueued = !pending.isEmpty
        defer { pending = [] }
        return isQueued ? pending : nil
    }
}
