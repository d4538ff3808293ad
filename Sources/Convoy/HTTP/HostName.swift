// Names and addresses of hosts: WHATWG URL, section 3.5.
import Foundation

/// A host of http or https in its canonical spelling.
///
/// Names are in lower case, and names in other scripts are in the ASCII form of DNS (IDNA). IPv4 addresses have four
/// decimal numbers. IPv6 addresses are in brackets, in their shortest form. All spellings of a host therefore have
/// the same origin.
struct HostName {
    let text: String

    /// Reads the host of a URL; nil for a host that browsers reject.
    ///
    /// Unlike in browsers, an IPv6 address may name its zone (RFC 6874).
    init?(_ host: some StringProtocol) {
        if host.hasPrefix("[") {
            guard host.hasSuffix("]"), let address = Self.addressOfIPv6(host.dropFirst().dropLast()) else { return nil }
            text = "[\(address)]"
            return
        }
        guard var name = host.removingPercentEncoding, Self.isSafe(name) else { return nil }
        if !name.utf8.allSatisfy({ $0 < 0x80 }) || name.lowercased().contains("xn--") {
            guard let ascii = Self.inASCII(name), Self.isSafe(ascii) else { return nil }
            name = ascii
        }
        name = name.lowercased()
        guard Self.endsInNumber(name) else {
            text = name
            return
        }
        guard let address = Self.addressOfIPv4(name) else { return nil }
        text = [24, 16, 8, 0].map { String(address >> $0 & 255) }.joined(separator: ".")
    }

    /// Whether a name has no control characters, blanks or characters with a meaning in a URL (forbidden domain code
    /// points).
    private static func isSafe(_ name: String) -> Bool {
        !name.isEmpty && !name.utf8.contains { $0 <= 0x20 || $0 == 0x7F || "#%/:<>?@[\\]^|".utf8.contains($0) }
    }

    /// A name in the ASCII form of DNS (UTS #46); nil when the conversion fails.
    private static func inASCII(_ name: String) -> String? {
        // Foundation checks the labels of a name only if one of them is in another script. A label in another script is
        // therefore appended, and removed from the result.
        let more = ".\u{FC}"
        guard let url = URL(string: "http://\(name)\(more)/", encodingInvalidCharacters: true) else { return nil }
        return String(url.absoluteString.dropFirst("http://".count).dropLast(".xn--tda/".count))
    }

    // MARK: Addresses

    private static func addressOfIPv6(_ text: some StringProtocol) -> String? {
        let zone = text.range(of: "%25").map { text[$0.lowerBound...] }
        var address = in6_addr()
        guard inet_pton(AF_INET6, String(text.prefix(upTo: zone?.startIndex ?? text.endIndex)), &address) == 1 else {
            return nil
        }
        var buffer = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        guard inet_ntop(AF_INET6, &address, &buffer, socklen_t(buffer.count)) != nil else { return nil }
        let bytes = buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        return String(decoding: bytes, as: UTF8.self) + (zone ?? "")
    }

    /// Whether the last label of a name is a number.
    ///
    /// The name is then an IPv4 address or invalid.
    private static func endsInNumber(_ name: String) -> Bool {
        var labels = name.split(separator: ".", omittingEmptySubsequences: false)
        if labels.count > 1, labels.last == "" { labels.removeLast() }
        guard let last = labels.last, !last.isEmpty else { return false }
        if last.hasPrefix("0x") { return last.utf8.dropFirst(2).allSatisfy { $0.hexadecimalValue != nil } }
        return last.utf8.allSatisfy { (0x30...0x39).contains($0) }
    }

    /// Reads an IPv4 address of one to four numbers: decimal, octal after `0` or hexadecimal after `0x`.
    ///
    /// The last number fills the remaining bytes of the address. Nil for an invalid address.
    private static func addressOfIPv4(_ name: String) -> UInt64? {
        var labels = name.split(separator: ".", omittingEmptySubsequences: false)
        if labels.last == "" { labels.removeLast() }
        let numbers = labels.compactMap(number)
        guard (1...4).contains(labels.count), numbers.count == labels.count, let last = numbers.last,
            numbers.dropLast().allSatisfy({ $0 <= 255 }), last < 1 << (8 * UInt64(5 - numbers.count))
        else { return nil }
        return zip([24, 16, 8] as [UInt64], numbers.dropLast()).reduce(last) { $0 + $1.1 << $1.0 }
    }

    private static func number(_ label: Substring) -> UInt64? {
        guard !label.isEmpty, label.utf8.allSatisfy({ $0.hexadecimalValue != nil || $0 == UInt8(ascii: "x") }) else {
            return nil
        }
        if label.hasPrefix("0x") { return label.count == 2 ? 0 : UInt64(label.dropFirst(2), radix: 16) }
        return label.hasPrefix("0") ? UInt64(label, radix: 8) : UInt64(label)
    }
}
