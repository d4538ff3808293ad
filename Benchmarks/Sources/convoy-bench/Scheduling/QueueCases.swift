// The cases of `queue`: a suspended queue is filled, then drained or cancelled.
import Convoy
import Foundation
import Synchronization

/// A queue to be filled: Convoy's manager or Foundation's queue.
private struct Subject {
    /// Adds an operation, whose callback the ledger counts under the index.
    let add: (_ index: Int, _ ledger: Ledger) -> Void
    let setSuspended: (Bool) -> Void
    let cancelAll: () -> Void
    /// Whether a suspended queue calls the callbacks of cancelled operations.
    let tellsWhileSuspended: Bool
    /// Waits until all operations and callbacks have finished.
    let drain: () async -> Void

    init(_ spec: CaseSpec, expectsCancellation: Bool) throws {
        switch spec.subject {
        case "convoy": self.init(Stub.makeManager(limit: spec.concurrency), expectsCancellation)
        case operationQueueSubject:
            let queue = OperationQueue()
            queue.maxConcurrentOperationCount = spec.concurrency
            self.init(queue)
        default: throw BenchmarkError("there is no subject \(spec.subject)")
        }
    }

    private init(_ manager: RequestManager, _ expectsCancellation: Bool) {
        add = { index, ledger in
            manager.enqueue(Stub.request(index)) { result in
                switch result {
                case .success: ledger.count(index, expectsCancellation ? "it was not cancelled" : nil)
                case .failure(let error):
                    ledger.count(index, expectsCancellation && error.code == .cancelled ? nil : "\(error)")
                }
            }
        }
        setSuspended = { manager.isSuspended = $0 }
        cancelAll = { manager.cancelAll() }
        tellsWhileSuspended = true
        drain = { await manager.drain() }
    }

    private init(_ queue: OperationQueue) {
        add = { index, ledger in queue.addOperation(NoOpOperation { ledger.count(index, nil) }) }
        setSuspended = { queue.isSuspended = $0 }
        cancelAll = { queue.cancelAllOperations() }
        tellsWhileSuspended = false
        drain = {
            await withCheckedContinuation { continuation in queue.addBarrierBlock { continuation.resume() } }
        }
    }
}

/// Counts the callbacks of each operation; exactly one is correct.
private final class Ledger: Sendable {
    let tally = Tally()
    private let counts: Mutex<[UInt8]>

    init(_ count: Int) { counts = Mutex([UInt8](repeating: 0, count: count)) }

    func count(_ index: Int, _ error: String?) {
        counts.withLock { $0[index] &+= 1 }
        tally.add(error)
    }

    /// Records an error for every operation that was not called back exactly once.
    func check() {
        for (index, count) in counts.withLock({ $0 }).enumerated() where count != 1 {
            tally.note("operation \(index) was called back \(count) times")
        }
    }
}

/// Fills a suspended queue, then resumes it and waits for the last callback.
func measureQueue(_ spec: CaseSpec) async throws -> [Measurement] {
    let subject = try Subject(spec, expectsCancellation: false)
    let ledger = Ledger(spec.count)
    subject.setSuspended(true)
    // The first operation creates the objects that all operations share, so it is not measured.
    let first = Ledger(1)
    subject.add(0, first)
    let (heap, resident) = (Memory.heapBytes, Memory.residentBytes)

    let enqueueWatch = Stopwatch()
    for index in 0..<spec.count { subject.add(index, ledger) }
    var enqueue = Measurement("queue-enqueue", spec.subject, count: spec.count, concurrency: spec.concurrency)
    enqueue.add(enqueueWatch.read())
    enqueue.bytesPerOperation = perOperation(from: heap, to: Memory.heapBytes, spec.count)
    enqueue.rssBytesPerOperation = perOperation(from: resident, to: Memory.residentBytes, spec.count)

    let drainWatch = Stopwatch()
    subject.setSuspended(false)
    await ledger.tally.reached(spec.count)
    var drain = Measurement("queue-drain", spec.subject, count: spec.count, concurrency: spec.concurrency)
    drain.add(drainWatch.read())
    await subject.drain()
    ledger.check()
    drain.add(ledger.tally)
    return [enqueue, drain]
}

/// Fills a suspended queue, then cancels all operations.
func measureQueueCancel(_ spec: CaseSpec) async throws -> [Measurement] {
    let subject = try Subject(spec, expectsCancellation: true)
    let ledger = Ledger(spec.count)
    subject.setSuspended(true)
    for index in 0..<spec.count { subject.add(index, ledger) }

    let watch = Stopwatch()
    subject.cancelAll()
    let call = watch.read()
    if !subject.tellsWhileSuspended { subject.setSuspended(false) }
    await ledger.tally.reached(spec.count)
    var last = Measurement("queue-cancel", spec.subject, count: spec.count, concurrency: spec.concurrency)
    last.add(watch.read())
    // After the drain, the ledger has counted any second callback of an operation.
    subject.setSuspended(false)
    await subject.drain()
    ledger.check()
    last.add(ledger.tally)
    var returned = Measurement("queue-cancel-call", spec.subject, count: spec.count, concurrency: spec.concurrency)
    returned.add(call)
    return [last, returned]
}

private func perOperation(from start: Int?, to end: Int?, _ count: Int) -> Double? {
    guard let start, let end else { return nil }
    return Double(end - start) / Double(count)
}
