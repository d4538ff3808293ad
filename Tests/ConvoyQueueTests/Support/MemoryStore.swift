// The rules of a store in their shortest form. The conformance suite also runs with this store.
import Convoy
import ConvoyTesting
import Foundation

@testable import ConvoyQueue

/// The state that several instances share.
final class MemoryDatabase: Sendable {
    struct Entry {
        /// The record, in an array of one element, so that copying the database copies no record.
        private var records: [JobRecord]
        /// The moment from which the job may be sent again.
        var due: ContinuousClock.Instant?
        /// The date that delays the job until it is first claimed.
        var notBefore: Date?
        var finished: ContinuousClock.Instant?

        init(record: JobRecord, due: ContinuousClock.Instant? = nil, notBefore: Date? = nil) {
            (records, self.due, self.notBefore) = ([record], due, notBefore)
        }

        var record: JobRecord {
            _read { yield records[0] }
            _modify { yield &records[0] }
        }

        var isUnfinished: Bool { !record.state.isFinished }

        /// Whether other jobs can delay this job.
        var isRuled: Bool {
            !record.job.dependencies.isEmpty || record.job.group != nil || record.job.uniqueness != nil
        }
    }

    struct State {
        var entries: [String: Entry] = [:]
        var lastPosition: Int64 = 0
        var leases: [String: ContinuousClock.Instant] = [:]
        var listeners: [AsyncStream<Void>.Continuation] = []

        func ordered(where isMeant: (Entry) -> Bool) -> [Entry] {
            entries.values.filter(isMeant).sorted { $0.record.position < $1.record.position }
        }
    }

    let state = Locked(State())
}

/// A store without a disk: one instance.
final class MemoryStore: Store {
    let owner = UUID().uuidString
    let pollInterval: Duration? = nil
    private let database: MemoryDatabase
    private let clock: any RequestClock

    init(_ database: MemoryDatabase, clock: any RequestClock) {
        self.database = database
        self.clock = clock
    }

    private func change<Result: Sendable>(
        _ body: (inout MemoryDatabase.State) throws(QueueError) -> Result
    ) throws(QueueError) -> Result {
        let (result, listeners) = try database.state.withLock { state throws(QueueError) in
            var copy = state
            let result = try body(&copy)
            copy.keepRules(now: clock.now)
            state = copy
            return (result, copy.listeners)
        }
        for listener in listeners { listener.yield() }
        return result
    }

    func add(_ jobs: [Job]) async throws(QueueError) -> [JobAddition] {
        try change { state throws(QueueError) in
            var additions: [JobAddition] = []
            for job in jobs { additions.append(try state.add(job, date: clock.date, now: clock.now)) }
            return additions
        }
    }

    func exchange(_ settlements: [Settlement], claiming request: ClaimRequest?) async throws(QueueError) -> Exchange {
        try change { state throws(QueueError) in
            let isSettled = settlements.map { state.settle($0, now: clock.now) }
            guard let request else { return Exchange(isSettled: isSettled, jobs: [], next: nil) }
            state.expire(clock.date, now: clock.now, for: owner, telling: request.answeredKinds)
            state.leases[owner] = clock.now + request.lease
            let jobs = state.claim(request, by: owner, now: clock.now, date: clock.date)
            let next = jobs.count == request.limit ? nil : state.next(after: clock.now, date: clock.date, owner)
            return Exchange(isSettled: isSettled, jobs: jobs, next: next)
        }
    }

    func renew(_ claims: [Claim], for lease: Duration) async throws(QueueError) -> [Claim] {
        try change { state throws(QueueError) in
            state.endLeases(clock.now, for: owner)
            state.leases[owner] = clock.now + lease
            return claims.filter { claim in
                state.entries[claim.id]?.record.life.lease != JobLease(owner: owner, token: claim.token)
            }
        }
    }

    func release() async throws(QueueError) {
        try change { state throws(QueueError) in state.endLease(of: owner, for: owner) }
    }

