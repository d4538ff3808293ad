// What follows from the kind of a failure, wherever somebody acts on it.

extension RequestError.Code {
    /// What holds for every failure of a kind.
    package struct Facts: OptionSet, Hashable, Sendable {
        package let rawValue: UInt8

        package init(rawValue: UInt8) { self.rawValue = rawValue }

        /// Sending the request again usually helps: ``RequestError/isRetryable`` of an error that does not say otherwise.
        package static let retryable = Facts(rawValue: 1 << 0)
        /// No policy and no transport has the request sent again: it cannot help, or must not be done.
        package static let final = Facts(rawValue: 1 << 1)
        /// The host could not be reached or fell silent, which its breaker and its adaptive limit count.
        package static let failureOfHost = Facts(rawValue: 1 << 2)
        /// The head of the answer arrived whole, so that its status code and fields count.
        package static let headCounts = Facts(rawValue: 1 << 3)
        /// A mirror may have what this server could not give.
        package static let otherServerHelps = Facts(rawValue: 1 << 4)
        /// The cause is on this side, so that the other segments of a download would fail too.
        package static let local = Facts(rawValue: 1 << 5)
        /// The same request may succeed hours later, when somebody has mended the cause.
        package static let mendable = Facts(rawValue: 1 << 6)
    }
}
