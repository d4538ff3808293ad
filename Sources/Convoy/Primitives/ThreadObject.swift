// An object that each thread makes for itself.
import Foundation

/// One object for each thread, made at its first use and released when the thread ends.
struct ThreadObject<Value: AnyObject>: Sendable {
    /// The pthread key of the objects; nil if the process has no key left.
    private let key: pthread_key_t?

    init() {
        var key = pthread_key_t()
        let result = pthread_key_create(&key) { object in
            // The parameter is an optional on Linux only.
            let object: UnsafeMutableRawPointer? = object
            if let object { Unmanaged<AnyObject>.fromOpaque(object).release() }
        }
        self.key = result == 0 ? key : nil
    }

    /// The object of this thread; nil if it cannot be stored.
    func value(_ make: () -> Value) -> Value? {
        guard let key else { return nil }
        if let known = pthread_getspecific(key) { return Unmanaged<Value>.fromOpaque(known).takeUnretainedValue() }
        let made = make()
        let reference = Unmanaged.passRetained(made)
        if pthread_setspecific(key, reference.toOpaque()) == 0 { return made }
        reference.release()
        return nil
    }
}
