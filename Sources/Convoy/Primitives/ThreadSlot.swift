// An object that each thread sets for itself.
import Foundation

/// One reference for each thread, nil at first.
///
/// Reading a pthread key takes a few nanoseconds, reading the thread dictionary about a hundred.
struct ThreadSlot<Value: AnyObject>: Sendable {
    /// The pthread key of the references; nil if the process has no key left.
    ///
    /// If nil, the references are in the threads' dictionaries.
    private let key: pthread_key_t?
    private let name = "convoy.\(UUID().uuidString)"

    init(key: pthread_key_t? = ThreadSlot.makeKey()) { self.key = key }

    private static func makeKey() -> pthread_key_t? {
        var key = pthread_key_t()
        return pthread_key_create(&key, nil) == 0 ? key : nil
    }

    /// The object of this thread.
    var value: Value? {
        guard let key else { return Thread.current.threadDictionary[name] as? Value }
        return pthread_getspecific(key).map { Unmanaged<Value>.fromOpaque($0).takeUnretainedValue() }
    }

    /// Sets the object of this thread while the body runs, then restores the previous one.
    func with<Result>(_ value: Value, _ body: () -> Result) -> Result {
        guard let key else {
            let outer = self.value
            Thread.current.threadDictionary[name] = value
            defer { Thread.current.threadDictionary[name] = outer }
            return body()
        }
        let outer = pthread_getspecific(key)
        pthread_setspecific(key, Unmanaged.passUnretained(value).toOpaque())
        defer { pthread_setspecific(key, outer) }
        return body()
    }
}
