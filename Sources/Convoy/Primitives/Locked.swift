// The lock of the library: a value guarded by a mutex.
import Foundation

// A leaf lock: the closure of ``withLock(_:)`` returns what to do, and the caller does it after the lock is released.
// No callback, KVO notification, task call or second lock runs inside the closure. Its result is `Sendable`; an object
// that the lock guards is not, so it cannot be used after the lock is released. The thread sanitizer reports false
// races with `Synchronization.Mutex`, so this is the system's mutex. Mutex and value share one allocation. The value is
// accessed by its address, which avoids run-time exclusivity checks that the mutex makes redundant.
package struct Locked<State: ~Copyable>: @unchecked Sendable {
    // @unchecked: only `withLock` touches the state, between lock and unlock.
    private let box: ManagedBuffer<SystemMutex, State>

    package init(_ state: @autoclosure () -> State) {
        box = LockedBox<State>.create(minimumCapacity: 1) { _ in SystemMutex() }
        // The value is made in its final memory. A parameter would be copied field by field.
        let (mutex, value) = box.withUnsafeMutablePointers { ($0, $1) }
        systemMutexInit(mutex)
        value.initialize(to: state())
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

private final class LockedBox<State: ~Copyable>: ManagedBuffer<SystemMutex, State> {
    deinit {
        withUnsafeMutablePointers { mutex, value in
            _ = value.deinitialize(count: 1)
            #if !canImport(Darwin)
                pthread_mutex_destroy(mutex)
            #endif
        }
    }
}

#if canImport(Darwin)
    private typealias SystemMutex = os_unfair_lock_s

    private func systemMutexInit(_ mutex: UnsafeMutablePointer<SystemMutex>) { mutex.initialize(to: SystemMutex()) }
    private func systemMutexLock(_ mutex: UnsafeMutablePointer<SystemMutex>) { os_unfair_lock_lock(mutex) }
    private func systemMutexUnlock(_ mutex: UnsafeMutablePointer<SystemMutex>) { os_unfair_lock_unlock(mutex) }
#else
    private typealias SystemMutex = pthread_mutex_t

    private func systemMutexInit(_ mutex: UnsafeMutablePointer<SystemMutex>) {
        // A section is shorter than a change of threads, so a thread spins for a moment before it sleeps: 3 to 8 % less
        // time for 32 requests at once. 3 is PTHREAD_MUTEX_ADAPTIVE_NP of glibc; elsewhere the call has no effect.
        var attributes = pthread_mutexattr_t()
        pthread_mutexattr_init(&attributes)
        pthread_mutexattr_settype(&attributes, 3)
        pthread_mutex_init(mutex, &attributes)
        pthread_mutexattr_destroy(&attributes)
    }
    private func systemMutexLock(_ mutex: UnsafeMutablePointer<SystemMutex>) { pthread_mutex_lock(mutex) }
    private func systemMutexUnlock(_ mutex: UnsafeMutablePointer<SystemMutex>) { pthread_mutex_unlock(mutex) }
#endif
