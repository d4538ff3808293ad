// So many bytes a second, as a value.

/// A token bucket in which bytes that have come are charged, and a transfer that was charged waits until that has been paid
/// for.
///
/// Bytes are counted from the beginning: a charge is paid when the count that has been paid reaches it. So charges are
/// paid in the order in which they came, nothing is rounded twice, and another rate moves all that is still owed.
///
/// - Complexity: O(1), every member.
struct TokenBucket {
    /// Bytes a second, at least 1.
    private(set) var rate: Int64
    /// All that has been charged.
    private(set) var charged: Int64 = 0
    /// At this moment so much had been paid; more than was charged is credit.
    private var anchor: (instant: ContinuousClock.Instant, paid: Int64)

    /// Makes a bucket that is full.
    ///
    /// - Parameter rate: bytes a second; less than 1 counts as 1.
    init(rate: Int64, now: ContinuousClock.Instant) {
        self.rate = max(1, rate)
        anchor = (now, Self.burst(of: self.rate))
    }

    /// How much may come at once after a pause: what comes in a tenth of a second.
    private static func burst(of rate: Int64) -> Int64 { max(1, rate / 10) }

    /// Charges bytes that have come.
    ///
    /// - Returns: what ``moment(of:)`` tells the moment of at which they have been paid for.
    mutating func charge(_ count: Int, now: ContinuousClock.Instant) -> Int64 {
        limitCredit(now)
        charged = charged.addingSaturated(Int64(max(0, count)))
        return charged
    }

    /// When everything up to a position has been paid for, at the rate of now.
    func moment(of position: Int64) -> ContinuousClock.Instant {
        anchor.instant + .seconds(position.subtractingSaturated(anchor.paid)) / rate
    }

    /// Sets another rate for what is owed and what comes.
    mutating func setRate(_ newRate: Int64, now: ContinuousClock.Instant) {
        limitCredit(now)
        // Once for each change: what is rounded here does not add up.
        let paid = anchor.instant.duration(to: now).seconds * Double(rate)
        let whole = Int64(min(max(0, paid), 9e18))
        anchor = (max(now, anchor.instant), min(anchor.paid.addingSaturated(whole), fullPaid))
        rate = max(1, newRate)
    }

    /// What has been paid when there is as much credit as there can be.
    private var fullPaid: Int64 { charged.addingSaturated(Self.burst(of: rate)) }

    /// Credit for more than a burst lapses.
    private mutating func limitCredit(_ now: ContinuousClock.Instant) {
        if moment(of: fullPaid) < now { anchor = (now, fullPaid) }
    }
}

extension Int64 {
    fileprivate func addingSaturated(_ other: Int64) -> Int64 {
        let (sum, overflows) = addingReportingOverflow(other)
        return overflows ? (other > 0 ? .max : .min) : sum
    }

    fileprivate func subtractingSaturated(_ other: Int64) -> Int64 {
        let (difference, overflows) = subtractingReportingOverflow(other)
        return overflows ? (other < 0 ? .max : .min) : difference
    }
}
