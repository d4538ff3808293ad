// What makes operations as it goes on.

/// Something that makes operations of a manager one after the other, and would make more when those there are were cancelled.
protocol Producer: AnyObject, Sendable {
    func cancel()
}

extension Scheduler {
    /// Keeps a producer until it ends: what cancels everything cancels it too.
    func begin(_ producer: some Producer) {
        producers.withLock { $0[ObjectIdentifier(producer)] = producer }
    }

    func end(_ producer: some Producer) {
        // Its last reference goes outside the lock.
        _ = producers.withLock { $0.removeValue(forKey: ObjectIdentifier(producer)) }
    }
}
