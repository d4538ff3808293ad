// An executor for code that may block. It keeps the order for each member, and adds threads while code blocks.
import Foundation
import Synchronization

/// An object whose queued code an ``ExecutorPool`` runs in order, on any of its threads.
protocol ExecutorMember: AnyObject, Sendable {
    func runExecutor()
}

/// Runs callbacks, decoders and builders of one manager's operations, or the disk operations of all downloads.
///
/// A member is queued once, with all the code it has to run. A worker (thread) dequeues the member, runs that code in
/// order and dequeues the next member. One worker suffices for brief code. `ExecutorClock` ticks every two milliseconds
/// while members wait. If no member was dequeued during the last two ticks, the workers are assumed to block, and their
/// number doubles. If some were dequeued, one worker is added, up to the number of cores. Blocking code therefore delays
/// other members by about four milliseconds; with less, workers that wait for a core would also count as blocked.
final class ExecutorPool: Sendable {
    private struct State {
        var waiting = Fifo<any ExecutorMember>()
        var hasDequeued = false
        var isTicking = false
        var stillTicks = 0
        var quietTicks = 0
        var workers = 0
        var extraWorkers = 0
        /// The last queue became idle last, so its thread may still be awake.
        var idle: [DispatchQueue] = []
        var queueCount = 0
        let quality: DispatchQoS
        let limit: WorkerLimit

        mutating func makeWorker() -> DispatchQueue {
            workers += 1
            if let queue = idle.popLast() { return queue }
            queueCount += 1
            let name = quality == .unspecified ? "" : "\(quality.qosClass)."
            return DispatchQueue(label: "convoy.executor.\(name)\(queueCount)", qos: quality)
        }

        mutating func retire(_ queue: DispatchQueue) {
            workers -= 1
            if idle.count < ExecutorPool.coreCount { idle.append(queue) }
            guard extraWorkers > 0 else { return }
            extraWorkers -= 1
            limit.free.wrappingAdd(1, ordering: .relaxed)
        }
    }

    private let state: Locked<State>
    private static let blockedTicks = 2
    private static let idleTicks = 8
    private static let coreCount = max(1, ProcessInfo.processInfo.activeProcessorCount)
    // Each pool also has one worker that does not count. libdispatch has 255 threads, which all code of the process
    // shares. In swift-corelibs-foundation, a thread that starts a `URLSessionTask` waits for an internal queue. If all
    // threads waited, none could run that queue.
    final class WorkerLimit: Sendable {
        static let callbacks = WorkerLimit(128)
        /// The limit for disk operations; separate, so that a hanging disk blocks no callback.
        static let disk = WorkerLimit(96)

        fileprivate let free: Atomic<Int>

        init(_ limit: Int) { free = Atomic(limit) }

        fileprivate func take(_ wanted: Int) -> Int {
            let missing = min(wanted, max(0, -free.wrappingSubtract(wanted, ordering: .relaxed).newValue))
            free.wrappingAdd(missing, ordering: .relaxed)
            return wanted - missing
        }
    }

    init(extraWorkers limit: WorkerLimit = .callbacks, quality: DispatchQoS = .unspecified) {
        state = Locked(State(quality: quality, limit: limit))
    }

    func submit(_ member: any ExecutorMember, isFirst: Bool = false) {
        let (queue, ticks) = state.withLock { state -> (DispatchQueue?, Bool) in
            if isFirst { state.waiting.prepend(member) } else { state.waiting.append(member) }
            if state.workers == 0 { return (state.makeWorker(), false) }
            guard !state.isTicking else { return (nil, false) }
            (state.isTicking, state.quietTicks, state.stillTicks, state.hasDequeued) = (true, 0, 0, false)
            return (nil, true)
        }
        if let queue { WakeUps.perform { self.work(on: queue) } }
        let beginsTicking =
            ticks
            && Self.ticking.withLock { pools in
                pools.append(self)
                return pools.count == 1
            }
        if beginsTicking { Self.clock.async { Self.tickAll() } }
    }

    // Called on a worker, which is not counted meanwhile. If it was the only one and members wait, another starts.
    func blocking<Value>(_ work: () -> Value) -> Value {
        let queue = state.withLock { state in
            state.workers -= 1
            return state.workers == 0 && !state.waiting.isEmpty ? state.makeWorker() : nil
        }
        if let queue { self.work(on: queue) }
        defer { state.withLock { $0.workers += 1 } }
        return work()
    }

