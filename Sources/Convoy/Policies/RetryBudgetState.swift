// The account of a retry budget.
import Foundation

/// What is left of a ``RetryBudget``: whole numbers only, so that nothing is lost or won by rounding.
struct RetryBudgetState: Sendable {
    // Units a retry. So a thousandth of a retry a second, the smallest rate, is one unit a millisecond.
    private static let retry: Int64 = 1_000_000
    private static let longestPause = Duration.seconds(864_000)

    private let isUnlimited: Bool
    private let earned: Int64
    private let perMillisecond: Int64
    private let reserve: Int64
    private let limit: Int64
    private var balance: Int64
    /// Up to when the reserve has come back; nil before anything happened.
    private var counted: ContinuousClock.Instant?

    init(_ budget: RetryBudget) {
        isUnlimited = budget.isUnlimited
        earned = Self.whole(budget.ratio, times: Double(Self.retry), atMost: 1_000 * Self.retry)
        perMillisecond = Self.whole(budget.reservePerSecond, times: 1_000, atMost: 1_000 * Self.retry)
        reserve = Self.whole(Double(budget.reserve), times: 1, atMost: Self.retry) * Self.retry
        limit = max(reserve, Self.whole(Double(budget.maxSaved), times: 1, atMost: Self.retry) * Self.retry)
        balance = reserve
    }

    /// A first attempt is sent: it earns its part of a retry.
    ///
    /// - Complexity: O(1).
    mutating func noteRequest(now: ContinuousClock.Instant) {
        guard !isUnlimited else { return }
        refill(now)
        balance = min(balance + earned, limit)
    }

    /// Takes one retry; false when there is none left.
    ///
    /// - Complexity: O(1).
    mutating func take(now: ContinuousClock.Instant) -> Bool {
        guard !isUnlimited else { return true }
        refill(now)
        guard balance >= Self.retry else { return false }
        balance -= Self.retry
        return true
    }

    /// The reserve comes back; what was earned beyond it stays as it is.
    private mutating func refill(_ now: ContinuousClock.Instant) {
        guard let since = counted, balance < reserve else {
            counted = max(now, counted ?? now)
            return
        }
        let elapsed = since.duration(to: now)
        guard elapsed > .zero else { return }
        // At most ten days: taking a duration apart traps for what its seconds cannot hold.
        let (seconds, attoseconds) = min(elapsed, Self.longestPause).components
        let milliseconds = seconds * 1_000 + attoseconds / 1_000_000_000_000_000
        // What is less than a millisecond is counted the next time.
        counted = elapsed > Self.longestPause ? now : since + .milliseconds(milliseconds)
        balance += min(milliseconds * perMillisecond, reserve - balance)
    }

    private static func whole(_ value: Double, times factor: Double, atMost limit: Int64) -> Int64 {
        let product = (value * factor).rounded()
        // What is no number is not more than zero either.
        return product > 0 ? Int64(min(product, Double(limit))) : 0
    }
}
