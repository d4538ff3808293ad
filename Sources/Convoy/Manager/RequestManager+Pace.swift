// The rate limit for all of a manager's transfers.

extension RequestManager {
    /// The body bytes that all transfers together may receive per second; nil means no limit.
    ///
    /// See ``Configuration/maxBytesPerSecond``. A change takes effect at once, also for transfers paused by the old
    /// limit. Zero or less means no limit.
    ///
    /// If the transport cannot pause, every request that starts after the change fails. Running transfers continue
    /// without a limit.
    ///
    /// - Thread: any.
    /// - Complexity: O(*n* log *n*) for *n* paused transfers.
    public var maxBytesPerSecond: Int64? {
        get { scheduler.context.rateLimit.bytesPerSecond }
        set { scheduler.context.rateLimit.bytesPerSecond = newValue }
    }
}
