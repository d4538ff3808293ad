// What a batch knows of its members: a value, without lock.

/// A member of a batch: its place in the source, or among those that were added.
///
/// Those of the source come first.
enum BatchMember: Hashable, Comparable, Sendable {
    case source(Int)
    case added(Int)
}

/// The state of a batch.
struct BatchState<Output: Sendable> {
    typealias Result = RequestOperation<Output>.Result

    /// Up to how many announced requests get a result though they were never taken: a lazy collection may announce more
    /// than there is memory for.
    private static var mostListed: Int { 1 << 22 }

    private let keepsResults: Bool
    private var sourceResults: [Result?] = []
    private var addedResults: [Result?] = []
    /// How many the source has given, or would have: each has its place there as its index.
    private var sourceCount = 0
    private var addedCount = 0
    /// How many the source announced.
    private var announced: Int?
    private(set) var sourceHasEnded = false

    var running: [BatchMember: RequestOperation<Output>] = [:]
    /// Members that have an index and are being made ready.
    private var beginning = 0
    private(set) var meter = BatchMeter()
    /// Takes from the source.
    var pulling: Task<Void, Never>?
    private(set) var isStopped = false
    private(set) var isFinished = false
    /// Waits for room for another from the source; resumed with whether more are wanted.
    var room: CheckedContinuation<Bool, Never>?
    var waiters: [CheckedContinuation<Void, Never>] = []
    /// Whether progress was asked for: until then only the end is told.
    var isWatched = false
    /// The progress to be told; only the latest counts.
    var pending: BatchProgress?
    private var isTelling = false

    /// Progress that is to be told, and whether it is the last.
    typealias Telling = (progress: BatchProgress, isLast: Bool)

    /// What is to be told now; nil when there is nothing, or another thread tells it.
    mutating func beginTelling() -> Telling? { isTelling ? nil : goOnTelling() }

    /// What has come meanwhile; nil when there is nothing more to tell.
    mutating func goOnTelling() -> Telling? {
        defer { pending = nil }
        isTelling = pending != nil && (isWatched || isFinished)
        guard isTelling else { return nil }
        return pending.map { ($0, isFinished) }
    }

    init(announced: Int?, keepsResults: Bool) {
        // A lazy collection may announce as many as there are numbers: no sum with it overflows.
        self.announced = announced.map { min($0, .max / 2) }
        self.keepsResults = keepsResults
        expect()
    }

    /// The results of the source in its order, then those of what was added in its own.
    var results: [Result] {
        guard keepsResults else { return [] }
        return filled(sourceResults, sourceCount) + filled(addedResults, addedCount)
    }

    /// The result of something that was added; nil when there is no such thing, or none is kept.
    func result(ofAdded number: Int) -> Result? {
        addedResults.indices.contains(number) ? addedResults[number] : nil
    }

    /// Each place has a result, also that of a member that was never made.
    private func filled(_ results: [Result?], _ count: Int) -> [Result] {
        // One for all: there may be a million.
        let stopped = Result.failure(RequestError(.cancelled, "its batch was stopped before it was its turn"))
        return (0..<count).map { (results.indices.contains($0) ? results[$0] : nil) ?? stopped }
    }

    /// Takes a request; nil when no more are wanted.
    mutating func begin(isFromSource: Bool) -> BatchMember? {
        guard !isStopped, !isFinished else { return nil }
        beginning += 1
        let member = isFromSource ? BatchMember.source(sourceCount) : .added(addedCount)
        if isFromSource { sourceCount += 1 } else { addedCount += 1 }
        expect()
        meter.start(member)
        return member
    }

    /// The member can be cancelled from now on; the result is whether it has to be.
    mutating func run(_ member: BatchMember, _ operation: RequestOperation<Output>) -> Bool {
        beginning -= 1
        running[member] = operation
        return isStopped
    }

    mutating func move(_ member: BatchMember, _ transfer: TransferProgress, at now: ContinuousClock.Instant) {
        meter.move(member, transfer, at: now)
        pending = meter.progress
    }

    mutating func settle(_ member: BatchMember, _ result: Result) {
        running[member] = nil
        let isSuccess = if case .success = result { true } else { false }
        meter.finish(member, isSuccess: isSuccess)
        pending = meter.progress
        guard keepsResults else { return }
        switch member {
        case .source(let index): sourceResults.put(result, at: index)
        case .added(let number): addedResults.put(result, at: number)
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
            settle(.source(sourceCount - 1), .failure(error))
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
        guard sourceHasEnded, running.isEmpty, beginning == 0, !isFinished else { return nil }
        isFinished = true
        pending = meter.progress
        defer { waiters = [] }
        return waiters
    }
}

extension Array {
    /// Sets an element; the places before it are there from then on.
    fileprivate mutating func put<Value>(_ value: Value, at index: Int) where Element == Value? {
        while count <= index { append(nil) }
        self[index] = value
    }
}
