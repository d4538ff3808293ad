// Objects that make operations over time.

/// Makes operations of a manager over time.
///
/// Cancelling only the existing operations would not stop a producer.
protocol Producer: AnyObject, Sendable {
    func cancel()
    /// Cancels the producer if a predicate selects the operation that stands for it.
    func cancel(where isMeant: (AnyRequestOperation) -> Bool)
    /// Called after ``Scheduler/whenSlotsAreFree(_:)``, when a slot is free that no operation wants; on any thread.
    func slotsAreFree()
    /// Called when the number of slots was changed, on any thread.
    func limitHasChanged()
}

extension Producer {
    func cancel(where _: (AnyRequestOperation) -> Bool) {}
    func slotsAreFree() {}
    func limitHasChanged() {}
}

extension Scheduler {
    /// Retains a producer until it ends, so that cancelling all operations cancels the producer too.
    func begin(_ producer: some Producer) {
        producers.withLock { $0[ObjectIdentifier(producer)] = producer }
    }

    func end(_ producer: some Producer) {
        // This line may release the last reference to the producer, which must happen outside the lock.
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

    /// Notifies the producers that the number of slots was changed, because ``readAhead`` depends on that number.
    func limitHasChanged() {
        for producer in producers.withLock({ Array($0.values) }) { producer.limitHasChanged() }
    }

    /// The numbers of unfinished operations at which a producer pauses: usually, and while slots are free.
    var readAhead: (usual: Int, whileSlotsAreFree: Int) { state.withLock { $0.readAhead } }

    /// Whether a producer that has `count` unfinished operations makes another.
    func readsAhead(of count: Int) -> Bool {
        state.withLock { state in
            let (usual, whileSlotsAreFree) = state.readAhead
            return count < usual || count < whileSlotsAreFree && state.hasFreeSlots
        }
    }
}

extension SchedulerState {
    static let minReadAhead = 128

    /// The numbers of unfinished operations at which a producer pauses.
    ///
    /// The usual number is low, so that the memory of the operations stays in the processor's cache. The number is
    /// higher while slots are free. Otherwise operations of a slow host would keep later operations from
    /// free slots.
    var readAhead: (usual: Int, whileSlotsAreFree: Int) {
        let slots = 4 * min(1 << 20, limit)
        return (max(Self.minReadAhead, slots), max(1_024, slots))
    }

    /// Whether a slot is free for an operation that would request one now.
    var hasFreeSlots: Bool { queues.running < slotLimit && !isSuspended && !isQueueSuspended }
}
