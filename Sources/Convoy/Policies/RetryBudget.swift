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

/// The balance of a ``RetryBudget``.
struct RetryBudgetState: Sendable {
    private let budget: RetryBudget
    private var balance: Double
    private var counted: ContinuousClock.Instant?

    init(_ given: RetryBudget) {
        var budget = given
        // With 0 as its first argument, `max` returns 0 for NaN.
        budget.ratio = max(0, min(given.ratio, 1_000))
        budget.reservePerSecond = max(0, min((given.reservePerSecond * 1_000).rounded() / 1_000, 1_000_000))
        budget.reserve = max(0, min(given.reserve, 1_000_000))
        budget.maxSaved = max(budget.reserve, min(given.maxSaved, 1_000_000))
        (self.budget, balance) = (budget, Double(budget.reserve))
    }

    mutating func noteRequest(now: ContinuousClock.Instant) {
        guard !budget.isUnlimited else { return }
        refill(now)
        balance = min(balance + budget.ratio, Double(budget.maxSaved))
    }

    mutating func take(now: ContinuousClock.Instant) -> Bool {
        guard !budget.isUnlimited else { return true }
        refill(now)
        // Sums of fractions are not exact; what is taken too early is missing from the balance afterwards.
        guard balance > 1 - 1e-6 else { return false }
        balance -= 1
        return true
    }

    /// Earned retries above the reserve are not changed.
    private mutating func refill(_ now: ContinuousClock.Instant) {
        defer { counted = max(now, counted ?? now) }
        guard let counted, balance < Double(budget.reserve) else { return }
        let earned = counted.duration(to: now).seconds * budget.reservePerSecond
        balance = min(balance + earned, Double(budget.reserve))
    }
}
