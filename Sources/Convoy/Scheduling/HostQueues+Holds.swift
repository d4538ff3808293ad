// What keeps requests back that would get a slot: holds of hosts, rates, a network that is missing.
import Foundation

extension HostQueues {
    /// Sends nothing to a host before a moment; false when it is held for longer already.
    mutating func hold(_ name: String, until instant: ContinuousClock.Instant, _ reason: RetryAfterReason) -> Bool {
        let host = makeHost(name)
        defer { noteHold(of: host) }
        return host.hold(until: instant, reason)
    }

    /// Ends the holds of a host, or of all together, whose time has come.
    mutating func lift(_ name: String?, now: ContinuousClock.Instant) {
        guard let name else {
            holds.lift(now)
            return
        }
        guard let host = hosts[name] else { return }
        host.lift(now)
        noteHold(of: host)
        offerBest(of: host)
        if host.isIdle { forgetIfIdle(host) }
    }

    /// The holds that have been found since the last look.
    mutating func takeNewHolds() -> [NewHold] {
        defer { newHolds = [] }
        return newHolds
    }

    mutating func noteHold(of host: Host) {
        if let until = host.takeTimer() { newHolds.append(NewHold(host: host.name, until: until)) }
    }

    /// Whether no request may be sent anywhere, as enough have been.
    mutating func isPaced(_ now: ContinuousClock.Instant) -> Bool {
        guard let due = pacer?.due(after: now) else { return false }
        holds.set(.rate, until: due)
        if let until = holds.takeTimer() { newHolds.append(NewHold(host: nil, until: until)) }
        return true
    }

    mutating func takeToken(_ queueEntry: QueueEntry, at host: Host, _ now: ContinuousClock.Instant) {
        // It is compared: to the nanosecond for all.
        let taken = CompactInstant(now)
        queueEntry.token = taken
        pacer?.take(now: taken.instant)
        host.takeToken(now: taken.instant)
    }

    mutating func leaveToken(_ queueEntry: QueueEntry, at host: Host, isUnsent: Bool) {
        guard let takenAt = queueEntry.token?.instant else { return }
        queueEntry.token = nil
        guard isUnsent else { return }
        pacer?.giveBack(takenAt: takenAt)
        host.giveTokenBack(takenAt: takenAt)
    }

    /// Whether there is a network: without one, hosts elsewhere are put on hold when it is their turn.
    mutating func setOffline(_ isOffline: Bool) {
        self.isOffline = isOffline
        guard !isOffline else { return }
        for host in hosts.values {
            host.connect()
            offerBest(of: host)
            if host.isIdle { forgetIfIdle(host) }
        }
    }

    /// What keeps the requests to a host back until after a deadline, for people; nil when nothing is known to.
    func holdWords(
        of host: String, past deadline: ContinuousClock.Instant, now: ContinuousClock.Instant
    ) -> String? {
        if let words = hosts[host]?.holdWords(past: deadline, now: now) { return words }
        return pacer?.words(past: deadline, now: now).map { "its manager sends \($0)" }
    }

    /// What the requests of a host wait for while it is on hold, or all are, for people; nil when none is.
    func holdWords(of host: String, now: ContinuousClock.Instant) -> String? {
        if let words = hosts[host]?.holdWords(now: now) { return words }
        guard let rate = pacer?.rate, let due = pacer?.due(after: now) else { return nil }
        return "its turn: \(rate.words) are sent at most, the next in \(now.duration(to: due).words)"
    }

    /// What a host has asked, or what has been learned of it, that holds its requests up, for people.
    func words(of host: String, now: ContinuousClock.Instant) -> String? { hosts[host]?.words(now: now) }

    /// How many of a host run and wait.
    func count(of host: String) -> (running: Int, waiting: Int) {
        hosts[host].map { ($0.running, $0.waiting) } ?? (0, 0)
    }
}
