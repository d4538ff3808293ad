// A token bucket for bytes per second.

/// A token bucket that charges received bytes.
///
/// A transfer waits until its charge is paid. The count of paid bytes grows with time, at the rate. The position of a
/// charge is the sum of all charges up to it. The charge is paid when the count reaches the position. Charges are
/// therefore paid in order, rounding errors do not add up, and a new rate applies to all unpaid charges.
///
/// - Complexity: O(1), every member.
struct TokenBucket {
    /// Bytes per second, at least 1.
    private(set) var rate: Int64
    /// The sum of all charges, in bytes.
    private(set) var charged: Int64 = 0
    /// The count of paid bytes at a moment.
    ///
    /// If the count exceeds the sum of all charges, the difference is credit for later charges.
    private var anchor: (instant: ContinuousClock.Instant, paid: Int64)

    /// Makes a full bucket.
    ///
    /// - Parameter rate: bytes per second; less than 1 counts as 1.
    init(rate: Int64, now: ContinuousClock.Instant) {
        self.rate = max(1, rate)
        anchor = (now, Self.burst(of: self.rate))
    }

    /// The bytes allowed at once after a pause: the bytes of a tenth of a second.
    private static func burst(of rate: Int64) -> Int64 { max(1, rate / 10) }

    /// Charges received bytes.
    ///
    /// - Returns: the position to pass to ``moment(of:)``.
    mutating func charge(_ count: Int, now: ContinuousClock.Instant) -> Int64 {
        limitCredit(now)
        charged = charged.addingSaturated(Int64(max(0, count)))
        return charged
    }

    /// When all charges up to a position are paid, at the current rate.
    func moment(of position: Int64) -> ContinuousClock.Instant {
        anchor.instant + .seconds(position.subtractingSaturated(anchor.paid)) / rate
    }

    /// Sets another rate for unpaid and future charges.
    mutating func setRate(_ newRate: Int64, now: ContinuousClock.Instant) {
        limitCredit(now)
        // This is the only rounding; it happens once for each change of the rate.
        let paid = anchor.instant.duration(to: now).seconds * Double(rate)
        let whole = Int64(min(max(0, paid), 9e18))
        anchor = (max(now, anchor.instant), min(anchor.paid.addingSaturated(whole), fullPaid))
        rate = max(1, newRate)
    }

    /// The count of paid bytes at the maximum credit.
    private var fullPaid: Int64 { charged.addingSaturated(Self.burst(of: rate)) }

    /// Removes credit that exceeds a burst.
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
