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
        // A moment more than 292 years away becomes the last one that fits.
        nanoseconds = Int64(clamping: Self.origin.duration(to: instant).attoseconds / 1_000_000_000)
    }

    var instant: ContinuousClock.Instant { Self.origin.advanced(by: .nanoseconds(nanoseconds)) }
}
