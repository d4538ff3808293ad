// What a batch knows of its members: a value, without lock.

/// A member of a batch that has not finished.
struct BatchMember: Hashable, Sendable {
    /// Its place among the results; those of the source come first.
    enum Place: Hashable, Comparable, Sendable {
        case source(Int)
        case added(Int)
    }

    let place: Place
    /// Where ``BatchState/running`` has it, until it finishes.
    let slot: Int
}

/// The state of a batch, whatever its output.
struct BatchState {
    /// Up to how many announced requests get a result though they were never taken: a lazy collection may announce more
    /// than there is memory for.
    private static let mostListed = 1 << 22

    /// A member, and its operation once that can be cancelled.
    struct Running {
        let member: BatchMember
        var operation: AnyRequestOperation?
    }

    private let keepsResults: Bool
    private var sourceOutcomes: [AnyOutcome?] = []
    private var addedOutcomes: [AnyOutcome?] = []
    /// How many the source has given, or would have: each has its place there as its index.
    private var sourceCount = 0
    private var addedCount = 0
    /// How many the source announced.
    private var announced: Int?
    private(set) var sourceHasEnded = false

    /// The members by slot; nil in a slot that is free.
    private(set) var running: [Running?] = []
    private var freeSlots: [Int] = []
    private(set) var meter = BatchMeter()
    /// Takes from the source.
    var pulling: Task<Void, Never>?
    private(set) var isStopped = false
    private(set) var isFinished = false
    /// Waits for room for another from the source; resumed with whether more are wanted.
    var room: CheckedContinuation<Bool, Never>?
    var waiters: [CheckedContinuation<Void, Never>] = []
    /// Whether progress has readers: before that, members report none.
    var isWatched = false
    /// The progress to send; only the latest counts.
    private var pending: BatchProgress?
    private var isSending = false

    /// Progress to send, and whether it is the last.
    typealias Sending = (progress: BatchProgress, isLast: Bool)

    init(announced: Int?, keepsResults: Bool) {
        // A lazy collection may announce as many as there are numbers: no sum with it overflows.
        self.announced = announced.map { min($0, .max / 2) }
        self.keepsResults = keepsResults
        expect()
    }

    var runningCount: Int { running.count - freeSlots.count }

    /// What is to be sent now; nil when there is nothing, or another thread sends it.
    mutating func beginSending() -> Sending? { isSending ? nil : nextSending() }

    /// What has been noted meanwhile; nil when there is nothing more to send.
    mutating func nextSending() -> Sending? {
        defer { pending = nil }
        isSending = pending != nil && (isWatched || isFinished)
        guard isSending else { return nil }
        return pending.map { ($0, isFinished) }
    }

    /// The outcomes of the source in its order, then those of what was added in its own; nil for a member that was
    /// never made.
    var outcomes: [AnyOutcome?] {
        guard keepsResults else { return [] }
        return filled(sourceOutcomes, sourceCount) + filled(addedOutcomes, addedCount)
    }

    private func filled(_ outcomes: [AnyOutcome?], _ count: Int) -> [AnyOutcome?] {
        outcomes + [AnyOutcome?](repeating: nil, count: max(0, count - outcomes.count))
    }

    /// The outcome of something that was added; nil for an unknown number, or when none is kept.
    func outcome(ofAdded number: Int) -> AnyOutcome? {
        addedOutcomes.indices.contains(number) ? addedOutcomes[number] : nil
    }

    /// Takes a request; nil when no more are wanted.
    mutating func begin(isFromSource: Bool) -> BatchMember? {
        guard !isStopped, !isFinished else { return nil }
        let place = isFromSource ? BatchMember.Place.source(sourceCount) : .added(addedCount)
        if isFromSource { sourceCount += 1 } else { addedCount += 1 }
        expect()
        let member = BatchMember(place: place, slot: freeSlots.popLast() ?? running.count)
        if member.slot == running.count { running.append(nil) }
        running[member.slot] = Running(member: member)
        meter.start(member.slot)
        return member
    }

    /// The member can be cancelled from now on; the result is whether it has to be.
    mutating func run(_ member: BatchMember, _ operation: AnyRequestOperation) -> Bool {
        running[member.slot]?.operation = operation
        return isStopped
    }

    /// The operations that can be cancelled, in the order of their places.
    var operations: [AnyRequestOperation] {
        running.compactMap { $0 }.sorted { $0.member.place < $1.member.place }.compactMap(\.operation)
    }

    /// - Parameter now: nil where no rate is measured.
    mutating func move(_ member: BatchMember, _ transfer: TransferProgress, at now: ContinuousClock.Instant?) {
        guard running[member.slot]?.member == member else { return }
        meter.move(member.slot, transfer, at: now)
        pending = meter.progress
    }

    /// How far the batch is, for a look.
    mutating func progress(at now: ContinuousClock.Instant) -> BatchProgress {
        if !isWatched, !isFinished { meter.measure(at: now) }
        return meter.progress
    }

    /// A member has finished.
    ///
    /// - Parameter transfer: how far it came, where that is known.
    mutating func finish(_ member: BatchMember, _ outcome: AnyOutcome, _ transfer: TransferProgress?) {
        if let transfer { meter.move(member.slot, transfer, at: nil) }
        running[member.slot] = nil
        freeSlots.append(member.slot)
        meter.finish(member.slot, isSuccess: outcome.error == nil)
        keep(outcome, at: member.place)
    }

    private mutating func keep(_ outcome: AnyOutcome, at place: BatchMember.Place) {
        pending = meter.progress
        guard keepsResults else { return }
        switch place {
        case .source(let index): sourceOutcomes.put(outcome, at: index)
        case .added(let number): addedOutcomes.put(outcome, at: number)
        }
    }

    /// Takes no more; what was announced and never taken was cancelled with the rest, where that can be listed.
    mutating func stop() {
        isStopped = true
        guard !sourceHasEnded else { return }
        if let announced, announced > sourceCount, announced <= Self.mostListed {
            meter.skip(announced - sourceCount)
            sourceCount = announced
        }
        endSource()
    }

    /// The source gives no more; an error of its own is its last result.
    mutating func endSource(_ error: RequestError? = nil) {
        if let error {
            sourceCount += 1
            meter.finish(nil, isSuccess: false)
            keep(AnyOutcome(error: error), at: .source(sourceCount - 1))
        }
        sourceHasEnded = true
        (pulling, announced) = (nil, nil)
        expect()
        pending = meter.progress
    }

    /// How many members there will be, as far as known.
    private mutating func expect() {
        let total = sourceHasEnded ? sourceCount : announced.map { max($0, sourceCount) }
        meter.expect(total.map { $0 + addedCount })
    }

    /// Finishes once: when the source has ended and no member is left.
    ///
    /// The result is what waited; nil when it has not finished now.
    mutating func takeFinish() -> [CheckedContinuation<Void, Never>]? {
        guard sourceHasEnded, runningCount == 0, !isFinished else { return nil }
        isFinished = true
        pending = meter.progress
        defer { waiters = [] }
        return waiters
    }
}

extension Array {
    /// Sets an element; the array is filled up to it with nil.
    fileprivate mutating func put<Value>(_ value: Value, at index: Int) where Element == Value? {
        while count <= index { append(nil) }
        self[index] = value
    }
}
