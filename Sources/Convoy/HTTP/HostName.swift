// Names and addresses of hosts: WHATWG URL, section 3.5.
import Foundation

// The canonical spelling, so that all spellings of a host have the same origin. Names are in lower case, in other
// scripts in the ASCII form of DNS (IDNA). IPv4 addresses have four decimal numbers. IPv6 addresses are in brackets, in
// their shortest form.
struct HostName {
    let text: String

    /// Nil for a host that browsers reject; unlike there, an IPv6 address may name its zone (RFC 6874).
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

    /// No control characters, blanks or characters with a meaning in a URL (forbidden domain code points).
    private static func isSafe(_ name: String) -> Bool {
        !name.isEmpty && !name.utf8.contains { $0 <= 0x20 || $0 == 0x7F || "#%/:<>?@[\\]^|".utf8.contains($0) }
    }

    private static func inASCII(_ name: String) -> String? {
        // Foundation checks the labels of a name only if one of them is in another script. A label in another script is
        // therefore appended, and removed from the result.
        let more = ".\u{FC}"
        guard let url = URL(string: "http://\(name)\(more)/", encodingInvalidCharacters: true) else { return nil }
        return String(url.absoluteString.dropFirst("http://".count).dropLast(".xn--tda/".count))
    }

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

    /// The name is then an IPv4 address or invalid.
    static func endsInNumber(_ name: String) -> Bool {
        var labels = name.split(separator: ".", omittingEmptySubsequences: false)
        if labels.count > 1, labels.last == "" { labels.removeLast() }
        guard let last = labels.last, !last.isEmpty else { return false }
        if last.hasPrefix("0x") { return last.utf8.dropFirst(2).allSatisfy { $0.hexadecimalValue != nil } }
        return last.utf8.allSatisfy(\.isDigit)
    }

    // One to four numbers: decimal, octal after `0` or hexadecimal after `0x`. The last one fills the remaining bytes
    // of the address. Nil for an invalid address.
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

// The domains that cookies must not be set for. This is not the Public Suffix List, which has about ten thousand
// entries and changes every week. Below a suffix that the table lacks, a host may set a cookie that its siblings
// receive, as in any client without a list (RFC 6265bis, section 8.9).
enum PublicSuffixes {
    static func contains(_ domain: some StringProtocol) -> Bool {
        guard domain.utf8.contains(UInt8(ascii: ".")) else { return true }
        return table.contains(String(domain))
    }

    // The host itself if it is a public suffix or not a name. Cookies of two hosts can interact only if both have the
    // same registered domain. A suffix of three labels would break this rule, because its parent domain could have a
    // cookie. So the table contains none.
    static func site(of host: String) -> String {
        let (bytes, dot) = (host.utf8, UInt8(ascii: "."))
        guard CookieDomain.isHostName(host), let last = bytes.lastIndex(of: dot),
            let second = bytes[..<last].lastIndex(of: dot)
        else { return host }
        let pair = host[bytes.index(after: second)...]
        guard contains(pair) else { return String(pair) }
        return bytes[..<second].lastIndex(of: dot).map { String(host[bytes.index(after: $0)...]) } ?? host
    }

    static let table: Set<String> = Set(
        """
        co.uk org.uk me.uk ltd.uk plc.uk net.uk ac.uk gov.uk nhs.uk police.uk
        com.au net.au org.au edu.au gov.au id.au asn.au co.nz net.nz org.nz ac.nz govt.nz
        co.jp ne.jp or.jp ac.jp go.jp ad.jp co.kr or.kr ne.kr go.kr ac.kr re.kr
        com.cn net.cn org.cn gov.cn edu.cn ac.cn com.tw org.tw net.tw edu.tw gov.tw com.hk org.hk net.hk edu.hk gov.hk
        com.sg net.sg org.sg edu.sg gov.sg com.my net.my org.my gov.my com.ph net.ph org.ph gov.ph
        co.in net.in org.in firm.in gen.in ac.in edu.in gov.in nic.in com.pk
        co.id or.id web.id ac.id go.id co.th or.th ac.th go.th in.th com.vn net.vn org.vn edu.vn gov.vn
        com.br net.br org.br gov.br edu.br com.mx net.mx org.mx gob.mx edu.mx com.ar net.ar org.ar gob.ar edu.ar
        com.co net.co org.co edu.co gov.co com.pe com.ve com.ec com.uy
        com.tr net.tr org.tr edu.tr gov.tr co.il org.il net.il ac.il gov.il com.sa com.eg
        co.za org.za net.za ac.za gov.za web.za com.ng co.ke or.ke
        com.pl net.pl org.pl edu.pl gov.pl waw.pl com.ua net.ua org.ua edu.ua gov.ua kiev.ua com.ru msk.ru spb.ru
        com.es org.es com.pt com.gr com.ro com.fr asso.fr gouv.fr co.at or.at gv.at ac.at co.hu co.it gov.it edu.it
        uk.com us.com eu.com de.com co.com us.org eu.org
        github.io githubusercontent.com gitlab.io bitbucket.io readthedocs.io herokuapp.com netlify.app vercel.app
        vercel.dev now.sh pages.dev workers.dev r2.dev trycloudflare.com web.app firebaseapp.com appspot.com run.app
        translate.goog blogspot.com azurewebsites.net azurestaticapps.net cloudapp.net cloudfront.net
        elasticbeanstalk.com fly.dev deno.dev onrender.com ondigitalocean.app streamlit.app framer.app glitch.me
        ngrok.io repl.co myshopify.com wixsite.com duckdns.org dyndns.org ddns.net no-ip.org
        """.split(whereSeparator: \.isWhitespace).map(String.init))
}
