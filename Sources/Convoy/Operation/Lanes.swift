// Where user code of operations runs: in order for each operation, and never long behind another's.
import Foundation

/// Runs callbacks, decoders and builders of one manager's operations.
///
/// An operation stands in line once, with all the code it has to run; a worker takes it, runs that code in order and takes
/// the next. One worker is enough for brief code, and waking it once for many operations is what makes them cheap. A watch
/// looks every millisecond while work waits: a worker that does not come back gets company, twice as many each time,
/// and code that is only slow gets as many workers as there are cores. So what blocks delays others by a millisecond or two.
final class Lanes: Sendable {
    private struct State {
        var waiting: [AnyRequestOperation?] = []
        var next = 0
        /// How many have been taken from the line, ever.
        var taken = 0
        var takenAtLastLook = 0
        var isWatched = false
        var workers = 0
        /// How many of them came as company.
        var companyCount = 0
        /// Workers' queues without work; the last one's thread is awake.
        var idle: [DispatchQueue] = []
        var queueCount = 0

        var waitingCount: Int { waiting.count - next }

        /// Queues for so many more workers.
        mutating func makeWorkers(_ count: Int) -> [DispatchQueue] {
            workers += count
            return (0..<count).map { _ in
                if let queue = idle.popLast() { return queue }
                queueCount += 1
                return DispatchQueue(label: "convoy.lane.\(queueCount)")
            }
        }
    }

    private let state = Locked(State())
    private let watchQueue = DispatchQueue(label: "convoy.lanes")
    private static let coreCount = max(1, ProcessInfo.processInfo.activeProcessorCount)
    /// How many workers of all managers together may have come as company; each manager has one besides.
    ///
    /// libdispatch has 255 threads, and others need some: SCF makes whoever starts a task wait for a queue of its own, and
    /// were all threads to wait for it, none would be left to run it.
    private static let companyLimit = 128
    private static let company = Locked(0)
    private static let patience = DispatchTimeInterval.milliseconds(1)

    /// Puts an operation with code to run in line.
    func submit(_ operation: AnyRequestOperation) {
        let (queues, watches) = state.withLock { state -> ([DispatchQueue], Bool) in
            state.waiting.append(operation)
            if state.workers == 0 { return (state.makeWorkers(1), false) }
            guard !state.isWatched else { return ([], false) }
            (state.isWatched, state.takenAtLastLook) = (true, state.taken)
            return ([], true)
        }
        for queue in queues { work(on: queue) }
        if watches { watch() }
    }

    private func work(on queue: DispatchQueue) {
        queue.async {
            while let operation = self.takeNext(for: queue) { operation.runLane() }
        }
    }

    private func takeNext(for queue: DispatchQueue) -> AnyRequestOperation? {
        let (operation, wasCompany) = state.withLock { state -> (AnyRequestOperation?, Bool) in
            guard state.next < state.waiting.count else {
                (state.waiting, state.next) = ([], 0)
                state.workers -= 1
                if state.idle.count < Self.coreCount { state.idle.append(queue) }
                guard state.companyCount > 0 else { return (nil, false) }
                state.companyCount -= 1
                return (nil, true)
            }
            defer {
                // What has been taken is not kept.
                state.waiting[state.next] = nil
                state.next += 1
                state.taken += 1
                if state.next > 256, state.next * 2 > state.waiting.count {
                    state.waiting.removeFirst(state.next)
                    state.next = 0
                }
            }
            return (state.waiting[state.next], false)
        }
        if wasCompany { Self.company.withLock { $0 -= 1 } }
        return operation
    }

    private func watch() {
        watchQueue.asyncAfter(deadline: .now() + Self.patience) { self.look() }
    }

    private func look() {
        let wanted = state.withLock { state -> Int? in
            guard state.waitingCount > 0 else {
                state.isWatched = false
                return nil
            }
            let isStuck = state.taken == state.takenAtLastLook
            state.takenAtLastLook = state.taken
            if isStuck { return min(state.waitingCount, max(1, state.workers)) }
            return state.workers < Self.coreCount ? 1 : 0
        }
        guard let wanted else { return }
        let granted = Self.company.withLock { company in
            let granted = max(0, min(wanted, Self.companyLimit - company))
            company += granted
            return granted
        }
        let queues = state.withLock { state in
            state.companyCount += granted
            return state.makeWorkers(granted)
        }
        for queue in queues { work(on: queue) }
        watch()
    }
}

/// The code an operation has to run.
struct LaneWork {
    private var pending: [@Sendable () -> Void] = []
    private var isInLine = false

    /// Adds a piece; true when the operation has to be put in line for it.
    mutating func add(_ piece: @escaping @Sendable () -> Void) -> Bool {
        pending.append(piece)
        defer { isInLine = true }
        return !isInLine
    }

    /// Everything to run now; nil when there is nothing and the operation has left the line.
    mutating func take() -> [@Sendable () -> Void]? {
        isInLine = !pending.isEmpty
        defer { pending = [] }
        return isInLine ? pending : nil
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
