// A moment in eight bytes.

/// A moment of the continuous clock, to the nanosecond.
///
/// `ContinuousClock.Instant` has a resilient layout, so copying a struct that contains one looks up its size at run
/// time. A struct with this type is copied as plain bytes.
struct CompactInstant: Sendable, Hashable {
    fileprivate let nanoseconds: Int64

    /// The moment that counts as zero, because an instant has no numeric value.
    private static let origin = ContinuousClock.now

    init(_ instant: ContinuousClock.Instant) {
        // A moment more than 292 years away becomes the first or last moment that fits. `Int64.min` is not used,
        // because it means nil in `OptionalMoment`.
        let nanoseconds = Int64(clamping: Self.origin.duration(to: instant).attoseconds / 1_000_000_000)
        self.nanoseconds = max(nanoseconds, .min + 1)
    }

    fileprivate init?(nanoseconds: Int64) {
        guard nanoseconds > .min else { return nil }
        self.nanoseconds = nanoseconds
    }

    var instant: ContinuousClock.Instant { Self.origin.advanced(by: .nanoseconds(nanoseconds)) }
}

/// Stores an optional moment in eight bytes.
///
/// An `Optional` of ``CompactInstant`` takes nine bytes, and the next property then begins at byte sixteen.
@propertyWrapper
struct OptionalMoment: Sendable, Hashable {
    private var nanoseconds = Int64.min

    var wrappedValue: CompactInstant? {
        get { CompactInstant(nanoseconds: nanoseconds) }
        set { nanoseconds = newValue?.nanoseconds ?? .min }
    }
}
