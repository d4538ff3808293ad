// Waiting for what happens, with a bound.
import Foundation
import Testing

/// Records what happens, and lets a test wait until so much has.
final class EventLog<Event: Sendable>: @unchecked Sendable {
    // @unchecked: everything is behind `lock`.
    private struct Waiter {
        let count: Int
        let continuation: CheckedContinuation<Bool, Never>
    }

    private let lock = NSLock()
    private var recorded: [Event] = []
    private var waiters: [Int: Waiter] = [:]
    private var lastWaiter = 0

    var events: [Event] { lock.withLock { recorded } }
    var count: Int { lock.withLock { recorded.count } }

    func record(_ event: Event) {
        let due: [Waiter] = lock.withLock {
            recorded.append(event)
            let due = waiters.filter { $0.value.count <= recorded.count }
            for identity in due.keys { waiters[identity] = nil }
            return Array(due.values)
        }
        for waiter in due { waiter.continuation.resume(returning: true) }
    }

    /// Waits until so many events have been recorded; records an issue when that takes too long.
    @discardableResult
    func wait(
        count: Int = 1, within bound: Duration = .seconds(120), sourceLocation: SourceLocation = #_sourceLocation
    ) async -> [Event] {
        let isThere = await withCheckedContinuation { continuation in
            let (identity, isThere) = lock.withLock {
                lastWaiter += 1
                if recorded.count < count { waiters[lastWaiter] = Waiter(count: count, continuation: continuation) }
                return (lastWaiter, recorded.count >= count)
            }
            if isThere { return continuation.resume(returning: true) }
            DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(Int(bound / .milliseconds(1)))) {
                self.lock.withLock { self.waiters.removeValue(forKey: identity) }?.continuation.resume(returning: false)
            }
        }
        if !isThere {
            Issue.record("\(self.count) of \(count) events within \(bound)", sourceLocation: sourceLocation)
        }
        return events
    }
}

/// Objects that must have gone: a leak check.
final class LeakCheck: @unchecked Sendable {
    // @unchecked: used by one test at a time; the references are behind `lock`.
    private struct Weak {
        weak var object: AnyObject?
    }

    private let lock = NSLock()
    private var objects: [Weak] = []

    func watch<Object: AnyObject>(_ object: Object) -> Object {
        lock.withLock { objects.append(Weak(object: object)) }
        return object
    }

    var watchedCount: Int { lock.withLock { objects.count } }
    var aliveCount: Int { lock.withLock { objects.count { $0.object != nil } } }

    /// Waits until all have gone: what a queue is just letting go of goes within a turn of it.
    func expectAllGone(within bound: Duration = .seconds(120), sourceLocation: SourceLocation = #_sourceLocation) async
    {
        await turns(within: bound) { aliveCount == 0 }
        #expect(aliveCount == 0, "of \(watchedCount) objects", sourceLocation: sourceLocation)
    }
}

/// Gives others their turns until something holds that nobody tells of, or the time is over.
///
/// After some turns it looks once a millisecond: whoever spins takes the time from those it waits for.
func turns(within bound: Duration, until isTrue: () -> Bool) async {
    let deadline = ContinuousClock.now + bound
    var count = 0
    while !isTrue(), ContinuousClock.now < deadline {
        count += 1
        if count < 1_000 { await Task.yield() } else { await nextLook() }
    }
}

private func nextLook() async {
    await withCheckedContinuation { continuation in
        DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(1)) { continuation.resume() }
    }
}

/// Runs what takes long, or blocks, on a thread of its own: the concurrency pool has as few threads as there are cores, and
/// the other tests need them.
func offPool<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
    await withCheckedContinuation { continuation in
        Thread { continuation.resume(returning: body()) }.start()
    }
}

extension Result {
    var failure: (any Error)? { if case .failure(let error) = self { error } else { nil } }
}

extension OperationQueue {
    /// Waits until every operation in the queue has finished.
    func waitUntilAllOperationsAreFinished(within bound: Duration) async {
        let isEmpty = EventLog<Void>()
        addBarrierBlock { isEmpty.record(()) }
        await isEmpty.wait(within: bound)
    }
}
