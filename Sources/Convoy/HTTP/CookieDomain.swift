// The hosts of cookies: RFC 6265bis, sections 5.1.2 and 5.1.3.
import Foundation

/// Rules for the hosts of cookies, which are in lower case.
enum CookieDomain {
    /// The host of a URL in lower case and ASCII, without the brackets of an IPv6 address; nil if there is none.
    ///
    /// - Complexity: O(*n*) for *n* bytes.
    static func host(of url: URL) -> String? {
        guard let encoded = url.host(percentEncoded: true), !encoded.isEmpty else { return nil }
        // `URL.host` spells an international name in Punycode, as a server's Domain attribute does. `URL.host` also
        // decodes percent escapes, so the result is used only if it is a plain name without `/` or NUL.
        guard encoded.utf8.contains(UInt8(ascii: "%")), let plain = url.host, plain.utf8.allSatisfy(isNameByte) else {
            return encoded.lowercased()
        }
        return plain.lowercased()
    }

    /// A domain with its ASCII letters in lower case, optionally without a leading dot (RFC 6265bis, section 5.6.3).
    ///
    /// Other letters are not changed, because `lowercased()` would turn the kelvin sign into the ASCII letter k.
    static func lowercased(_ domain: some StringProtocol, droppingDot: Bool) -> String {
        let bytes = domain.utf8.dropFirst(droppingDot && domain.utf8.first == UInt8(ascii: ".") ? 1 : 0)
        return String(decoding: bytes.map { (0x41...0x5A).contains($0) ? $0 | 0x20 : $0 }, as: UTF8.self)
    }

    /// Whether a host is a name that can have subdomains.
    ///
    /// Such a host is not an IP address and not longer than DNS allows.
    ///
    /// The limit of 253 octets (RFC 1035, section 3.1) also limits the number of parent lookups. A name whose last
    /// label is a number is an address (WHATWG URL, section 3.5).
    static func isHostName(_ host: String) -> Bool {
        guard !host.isEmpty, host.utf8.count <= 253, !host.utf8.contains(UInt8(ascii: ":")) else { return false }
        let labels = host.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: true)
        guard let last = labels.last else { return false }
        let isDecimal = last.allSatisfy { (0x30...0x39).contains($0) }
        return !isDecimal && !isHexadecimal(last)
    }

    /// Whether a host domain-matches a domain (RFC 6265bis, section 5.1.3).
    static func matches(_ host: String, _ domain: String) -> Bool {
        let (whole, end) = (host.utf8, domain.utf8)
        if whole.count <= end.count { return whole.elementsEqual(end) }
        return whole.suffix(end.count).elementsEqual(end)
            && whole.dropLast(end.count).last == UInt8(ascii: ".") && isHostName(host)
    }

    /// Whether a cookie may apply to a domain and its subdomains.
    ///
    /// The domain needs two non-empty labels and must not be a public suffix.
    ///
    /// Empty labels are rejected because `com.` is the same top-level domain as `com`.
    static func mayBeShared(_ domain: String) -> Bool {
        let labels = domain.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return labels.allSatisfy { !$0.isEmpty } && isHostName(domain) && !PublicSuffixes.contains(domain)
    }

    /// A host and its parent domains up to the registered domain: all domains whose cookies apply to the host.
    ///
    /// - Complexity: O(*n*) for a host that is not a name, else O(*n* * *l*) for *n* bytes (at most 253) and *l*
    ///   labels.
    static func domains(of host: String) -> [String] {
        var domains = [host]
        var rest = host[...]
        let site = PublicSuffixes.site(of: host)
        while rest.utf8.count > site.utf8.count, let dot = rest.utf8.firstIndex(of: UInt8(ascii: ".")) {
            rest = rest[rest.utf8.index(after: dot)...]
            domains.append(String(rest))
        }
        return domains
    }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        byte.isASCIILetter || (byte | 0x20).isASCIILetter || (0x30...0x39).contains(byte) || "-._".utf8.contains(byte)
    }

    private static func isHexadecimal(_ label: Substring.UTF8View) -> Bool {
        let digits = label.dropFirst(2)
        return label.starts(with: "0x".utf8)
            && digits.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
    }
}
