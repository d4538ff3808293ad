// A limit for the retries of all requests together.
import Foundation

/// Limits the retries of all requests of a manager, so that an outage does not cause a storm of retries.
///
/// By default every first attempt earns a fifth of a retry, and up to a hundred retries are saved. A reserve of ten is
/// refilled by one retry per second, so that a manager with few requests can retry.
///
/// In a long outage with three retries for each request, a server therefore receives about a fifth more requests, not
/// four times as many. If the budget is empty, the manager makes no retry, and the failure is the outcome.
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
    /// The number of retries at the start; 10 by default, at most a million.
    ///
    /// Time refills the budget up to this number.
    public var reserve: Int
    /// How many retries a second adds, up to the reserve; 1 by default, in steps of a thousandth, at most a million.
    public var reservePerSecond: Double
    /// The maximum number of saved retries; 100 by default, at least the reserve, at most a million.
    public var maxSaved: Int
    /// Whether the budget has no limit.
    public private(set) var isUnlimited = false

    /// Makes a budget.
    ///
    /// Values out of range are clamped.
    ///
    /// - Parameters:
    ///   - ratio: the retries that each first attempt earns.
    ///   - reserve: the number of retries at the start. Time refills the budget up to this number.
    ///   - reservePerSecond: how many retries a second adds, up to the reserve.
    ///   - maxSaved: the maximum number of saved retries.
    public init(ratio: Double = 0.2, reserve: Int = 10, reservePerSecond: Double = 1, maxSaved: Int = 100) {
        self.ratio = ratio
        self.reserve = reserve
        self.reservePerSecond = reservePerSecond
        self.maxSaved = maxSaved
    }

    /// No limit besides the retry policies of the requests.
    public static let unlimited: RetryBudget = {
        var budget = RetryBudget()
        budget.isUnlimited = true
        return budget
    }()
}
