// A limit for the retries of all requests together.
import Foundation

/// Limits the retries of all requests of a manager, so that an outage does not cause a storm of retries.
///
/// By default every first attempt earns a fifth of a retry, and up to a hundred retries are saved. A reserve of ten is
/// refilled by one retry per second, so that a manager with few requests can retry. In a long outage, a server
/// therefore receives about a fifth more requests. If the budget is empty, the failure is the outcome.
///
/// ```swift
/// let careful = RetryBudget(ratio: 0.1, reserve: 3)
/// ```
///
/// ## Concurrency
/// `Sendable`, without shared state. Each manager has its own count.
///
/// ## Topics
/// - ``init(ratio:reserve:reservePerSecond:maxSaved:)``
/// - ``unlimited``
public struct RetryBudget: Sendable, Hashable {
    /// The retries that each first attempt earns, from 0 to 1000; 0.2 by default.
    public var ratio: Double
    /// The number of retries at the start, to which time refills the budget; 10 by default, at most a million.
    public var reserve: Int
    /// How many retries a second adds, up to the reserve; 1 by default, in steps of a thousandth, at most a million.
    public var reservePerSecond: Double
    /// The maximum number of saved retries; 100 by default, at least the reserve, at most a million.
    public var maxSaved: Int
    /// Whether the budget has no limit.
    public private(set) var isUnlimited = false

    /// Makes a budget of the properties with these names; values out of range are clamped.
    public init(ratio: Double = 0.2, reserve: Int = 10, reservePerSecond: Double = 1, maxSaved: Int = 100) {
        (self.ratio, self.reserve) = (ratio, reserve)
        (self.reservePerSecond, self.maxSaved) = (reservePerSecond, maxSaved)
    }

    /// No limit besides the retry policies of the requests.
    public static let unlimited: RetryBudget = {
        var budget = RetryBudget()
        budget.isUnlimited = true
        return budget
    }()
}

/// The balance of a ``RetryBudget``, in integers so that rounding loses nothing.
struct RetryBudgetState: Sendable {
    // One retry counts as a million units. The smallest rate, a thousandth of a retry per second, then adds one unit
    // per millisecond.
    private static let retry: Int64 = 1_000_000
    private static let longestPause = Duration.seconds(864_000)

    private let isUnlimited: Bool
    private let earned: Int64
    private let perMillisecond: Int64
    private let reserve: Int64
    private let limit: Int64
    private var balance: Int64
    private var counted: ContinuousClock.Instant?

    init(_ budget: RetryBudget) {
        isUnlimited = budget.isUnlimited
        earned = Self.whole(budget.ratio, times: Double(Self.retry), atMost: 1_000 * Self.retry)
        perMillisecond = Self.whole(budget.reservePerSecond, times: 1_000, atMost: 1_000 * Self.retry)
        reserve = Self.whole(Double(budget.reserve), times: 1, atMost: Self.retry) * Self.retry
        limit = max(reserve, Self.whole(Double(budget.maxSaved), times: 1, atMost: Self.retry) * Self.retry)
        balance = reserve
    }

    mutating func noteRequest(now: ContinuousClock.Instant) {
        guard !isUnlimited else { return }
        refill(now)
        balance = min(balance + earned, limit)
    }

    mutating func take(now: ContinuousClock.Instant) -> Bool {
        guard !isUnlimited else { return true }
        refill(now)
        guard balance >= Self.retry else { return false }
        balance -= Self.retry
        return true
    }

    /// Earned retries above the reserve are not changed.
    private mutating func refill(_ now: ContinuousClock.Instant) {
        guard let since = counted, balance < reserve else {
            counted = max(now, counted ?? now)
            return
        }
        let elapsed = since.duration(to: now)
        guard elapsed > .zero else { return }
        // The time is limited to ten days, because `components` traps when the seconds overflow.
        let (seconds, attoseconds) = min(elapsed, Self.longestPause).components
        let milliseconds = seconds * 1_000 + attoseconds / 1_000_000_000_000_000
        // The remainder below a millisecond is counted the next time.
        counted = elapsed > Self.longestPause ? now : since + .milliseconds(milliseconds)
        balance += min(milliseconds * perMillisecond, reserve - balance)
    }

    private static func whole(_ value: Double, times factor: Double, atMost limit: Int64) -> Int64 {
        let product = (value * factor).rounded()
        // NaN also fails this comparison.
        return product > 0 ? Int64(min(product, Double(limit))) : 0
    }
}
