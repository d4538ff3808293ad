// Helpers for the public virtual clock.
import ConvoyTesting
import Testing

extension VirtualClock {
    /// The timers that were set so far.
    struct ArmedTimers {
        fileprivate let clock: VirtualClock

        var count: Int { clock.timerCount }

        /// Waits until a total of `count` timers were set.
        ///
        /// Records an issue when that takes more than 120 seconds.
        func wait(count: Int = 1, sourceLocation: SourceLocation = #_sourceLocation) async {
            do { try await clock.timersSet(count: count, within: .seconds(120)) } catch {
                Issue.record(error, sourceLocation: sourceLocation)
            }
        }
    }

    var armed: ArmedTimers { ArmedTimers(clock: self) }

    /// Advances to the next timer that is not cancelled; returns false if there is none.
    @discardableResult
    func advanceToNext() -> Bool { fireNext() }
}
