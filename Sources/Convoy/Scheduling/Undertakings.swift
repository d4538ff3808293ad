// What makes operations as it goes on.

/// Something that makes operations of a manager one after the other, and would make more when those there are were cancelled.
protocol Undertaking: AnyObject, Sendable {
    func cancel()
}

extension Scheduler {
    /// Keeps an undertaking until it ends: what cancels everything cancels it too.
    func begin(_ undertaking: some Undertaking) {
        undertakings.withLock { $0[ObjectIdentifier(undertaking)] = undertaking }
    }

    func end(_ undertaking: some Undertaking) {
        // Its last reference goes outside the lock.
        _ = undertakings.withLock { $0.removeValue(forKey: ObjectIdentifier(undertaking)) }
    }
}
