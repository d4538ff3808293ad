// Properties of the error codes, which decide how the library reacts to a failure.

extension RequestError.Code {
    /// The properties that all failures with one code have.
    package struct Facts: OptionSet, Hashable, Sendable {
        package let rawValue: UInt8

        package init(rawValue: UInt8) { self.rawValue = rawValue }

        /// Sending the request again usually helps.
        ///
        /// This property is the default of ``RequestError/isRetryable``.
        package static let retryable = Facts(rawValue: 1 << 0)
        /// No retry policy sends the request again, because that is useless or forbidden.
        package static let final = Facts(rawValue: 1 << 1)
        /// The host could not be reached or stopped responding.
        ///
        /// The host's breaker counts the failure.
        package static let failureOfHost = Facts(rawValue: 1 << 2)
        /// If the head of the response had arrived, its status code and fields count despite the failure.
        package static let headCounts = Facts(rawValue: 1 << 3)
        /// A mirror may succeed where this server, or the way to it, failed.
        package static let otherServerHelps = Facts(rawValue: 1 << 4)
        /// The cause is local, so other segments of a download would fail too.
        package static let local = Facts(rawValue: 1 << 5)
        /// The same request may succeed hours later, when the cause has been removed.
        package static let mendable = Facts(rawValue: 1 << 6)
    }
}
