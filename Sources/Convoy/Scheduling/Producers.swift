// Objects that make operations over time.

/// Makes operations of a manager over time.
///
/// It would make more if only the existing ones were cancelled.
protocol Producer: AnyObject, Sendable {
    func cancel()
}

extension Scheduler {
    /// Retains a producer until it ends, so that cancelling everything cancels it too.
    func begin(_ producer: some Producer) {
        producers.withLock { $0[ObjectIdentifier(producer)] = producer }
    }

    func end(_ producer: some Producer) {
        // Its last reference may be released, which happens outside the lock.
        _ = producers.withLock { $0.removeValue(forKey: ObjectIdentifier(producer)) }
    }
}
