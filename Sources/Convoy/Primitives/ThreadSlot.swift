// An object that each thread sets for itself.
import Foundation

/// One reference for each thread, nil at first.
///
/// The slot does not retain the object. Access by a pthread key takes a few nanoseconds, by the thread dictionary a
/// hundred.
struct ThreadSlot<Value: AnyObject>: Sendable {
    /// Nil if the process has no key left.
    ///
    /// Then no thread has an object.
    private let key: pthread_key_t?

    init() {
        var key = pthread_key_t()
        self.key = pthread_key_create(&key, nil) == 0 ? key : nil
    }

    /// The object of this thread.
    var value: Value? {
        guard let key, let pointer = pthread_getspecific(key) else { return nil }
        return Unmanaged<Value>.fromOpaque(pointer).takeUnretainedValue()
    }

    /// Sets the object of this thread while the body runs, then restores the previous one.
    func with<Result>(_ value: Value, _ body: () -> Result) -> Result {
        guard let key else { return body() }
        let outer = pthread_getspecific(key)
        pthread_setspecific(key, Unmanaged.passUnretained(value).toOpaque())
        defer { pthread_setspecific(key, outer) }
        return body()
    }
}
