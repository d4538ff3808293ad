// Words of changes that may come late, twice and out of order.

/// A value with the number of its last change.
///
/// Its owner counts the changes and tells of each with the number, outside its lock: words may overtake each other. A
/// receiver takes what is newer than what it knows and drops the rest, so that it ends with the value that the owner has, in
/// whatever order the words come.
struct Versioned<Value: Sendable>: Sendable {
    private(set) var value: Value
    /// From 1 with its owner; 0 with a receiver that has been told nothing.
    private(set) var version: UInt32

    init(_ value: Value, version: UInt32 = 0) { (self.value, self.version) = (value, version) }

    /// The owner changes it.
    mutating func change(to value: Value) { (self.value, version) = (value, version &+ 1) }

    /// A receiver is told; false for a word that is late or double.
    mutating func take(_ word: Versioned) -> Bool {
        guard word.version > version else { return false }
        self = word
        return true
    }
}
