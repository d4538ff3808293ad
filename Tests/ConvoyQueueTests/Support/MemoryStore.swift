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
            // Not `_read`: Swift 6.3.1 with -Onone uses what it yields in an optional chain after its end.
            get { records[0] }
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

extension MemoryDatabase.State {
    func select(_ selection: JobSelection) -> [JobRecord] {
        ordered { selection.contains($0.record.job, in: $0.record.state) }.map(\.record)
    }

    mutating func apply(_ event: JobLife.Event, to id: String) { _ = entries[id]?.record.life.handle(event) }

    mutating func add(_ job: Job, date: Date, now: ContinuousClock.Instant) throws(QueueError) -> JobAddition {
        if entries[job.id] != nil { return JobAddition(id: job.id, outcome: .alreadyThere) }
        for id in job.dependencies where entries[id] == nil {
            throw QueueError(.unknownJob, "\(job.id) depends on \(id), which does not exist")
        }
        if let uniqueness = job.uniqueness {
            let others = ordered { $0.isUnfinished && $0.record.job.uniqueness?.key == uniqueness.key }
            switch uniqueness.policy {
            case .keep:
                if let first = others.first { return JobAddition(id: first.record.job.id, outcome: .kept) }
            case .replace: for other in others { _ = cancel(other.record.job.id, now: now) }
            case .append: break
            }
        }
        lastPosition += 1
        var entry = MemoryDatabase.Entry(
            record: JobRecord(job: job, position: lastPosition, life: JobLife(), added: date),
            notBefore: job.notBefore)
        if job.dependencies.contains(where: { entries[$0]?.record.state == .cancelled }) {
            _ = entry.record.life.handle(.cancelled)
            entry.finished = now
        }
        entries[job.id] = entry
        return JobAddition(id: job.id, outcome: .added)
    }

    /// Computes the holds of each job from the states of the other jobs.
    mutating func keepRules(now: ContinuousClock.Instant) {
        for entry in entries.values where entry.finished == nil && !entry.isUnfinished {
            entries[entry.record.job.id]?.finished = now
        }
        let all = ordered(where: \.isRuled)
        for entry in all where entry.record.state == .waiting || entry.record.state == .blocked {
            let id = entry.record.job.id
            let reasons = blockers(of: entry.record, among: all).map(\.reason)
            let holds = JobHolds(
                dependencies: reasons.count { $0 == .dependency }, isBehindGroup: reasons.contains(.group),
                isBehindKey: reasons.contains(.key))
            apply(.held(holds), to: id)
        }
    }

    func blockers(of id: String) -> [JobBlocker] {
        guard let record = entries[id]?.record, record.state == .blocked else { return [] }
        return blockers(of: record, among: ordered(where: \.isRuled))
    }

    private func blockers(of record: JobRecord, among all: [MemoryDatabase.Entry]) -> [JobBlocker] {
        let needed = Set(record.job.dependencies).sorted().compactMap { id -> JobBlocker? in
            guard let other = entries[id]?.record, other.state != .done else { return nil }
            return JobBlocker(id: id, state: other.state, reason: .dependency)
        }
        func first(_ reason: JobBlocker.Reason, _ isMeant: (Job) -> Bool) -> [JobBlocker] {
            let other = all.first { $0.isUnfinished && isMeant($0.record.job) }?.record
            guard let other, other.position < record.position else { return [] }
            return [JobBlocker(id: other.job.id, state: other.state, reason: reason)]
        }
        return needed
            + (record.job.group.map { group in first(.group) { $0.group == group } } ?? [])
            + (record.job.uniqueness.map { own in first(.key) { $0.uniqueness?.key == own.key } } ?? [])
    }

    mutating func settle(_ settlement: Settlement, now: ContinuousClock.Instant) -> Bool {
        let claim = settlement.claim
        guard var entry = entries[claim.id],
            entry.record.life.handle(.settled(token: claim.token, settlement.verdict))
        else { return false }
        if let attempt = settlement.attempt {
            entry.record.attempts = (entry.record.attempts + [attempt]).suffix(JobRecord.maxAttempts)
            entry.record.attemptCount += 1
        }
        switch settlement.verdict {
        case .retry(let delay):
            entry.due = now + delay
            entry.record.result = nil
        case .dead(let reason):
            entry.record.failure = reason
            entry.record.result = nil
        case .answered(let result): entry.record.result = result
        case .done: entry.record.result = nil
        case .release: break
        }
        entries[claim.id] = entry
        return true
    }

    mutating func expire(
        _ date: Date, now: ContinuousClock.Instant, for owner: String, telling kinds: ClaimRequest.Kinds
    ) {
        for entry in entries.values where entry.record.job.expires.map({ $0 <= date }) ?? false {
            let id = entry.record.job.id
            if kinds.contains(entry.record.job.kind) {
                if entries[id]?.record.life.handle(.expiredWithHandler) ?? false {
                    entries[id]?.record.result = JobResult(failure: JobRecord.expired)
                }
            } else if entries[id]?.record.life.handle(.expired) ?? false {
                entries[id]?.record.failure = JobRecord.expired
            }
        }
        endLeases(now, for: owner)
    }

