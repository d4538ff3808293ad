// The schemes by which a password may be sent.

extension PasswordAuthenticator {
    /// The schemes by which a password may be sent.
    public struct Schemes: OptionSet, Sendable {
        /// The bits of the options.
        public let rawValue: Int

        /// Makes a set from the bits of its options.
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// Basic with every request, even without a challenge.
        ///
        /// No other scheme is tried with this option.
        ///
        /// The option saves a round trip, but sends the password to servers that have not requested it.
        public static let preemptiveBasic = Schemes(rawValue: 1)
        /// Basic, if a server requests it.
        public static let basic = Schemes(rawValue: 2)
        /// Digest, if a server requests it.
        public static let digest = Schemes(rawValue: 4)
    }
}
