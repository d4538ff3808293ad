// A moment in eight bytes.

/// A moment of the continuous clock, to the nanosecond.
///
/// `ContinuousClock.Instant` is laid out by the library of the process: each copy of a struct with one in it asks at run time
/// how large it is. A struct with these is copied as its bytes.
struct CompactInstant: Sendable, Hashable {
    private let nanoseconds: Int64

    /// What the nanoseconds count from: the clock tells no number.
    private static let origin = ContinuousClock.now

    init(_ instant: ContinuousClock.Instant) {
        let (seconds, attoseconds) = Self.origin.duration(to: instant).components
        // The ends of time are as far as they can be told: 292 years.
        let whole = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let sum = whole.partialValue.addingReportingOverflow(attoseconds / 1_000_000_000)
        nanoseconds = whole.overflow || sum.overflow ? (seconds < 0 ? .min : .max) : sum.partialValue
    }

    var instant: ContinuousClock.Instant { Self.origin.advanced(by: .nanoseconds(nanoseconds)) }
}