    mutating func endLeases(_ now: ContinuousClock.Instant, for finder: String) {
        for (owner, end) in leases where end <= now && owner != finder { endLease(of: owner, for: finder, at: now) }
        keepRules(now: now)
    }

    mutating func endLease(of owner: String, for finder: String, at now: ContinuousClock.Instant = .now) {
        for entry in entries.values where entry.record.life.lease?.owner == owner {
            let (id, life) = (entry.record.job.id, entry.record.life)
            let isLapse = owner != finder
            apply(isLapse ? .leaseEnded : .settled(token: life.claimCount, .release), to: id)
            guard isLapse, let new = entries[id]?.record.life, new.lapseDelay > .zero, !new.hasResult else { continue }
            entries[id]?.due = now + new.lapseDelay
        }
        leases[owner] = nil
    }

    mutating func claim(
        _ request: ClaimRequest, by owner: String, now: ContinuousClock.Instant, date: Date
    ) -> [ClaimedJob] {
        let waiting = entries.values.filter { entry in
            entry.record.state == .waiting && request.kinds.contains(entry.record.job.kind)
                && entry.delay(now: now, date: date) == nil
        }.sorted { left, right in
            let (first, second) = (left.record.job.priority.rawValue, right.record.job.priority.rawValue)
            if first != second { return first > second }
            let (isTried, isOtherTried) = (left.record.attemptCount > 0, right.record.attemptCount > 0)
            return isTried == isOtherTried ? left.record.position < right.record.position : isOtherTried
        }
        let answered = ordered { entry in
            entry.record.state == .answered && request.answeredKinds.contains(entry.record.job.kind)
        }
        let all = waiting + answered
        let isSuspect = { (entry: MemoryDatabase.Entry) in entry.record.life.lapseCount >= JobLife.suspectLapseCount }
        let ownsSuspect = entries.values.contains { $0.record.life.lease?.owner == owner && isSuspect($0) }
        let meant = (ownsSuspect ? [] : all.filter(isSuspect).prefix(1)) + all.filter { !isSuspect($0) }
        var rooms: [String: Int] = [:]
        let fitting = meant.filter { entry in
            let host = entry.record.job.request.host
            guard entry.record.state == .waiting, request.maxPerHost != nil, !isSuspect(entry) else { return true }
            rooms[host, default: request.room(of: host)] -= 1
            return rooms[host, default: 0] >= 0
        }
        return fitting.prefix(request.limit).map { entry in
            var entry = entry
            _ = entry.record.life.handle(.claimed(by: owner))
            entry.due = nil
            entry.notBefore = nil
            entries[entry.record.job.id] = entry
            return ClaimedJob(
                claim: Claim(id: entry.record.job.id, token: entry.record.life.claimCount), job: entry.record.job,
                attemptCount: entry.record.attemptCount, lapseCount: entry.record.life.lapseCount,
                result: entry.record.result)
        }
    }

    func next(after now: ContinuousClock.Instant, date: Date, _ owner: String) -> Duration? {
        var moments = leases.filter { lease in
            lease.key != owner && entries.values.contains { $0.record.life.lease?.owner == lease.key }
        }.map { now.duration(to: $0.value) }
        for entry in entries.values where entry.record.state == .waiting || entry.record.state == .blocked {
            if let expires = entry.record.job.expires { moments.append(expires.wait(from: date)) }
            guard entry.record.state == .waiting, let delay = entry.delay(now: now, date: date) else { continue }
            moments.append(delay)
        }
        return moments.min().map { max(.zero, $0) }
    }

    /// Cancels a job and its dependents; returns the number of cancelled jobs.
    mutating func cancel(_ id: String, now: ContinuousClock.Instant) -> Int {
        guard entries[id]?.record.life.handle(.cancelled) ?? false else { return 0 }
        entries[id]?.record.result = nil
        entries[id]?.record.failure = nil
        entries[id]?.finished = now
        let dependents = entries.values.filter { $0.record.job.dependencies.contains(id) }
        return dependents.reduce(1) { $0 + cancel($1.record.job.id, now: now) }
    }

    /// The jobs and all blocked jobs that depend on them, directly or indirectly, in the order of adding.
    func withDependents(_ ids: [String]) -> [String] {
        var meant = Set(ids)
        let all = ordered { _ in true }
        var count = 0
        while meant.count > count {
            count = meant.count
            for entry in all where entry.record.state == .blocked {
                if !meant.isDisjoint(with: entry.record.job.dependencies) { meant.insert(entry.record.job.id) }
            }
        }
        return all.map(\.record.job.id).filter(meant.contains)
    }

    mutating func retry(_ id: String, date: Date) {
        guard var entry = entries[id], entry.record.life.handle(.retried(JobHolds())) else { return }
        entry.record.failure = nil
        entry.record.attemptCount = 0
        entry.finished = nil
        if let expires = entry.record.job.expires, expires <= date { entry.record.job.expires = nil }
        entries[id] = entry
    }
}
