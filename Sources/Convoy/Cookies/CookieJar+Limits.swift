// How much a jar stores: RFC 6265bis, sections 5.6 and 6.1.
import Foundation

extension CookieJar {
    /// How many cookies a jar stores, and how large they may be.
    ///
    /// A cookie that exceeds a size is not stored. A cookie that exceeds a count replaces others.
    ///
    /// The defaults are those of RFC 6265bis, which servers rely on. With a limit of zero or less the jar stores
    /// nothing.
    public struct Limits: Sendable, Hashable {
        /// The maximum size of name and value together, in bytes; 4,096 by default.
        public var maxCookieBytes: Int64 = 4_096
        /// The maximum size of an attribute's value, in bytes; 1,024 by default.
        ///
        /// A longer attribute is ignored.
        public var maxAttributeBytes: Int64 = 1_024
        /// The maximum number of cookies of one domain; 50 by default.
        ///
        /// Beyond that, the least recently used cookie without `Secure` is removed, or else the least recently used
        /// one.
        public var maxCookiesPerDomain = 50
        /// The maximum number of cookies in the jar; 3,000 by default.
        ///
        /// Beyond that, expired cookies are removed. If that is not enough, the least recently used tenth is removed
        /// too.
        public var maxCookieCount = 3_000

        /// Makes the limits of RFC 6265bis.
        public init() {}

        /// Whether name and value together have at most ``maxCookieBytes``.
        func allowsPair(_ name: String, _ value: String) -> Bool {
            Int64(name.utf8.count + value.utf8.count) <= maxCookieBytes
        }

        /// Whether the value of an attribute has at most ``maxAttributeBytes``.
        func allowsAttribute(_ value: Substring) -> Bool { Int64(value.utf8.count) <= maxAttributeBytes }
    }
}

extension SetCookie {
    /// Reads a field's value within the limits of a jar; nil if the field must be ignored.
    init?(_ text: Substring, limits: CookieJar.Limits, now: Date) {
        self.init(
            text, maxCookieBytes: limits.maxCookieBytes, maxAttributeBytes: limits.maxAttributeBytes,
            now: now)
    }
}