    private func work(on queue: DispatchQueue) {
        queue.async {
            while let member = self.takeNext(for: queue) { member.runExecutor() }
        }
    }

    private func takeNext(for queue: DispatchQueue) -> (any ExecutorMember)? {
        state.withLock { state in
            let member = state.waiting.popFirst()
            if member == nil { state.retire(queue) } else { state.hasDequeued = true }
            return member
        }
    }

    func tick() -> Bool {
        let (isTicking, queues) = state.withLock { state -> (Bool, [DispatchQueue]) in
            state.stillTicks = state.hasDequeued ? 0 : state.stillTicks + 1
            state.hasDequeued = false
            state.quietTicks = state.waiting.isEmpty ? state.quietTicks + 1 : 0
            state.isTicking = state.quietTicks < Self.idleTicks
            let isBlocked = state.stillTicks >= Self.blockedTicks
            let most = isBlocked ? max(1, state.workers) : state.workers < Self.coreCount ? 1 : 0
            let granted = state.limit.take(min(state.waiting.count, most))
            state.extraWorkers += granted
            return (state.isTicking, (0..<granted).map { _ in state.makeWorker() })
        }
        for queue in queues { work(on: queue) }
        return isTicking
    }

    private static let clock = DispatchQueue(label: "convoy.executors")
    private static let ticking = Locked<[ExecutorPool]>([])

    /// One sleeping thread serves all pools; a timer of libdispatch would wake two threads for each tick.
    private static func tickAll() {
        var isOver = false
        while !isOver {
            usleep(2_000)
            let quiet = ticking.withLock { $0 }.filter { !$0.tick() }
            isOver = ticking.withLock { pools in
                // A pool that has begun to tick again since its tick is in the list twice; one entry stays.
                for pool in quiet { _ = pools.firstIndex { $0 === pool }.map { pools.remove(at: $0) } }
                return pools.isEmpty
            }
        }
    }
}

struct ExecutorWork {
    private var pending: [@Sendable () -> Void] = []
    private var isQueued = false

    mutating func add(_ piece: @escaping @Sendable () -> Void) -> Bool {
        pending.append(piece)
        defer { isQueued = true }
        return !isQueued
    }

    /// Adds code without queueing the member.
    mutating func put(_ piece: @escaping @Sendable () -> Void) { pending.append(piece) }

    mutating func take() -> [@Sendable () -> Void]? {
        isQueued = !pending.isEmpty
        defer { pending = [] }
        return isQueued ? pending : nil
    }
}

/// A variable that each thread has for itself, nil at first and released when the thread ends.
///
/// Reading a pthread key takes a few nanoseconds, reading the thread dictionary about a hundred.
struct ThreadSlot<Value>: Sendable {
    private final class Box {
        var value: Value?
    }

    /// Nil if the process has no key left; the boxes are then in the threads' dictionaries.
    private let key: pthread_key_t?
    private let name = "convoy.\(UUID().uuidString)"

    init(hasKey: Bool = true) {
        var key = pthread_key_t()
        let result = pthread_key_create(&key) { box in
            // The parameter is an optional on Linux only.
            let box: UnsafeMutableRawPointer? = box
            if let box { Unmanaged<AnyObject>.fromOpaque(box).release() }
        }
        self.key = hasKey && result == 0 ? key : nil
    }

    private var box: Box {
        let known = key.map { pthread_getspecific($0).map { Unmanaged<Box>.fromOpaque($0).takeUnretainedValue() } }
        if let box = known ?? Thread.current.threadDictionary[name] as? Box { return box }
        let box = Box()
        if let key {
            pthread_setspecific(key, Unmanaged.passRetained(box).toOpaque())
        } else {
            Thread.current.threadDictionary[name] = box
        }
        return box
    }

    var value: Value? {
        get { box.value }
        nonmutating set { box.value = newValue }
    }

    func with<Result>(_ value: Value?, _ body: () -> Result) -> Result {
        let box = box
        let outer = box.value
        box.value = value
        defer { box.value = outer }
        return body()
    }
}
