import Foundation
import Testing

/// Records events, and lets a test wait for a number of events.
package final class EventLog<Event: Sendable>: @unchecked Sendable {
    // @unchecked: `lock` guards all properties.
    private struct Waiter {
        let count: Int
        let continuation: CheckedContinuation<Bool, Never>
    }

    private let lock = NSLock()
    private var recorded: [Event] = []
    private var waiters: [Int: Waiter] = [:]
    private var lastWaiter = 0

    package init() {}

    package var events: [Event] { lock.withLock { recorded } }
    package var count: Int { lock.withLock { recorded.count } }

    package func record(_ event: Event) { _ = number(event) }

    /// Records an event, and returns its number, from 1.
    package func number(_ event: Event) -> Int {
        let (count, due): (Int, [Waiter]) = lock.withLock {
            recorded.append(event)
            let due = waiters.filter { $0.value.count <= recorded.count }
            for identity in due.keys { waiters[identity] = nil }
            return (recorded.count, Array(due.values))
        }
        for waiter in due { waiter.continuation.resume(returning: true) }
        return count
    }

    /// Waits until this number of events was recorded; an issue after `bound`.
    @discardableResult
    package func wait(
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

/// Objects that must have been released: a leak check.
package final class LeakCheck: @unchecked Sendable {
    // @unchecked: one test at a time uses it, and a lock guards the references.
    private struct Weak {
        weak var object: AnyObject?
    }

    private let lock = NSLock()
    private var objects: [Weak] = []

    package init() {}

    package func watch<Object: AnyObject>(_ object: Object) -> Object {
        lock.withLock { objects.append(Weak(object: object)) }
        return object
    }

    package var watchedCount: Int { lock.withLock { objects.count } }
    package var aliveCount: Int { lock.withLock { objects.count { $0.object != nil } } }

    /// Waits until all watched objects are released.
    ///
    /// A queue may still release objects in its current turn.
    package func expectAllGone(_ label: String = "", sourceLocation: SourceLocation = #_sourceLocation) async {
        let areGone = await turns(within: .seconds(120)) { aliveCount == 0 }
        #expect(areGone, "\(aliveCount) of \(watchedCount) objects are left \(label)", sourceLocation: sourceLocation)
    }
}

/// Checks a condition, which no event announces, until it is true; records an issue after `bound`.
package func look(
    within bound: Duration = .seconds(120), sourceLocation: SourceLocation = #_sourceLocation,
    until isTrue: () async throws -> Bool
) async rethrows {
    guard try await !turns(within: bound, until: isTrue) else { return }
    Issue.record("the condition was not true within \(bound)", sourceLocation: sourceLocation)
}

/// Checks a condition until it is true or the time is over, and returns whether it was true.
package func turns(within bound: Duration, until isTrue: () async throws -> Bool) async rethrows -> Bool {
    let deadline = ContinuousClock.now + bound
    var count = 0
    while try await !isTrue() {
        guard .now < deadline else { return false }
        await nextLook(&count)
    }
    return true
}

/// Waits a moment: after 100 turns a millisecond, because spinning would slow down the awaited code.
private func nextLook(_ count: inout Int) async {
    count += 1
    if count < 100 { return await Task.yield() }
    await withCheckedContinuation { continuation in
        DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(1)) { continuation.resume() }
    }
}

/// Runs long or blocking work on its own thread.
///
/// The concurrency pool has only as many threads as cores, and other tests need them.
package func offPool<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
    await withCheckedContinuation { continuation in
        Thread.detachNewThread { continuation.resume(returning: body()) }
    }
}

package func offPool<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread { continuation.resume(with: Result(catching: body)) }
    }
}
