// Values whose change notifications may arrive late, twice and out of order.

/// A value with the number of its last change.
///
/// The owner of the value numbers the changes and sends each notification outside its lock, so notifications may
/// overtake each other. A receiver accepts only versions newer than its own. The receiver therefore ends with the
/// owner's value, in any order of arrival.
struct Versioned<Value: Sendable>: Sendable {
    private(set) var value: Value
    /// The owner counts from 1; a receiver starts with 0.
    private(set) var version: UInt32

    init(_ value: Value, version: UInt32 = 0) { (self.value, self.version) = (value, version) }

    /// Changes the value and increments its version; called by the owner.
    mutating func change(to value: Value) { (self.value, version) = (value, version &+ 1) }

    /// Stores a value with a newer version; called by a receiver.
    mutating func take(_ word: Versioned) -> Bool {
        guard word.version > version else { return false }
        self = word
        return true
    }
}
