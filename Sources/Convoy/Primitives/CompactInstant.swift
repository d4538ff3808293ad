// A moment in eight bytes.

/// A moment of the continuous clock, to the nanosecond.
///
/// `ContinuousClock.Instant` has a resilient layout, so copying a struct that contains one looks up its size at run
/// time. A struct with this type is copied as plain bytes.
struct CompactInstant: Sendable, Hashable {
    private let nanoseconds: Int64

    /// The moment that counts as zero, because an instant has no numeric value.
    private static let origin = ContinuousClock.now

    init(_ instant: ContinuousClock.Instant) {
        // A moment more than 292 years away becomes the first or last moment that fits.
        nanoseconds = Int64(clamping: Self.origin.duration(to: instant).attoseconds / 1_000_000_000)
    }

    var instant: ContinuousClock.Instant { Self.origin.advanced(by: .nanoseconds(nanoseconds)) }
}
