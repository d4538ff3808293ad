// The changes of jobs in the memory store.
import Foundation

@testable import ConvoyQueue

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
