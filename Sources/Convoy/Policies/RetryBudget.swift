// How many retries all requests together may have.
import Foundation

/// How many retries the requests of a manager may have together, so that an outage is not answered with a storm.
///
/// Every first attempt earns a fifth of a retry, and up to a hundred are saved. Besides, there is a reserve of ten,
/// which comes back by one a second, so that a manager with little to do can always retry.
///
/// A server that fails everything therefore sees a fifth more requests for long, not four times as many, however many
/// retries each request would be allowed; a retry that is not in the budget is not made, and the failure is the
/// outcome.
///
/// ```swift
/// let careful = RetryBudget(ratio: 0.1, reserve: 3)
/// ```
///
/// ## Concurrency
/// `Sendable`, without shared state: a manager keeps the account.
///
/// ## Topics
/// - ``init(ratio:reserve:reservePerSecond:maxSaved:)``
/// - ``unlimited``
public struct RetryBudget: Sendable, Hashable {
    /// How many retries each first attempt earns, from 0 up to 1000; 0.2 by default.
    public var ratio: Double
    /// How many retries there are at the start, and come back with time; 10 by default, at most a million.
    public var reserve: Int
    /// How many retries come back each second, up to the reserve; 1 by default, in steps of a thousandth, at most a million.
    public var reservePerSecond: Double
    /// How many retries can be saved up; 100 by default, at least the reserve, at most a million.
    public var maxSaved: Int
    /// Whether there is no limit.
    public private(set) var isUnlimited = false

    /// Makes a budget; a value out of its range counts as the nearest one in it.
    ///
    /// - Parameters:
    ///   - ratio: how many retries each first attempt earns.
    ///   - reserve: how many there are at the start, and come back with time.
    ///   - reservePerSecond: how many come back a second, up to the reserve.
    ///   - maxSaved: how many can be saved up.
    public init(ratio: Double = 0.2, reserve: Int = 10, reservePerSecond: Double = 1, maxSaved: Int = 100) {
        self.ratio = ratio
        self.reserve = reserve
        self.reservePerSecond = reservePerSecond
        self.maxSaved = maxSaved
    }

    /// As many retries as the policies of the requests allow.
    public static let unlimited: RetryBudget = {
        var budget = RetryBudget()
        budget.isUnlimited = true
        return budget
    }()
}
