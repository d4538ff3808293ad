// The delays of requests that could otherwise get a slot: holds of hosts, rate limits, a missing network.
import Foundation

extension HostQueues {
    /// Sets the hold that a host requested; false if an earlier one lasts at least as long.
    mutating func hold(_ name: String, until instant: ContinuousClock.Instant, _ reason: RetryAfterReason) -> Bool {
        let host = makeHost(name)
        if let held = host.holds.end(of: .asked), held >= instant { return false }
        host.holds.set(.asked, until: instant)
        host.reason = reason
        noteHold(of: host)
        return true
    }

    /// Ends the expired holds of one host or, if the name is nil, those that apply to every host.
    mutating func lift(_ name: String?, now: ContinuousClock.Instant) {
        guard let name else { return holds.lift(now) }
        guard let host = hosts[name] else { return }
        host.holds.lift(now)
        if !host.holds.has(.asked) { host.reason = nil }
        noteHold(of: host)
        hostChanged(host)
    }

    /// Removes and returns the holds that were added since the last call.
    mutating func takeNewHolds() -> [NewHold] {
        defer { newHolds = [] }
        return newHolds
    }

    mutating func noteHold(of host: Host) {
        if let until = host.holds.takeTimer() { newHolds.append(NewHold(host: host.name, until: until)) }
    }

    /// Whether the manager's rate limit is used up; if so, all hosts are put on hold until the next token.
    mutating func isPaced(_ now: ContinuousClock.Instant) -> Bool {
        guard let due = pacer?.due(after: now) else { return false }
        holds.set(.rate, until: due)
        if let until = holds.takeTimer() { newHolds.append(NewHold(host: nil, until: until)) }
        return true
    }

    mutating func takeToken(_ queueEntry: QueueEntry, at host: Host, _ now: ContinuousClock.Instant) {
        // The moment is rounded, so that the queue entry and the rate limits store equal values, which are compared
        // later.
        let taken = CompactInstant(now)
        queueEntry.token = taken
        pacer?.take(now: taken.instant)
        host.pacer?.take(now: taken.instant)
    }

    mutating func leaveToken(_ queueEntry: QueueEntry, at host: Host, isUnsent: Bool) {
        guard let takenAt = queueEntry.token?.instant else { return }
        queueEntry.token = nil
        guard isUnsent else { return }
        pacer?.giveBack(takenAt: takenAt)
        host.pacer?.giveBack(takenAt: takenAt)
        host.holds.end(.rate)
    }

    mutating func setOffline(_ isOffline: Bool) {
        self.isOffline = isOffline
        guard !isOffline else { return }
        for host in hosts.values {
            host.holds.end(.offline)
            hostChanged(host)
        }
    }

    /// Why the requests to a host cannot be sent before a deadline; nil if no reason is known.
    func holdWords(
        of host: String, past deadline: ContinuousClock.Instant, now: ContinuousClock.Instant
    ) -> String? {
        if let words = hosts[host]?.holdWords(past: deadline, now: now) { return words }
        return pacer?.words(past: deadline, now: now).map { "its manager sends \($0)" }
    }

    /// Describes why the requests of a host wait while that host, or every host, is on hold; nil without a hold.
    func holdWords(of host: String, now: ContinuousClock.Instant) -> String? {
        if let words = hosts[host]?.holdWords(now: now) { return words }
        guard let rate = pacer?.rate, let due = pacer?.due(after: now) else { return nil }
        return "its turn: the manager sends at most \(rate.words), the next in \(now.duration(to: due).words)"
    }
}
