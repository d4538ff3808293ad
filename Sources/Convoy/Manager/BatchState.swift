// The state of a batch: a value without a lock.

/// A member of a batch that has not finished.
struct BatchMember: Hashable, Sendable {
    /// The index of a member among the results.
    ///
    /// The members of the source come first.
    enum Place: Hashable, Comparable, Sendable {
        case source(Int)
        case added(Int)
    }

    let place: Place
    /// The index in ``BatchState/running`` until the member finishes.
    let index: Int
}

/// The state of a batch, whatever its output.
struct BatchState {
    /// The maximum number of announced requests that all get results, even those that a cancelled batch did not pull.
    ///
    /// A lazy collection may announce more requests than memory can hold. In that case only pulled requests get
    /// results.
    private static let mostListed = 1 << 22

    /// A member, and its operation once the operation can be cancelled.
    struct Running {
        let member: BatchMember
        var operation: AnyRequestOperation?
    }

    private let keepsResults: Bool
    private var sourceOutcomes: [AnyOutcome?] = []
    private var addedOutcomes: [AnyOutcome?] = []
    /// The number of results of the source, including announced requests of a stopped batch and the source's error.
    private var sourceCount = 0
    private var addedCount = 0
    /// The number of requests that the source announced.
    private var announced: Int?
    private(set) var sourceHasEnded = false

    /// The running members, each at its ``BatchMember/index``; nil at an unused index.
    private(set) var running: [Running?] = []
    private var freeIndices: [Int] = []
    private(set) var meter = BatchMeter()
    /// The task that pulls requests from the source.
    var pulling: Task<Void, Never>?
    private(set) var isStopped = false
    private(set) var isFinished = false
    /// The continuation of the task that reads the source, while it waits until it may pull another request.
    ///
    /// Its result is whether the batch accepts more requests.
    var room: CheckedContinuation<Bool, Never>?
    /// The numbers of unfinished members at which the task in ``room`` resumes.
    ///
    /// At `roomAt` or fewer, the task resumes at once. At `wideRoomAt`, it resumes when the manager has a slot that
    /// no operation wants.
    var (roomAt, wideRoomAt) = (0, 0)
    var waiters: [CheckedContinuation<Void, Never>] = []
    /// Whether the batch's progress has readers.
    ///
    /// Without readers, members report no progress.
    var isWatched = false
    /// The latest progress that has not been sent.
    private var pending: BatchProgress?
    private var isSending = false

    /// A progress to send, and whether it is the last.
    typealias Sending = (progress: BatchProgress, isLast: Bool)

    init(announced: Int?, keepsResults: Bool) {
        // A lazy collection may announce up to `Int.max`. Half of that cannot overflow in a sum.
        self.announced = announced.map { min($0, .max / 2) }
        self.keepsResults = keepsResults
        expect()
    }

    /// Removes and returns the continuation in `room`.
    mutating func takeRoom() -> CheckedContinuation<Bool, Never>? {
        defer { room = nil }
        return room
    }

    var runningCount: Int { running.count - freeIndices.count }

    /// The progress to send now; nil when there is none, or when another thread is sending.
    mutating func beginSending() -> Sending? { isSending ? nil : nextSending() }

    /// The progress recorded since the last value was sent; nil when there is nothing more to send.
    mutating func nextSending() -> Sending? {
        defer { pending = nil }
        isSending = pending != nil && (isWatched || isFinished)
        guard isSending else { return nil }
        return pending.map { ($0, isFinished) }
    }

    /// The outcomes of the source in its order, then those of added requests.
    ///
    /// Nil for a member that was never made.
    var outcomes: [AnyOutcome?] {
        guard keepsResults else { return [] }
        return filled(sourceOutcomes, sourceCount) + filled(addedOutcomes, addedCount)
    }

    private func filled(_ outcomes: [AnyOutcome?], _ count: Int) -> [AnyOutcome?] {
        outcomes + [AnyOutcome?](repeating: nil, count: max(0, count - outcomes.count))
    }

    /// The outcome of an added request; nil for an unknown number, or when results are not stored.
    func outcome(ofAdded number: Int) -> AnyOutcome? {
        addedOutcomes.indices.contains(number) ? addedOutcomes[number] : nil
    }

    /// Accepts a request as a member; nil when the batch accepts no more.
    mutating func begin(isFromSource: Bool) -> BatchMember? {
        guard !isStopped, !isFinished else { return nil }
        let place = isFromSource ? BatchMember.Place.source(sourceCount) : .added(addedCount)
        if isFromSource { sourceCount += 1 } else { addedCount += 1 }
        expect()
        let member = BatchMember(place: place, index: freeIndices.popLast() ?? running.count)
        if member.index == running.count { running.append(nil) }
        running[member.index] = Running(member: member)
        meter.start(member.index)
        return member
    }

    /// Stores the member's operation, so that it can be cancelled.
    ///
    /// Returns whether the operation has to be cancelled at once.
    mutating func run(_ member: BatchMember, _ operation: AnyRequestOperation) -> Bool {
        running[member.index]?.operation = operation
        return isStopped
    }

    /// The operations that can be cancelled, in the order of the results.
    var operations: [AnyRequestOperation] {
        running.compactMap { $0 }.sorted { $0.member.place < $1.member.place }.compactMap(\.operation)
    }

    /// - Parameter now: nil when no rate is measured.
    mutating func move(_ member: BatchMember, _ transfer: TransferProgress, at now: ContinuousClock.Instant?) {
        guard running[member.index]?.member == member else { return }
        meter.move(member.index, transfer, at: now)
        pending = meter.progress
    }

    /// The current progress.
    ///
    /// Once the progress has a reader, each report of a member measures the rates. Before that, this method does.
    mutating func progress(at now: ContinuousClock.Instant) -> BatchProgress {
        if !isWatched, !isFinished { meter.measure(at: now) }
        return meter.progress
    }

    /// Records that a member has finished.
    ///
    /// - Parameter transfer: the member's progress, if known.
    mutating func finish(_ member: BatchMember, _ outcome: AnyOutcome, _ transfer: TransferProgress?) {
        if let transfer { meter.move(member.index, transfer, at: nil) }
        running[member.index] = nil
        freeIndices.append(member.index)
        meter.finish(member.index, isSuccess: outcome.error == nil)
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

    /// Stops the batch, which then accepts no more members.
    ///
    /// Announced requests that were never pulled count as cancelled, unless the source announced more than
    /// ``mostListed``.
    mutating func stop() {
        isStopped = true
        guard !sourceHasEnded else { return }
        if let announced, announced > sourceCount, announced <= Self.mostListed {
            meter.skip(announced - sourceCount)
            sourceCount = announced
        }
        endSource()
    }

    /// Records the end of the source.
    ///
    /// An error of the source is its last result.
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

    /// Updates the expected number of members.
    private mutating func expect() {
        let total = sourceHasEnded ? sourceCount : announced.map { max($0, sourceCount) }
        meter.expect(total.map { $0 + addedCount })
    }

    /// Finishes the batch once the source has ended and no member is left.
    ///
    /// Returns the waiting tasks; nil unless the batch finishes with this call.
    mutating func takeFinish() -> [CheckedContinuation<Void, Never>]? {
        guard sourceHasEnded, runningCount == 0, !isFinished else { return nil }
        isFinished = true
        meter.complete()
        pending = meter.progress
        defer { waiters = [] }
        return waiters
    }
}

extension Array {
    /// Sets an element, after padding the array with nil up to its index.
    fileprivate mutating func put<Value>(_ value: Value, at index: Int) where Element == Value? {
        while count <= index { append(nil) }
        self[index] = value
    }
}
