// How much a jar keeps: RFC 6265bis, sections 5.6 and 6.1.
import Foundation

extension CookieJar {
    /// How many cookies a jar keeps and how large they may be; what exceeds a limit is not stored, or drives out
    /// others.
    ///
    /// The defaults are those of RFC 6265bis; servers count on them. A limit of zero or less keeps nothing.
    public struct Limits: Sendable, Hashable {
        /// The size of name and value together, in bytes: 4,096.
        public var maxCookieBytes: Int64 = 4_096
        /// The size of an attribute's value, in bytes: 1,024.
        ///
        /// A longer attribute is passed over.
        public var maxAttributeBytes: Int64 = 1_024
        /// How many cookies one domain has: 50.
        ///
        /// Those go first that are not Secure, then those used longest ago.
        public var maxCookiesPerDomain = 50
        /// How many cookies there are in all: 3,000.
        ///
        /// Beyond, those that have expired go, else the tenth used longest ago.
        public var maxCookieCount = 3_000

        /// Makes the limits of RFC 6265bis.
        public init() {}

        /// Whether name and value are short enough.
        func allowsPair(_ name: String, _ value: String) -> Bool {
            Int64(name.utf8.count + value.utf8.count) <= maxCookieBytes
        }

        /// Whether the value of an attribute is short enough.
        func allowsAttribute(_ value: Substring) -> Bool { Int64(value.utf8.count) <= maxAttributeBytes }
    }
}

extension SetCookie {
    /// Reads a field's value within the limits of a jar; nil when it is to be ignored as a whole.
    init?(_ text: Substring, limits: CookieJar.Limits, now: Date) {
        self.init(
            text, maxCookieBytes: limits.maxCookieBytes, maxAttributeBytes: limits.maxAttributeBytes,
            now: now)
    }
}
