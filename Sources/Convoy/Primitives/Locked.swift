// The one lock of the library: a value behind a mutex.
import Foundation

/// A value that is only reached while a lock is held.
///
/// Every use is a leaf: the closure decides and returns what is to be done; the caller does it after the lock has
/// been given back. No callback, KVO pair, task call or second lock ever runs inside ``withLock(_:)``.
///
/// What leaves the closure is `Sendable`: an object whose members belong to the lock is not, and so it cannot be looked at
/// after the lock has been given back.
///
/// The system's mutex and not `Synchronization.Mutex`: the thread sanitizer sees the former and reports false races on the
/// latter. Mutex and value share one allocation, and the value is reached by its address: no check for exclusive access at
/// run time, which the mutex gives anyway.
///
/// - Complexity: O(1), plus what the closure does.
package struct Locked<State>: @unchecked Sendable {
    // @unchecked: the state is touched nowhere but in `withLock`, between lock and unlock.
    private let box: ManagedBuffer<SystemMutex, State>

    package init(_ state: consuming State) {
        box = LockedBox<State>.create(minimumCapacity: 1) { _ in SystemMutex() }
        // The state moves into its place: a closure could only copy it.
        let (mutex, value) = box.withUnsafeMutablePointers { ($0, $1) }
        systemMutexInit(mutex)
        value.initialize(to: state)
    }

    @inline(__always)
    package func withLock<Result: Sendable & ~Copyable, Failure: Error>(
        _ body: (inout State) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try box.withUnsafeMutablePointers { mutex, state throws(Failure) in
            systemMutexLock(mutex)
            defer { systemMutexUnlock(mutex) }
            return try body(&state.pointee)
        }
    }
}

/// The memory of a lock and its value.
private final class LockedBox<State>: ManagedBuffer<SystemMutex, State> {
    deinit {
        withUnsafeMutablePointers { mutex, value in
            value.deinitialize(count: 1)
            systemMutexDestroy(mutex)
        }
    }
}

#if canImport(Darwin)
    private typealias SystemMutex = os_unfair_lock_s

    private func systemMutexInit(_ mutex: UnsafeMutablePointer<SystemMutex>) { mutex.initialize(to: SystemMutex()) }
    private func systemMutexLock(_ mutex: UnsafeMutablePointer<SystemMutex>) { os_unfair_lock_lock(mutex) }
    private func systemMutexUnlock(_ mutex: UnsafeMutablePointer<SystemMutex>) { os_unfair_lock_unlock(mutex) }
    private func systemMutexDestroy(_: UnsafeMutablePointer<SystemMutex>) {}
#else
    private typealias SystemMutex = pthread_mutex_t

    private func systemMutexInit(_ mutex: UnsafeMutablePointer<SystemMutex>) { pthread_mutex_init(mutex, nil) }
    private func systemMutexLock(_ mutex: UnsafeMutablePointer<SystemMutex>) { pthread_mutex_lock(mutex) }
    private func systemMutexUnlock(_ mutex: UnsafeMutablePointer<SystemMutex>) { pthread_mutex_unlock(mutex) }
    private func systemMutexDestroy(_ mutex: UnsafeMutablePointer<SystemMutex>) { pthread_mutex_destroy(mutex) }
#endif