    func cancel(_ selection: JobSelection) async throws(QueueError) -> Int {
        try change { state throws(QueueError) in
            let ids = state.select(selection).map(\.job.id)
            return ids.reduce(0) { $0 + state.cancel($1, now: clock.now) }
        }
    }

    func retry(_ selection: JobSelection) async throws(QueueError) -> Int {
        try change { state throws(QueueError) in
            let ids = state.select(selection).filter { $0.state == .dead }.map(\.job.id)
            // Dependents of a dead letter are blocked, and stay after it in their group.
            for id in state.withDependents(ids) {
                state.lastPosition += 1
                state.entries[id]?.record.position = state.lastPosition
            }
            for id in ids {
                state.entries[id]?.due = nil
                state.retry(id, date: clock.date)
            }
            return ids.count
        }
    }

    func acknowledge(_ selection: JobSelection) async throws(QueueError) -> Int {
        try change { state throws(QueueError) in
            let ids = state.select(selection).filter { $0.state == .answered }.map(\.job.id)
            for id in ids { state.apply(.acknowledged, to: id) }
            return ids.count
        }
    }

    func delete(_ selection: JobSelection) async throws(QueueError) -> Int {
        try change { state throws(QueueError) in
            let records = state.select(selection).filter(\.state.isFinished)
            for record in records {
                if record.state == .dead { _ = state.cancel(record.job.id, now: clock.now) }
                state.entries[record.job.id] = nil
            }
            return records.count
        }
    }

    func purge(olderThan age: Duration) async throws(QueueError) -> Int {
        try change { state throws(QueueError) in
            let old = state.entries.values.filter { entry in
                [.done, .cancelled].contains(entry.record.state)
                    && entry.finished.map { $0 + age <= clock.now } ?? false
            }
            for entry in old { state.entries[entry.record.job.id] = nil }
            return old.count
        }
    }

    func job(_ id: String) async throws(QueueError) -> JobRecord? {
        let (now, date) = (clock.now, clock.date)
        return database.state.withLock { $0.entries[id]?.told(now: now, date: date) }
    }

    func jobs(
        _ selection: JobSelection, after position: Int64, limit: Int
    ) async throws(QueueError) -> [JobRecord] {
        let (now, date) = (clock.now, clock.date)
        return database.state.withLock { state in
            state.ordered { entry in
                entry.record.position > position && selection.contains(entry.record.job, in: entry.record.state)
            }.prefix(limit).map { entry in
                var record = entry.told(now: now, date: date)
                if case .data? = record.job.request.body { record.job.request.body = nil }
                record.result?.body = Data()
                return record
            }
        }
    }

    func blockers(of id: String) async throws(QueueError) -> [JobBlocker] {
        database.state.withLock { $0.blockers(of: id) }
    }

    func status() async throws(QueueError) -> QueueStatus {
        database.state.withLock { state in
            state.entries.values.reduce(into: QueueStatus()) { status, entry in
                status.counts[entry.record.job.kind, default: [:]][entry.record.state, default: 0] += 1
            }
        }
    }

    func changes() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        database.state.withLock { $0.listeners.append(continuation) }
        return stream
    }

    func close() async { try? await release() }
}

extension MemoryDatabase.Entry {
    fileprivate func told(now: ContinuousClock.Instant, date: Date) -> JobRecord {
        var record = record
        if record.state == .waiting { record.delay = delay(now: now, date: date) }
        return record
    }

    func delay(now: ContinuousClock.Instant, date: Date) -> Duration? {
        if let due, due > now { return now.duration(to: due) }
        if let notBefore, notBefore > date { return notBefore.wait(from: date) }
        return nil
    }
}

extension Date {
    /// The time until this date, limited to about 3,170 years in each direction.
    func wait(from date: Date) -> Duration { .seconds(max(-1e11, min(1e11, timeIntervalSince(date)))) }
}
