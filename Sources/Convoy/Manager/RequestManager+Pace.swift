// How fast all of a manager's transfers together may be.

extension RequestManager {
    /// How many bytes of body all transfers together may receive a second; nil for as many as come.
    ///
    /// As ``Configuration/maxBytesPerSecond`` says. A change takes effect at once: what was held back for the old limit
    /// goes on as the new one lets it. Zero or less means no limit.
    ///
    /// Over a transport that cannot be held, a limit that is set ends every request that is sent from then on; those under
    /// way there go on, without a limit.
    ///
    /// - Thread: any.
    /// - Complexity: O(*n* log *n*) for *n* transfers that are held back.
    public var maxBytesPerSecond: Int64? {
        get { scheduler.context.rateLimit.bytesPerSecond }
        set { scheduler.context.rateLimit.bytesPerSecond = newValue }
    }
}
