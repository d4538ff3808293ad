// How a password may be sent.

extension PasswordAuthenticator {
    /// Ways of sending a password.
    public struct Schemes: OptionSet, Sendable {
        /// The sum of the options' bits.
        public let rawValue: Int

        /// Makes a set from the sum of its options' bits.
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// Basic with every request, whether it was asked for or not; nothing else is tried then.
        ///
        /// Saves a round trip, and shows the password to servers that never asked.
        public static let preemptiveBasic = Schemes(rawValue: 1)
        /// Basic where a server asks for it.
        public static let basic = Schemes(rawValue: 2)
        /// Digest where a server asks for it.
        public static let digest = Schemes(rawValue: 4)
    }
}
