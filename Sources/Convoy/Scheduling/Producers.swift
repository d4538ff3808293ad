// Objects that make operations over time.

/// Makes operations of a manager over time.
///
/// It would make more if only the existing ones were cancelled.
protocol Producer: AnyObject, Sendable {
    func cancel()
    /// Called once after ``Scheduler/whenSlotsAreFree(_:)``, on any thread.
    func slotsAreFree()
}

extension Producer {
    func slotsAreFree() {}
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

    /// Notifies a producer once a slot is free that no operation wants; at once if one is free now.
    func whenSlotsAreFree(_ producer: some Producer) {
        let areFree = state.withLock { state in
            if !state.hasFreeSlots { state.slotWaiters.insert(ObjectIdentifier(producer)) }
            return state.hasFreeSlots
        }
        if areFree { producer.slotsAreFree() }
    }
}

extension SchedulerState {
    var hasFreeSlots: Bool { queues.running < slotLimit }

    /// The producers to notify when no operation wants a slot.
    mutating func takeSlotWaiters() -> Set<ObjectIdentifier> {
        guard !slotWaiters.isEmpty, hasFreeSlots else { return [] }
        defer { slotWaiters = [] }
        return slotWaiters
    }
}
