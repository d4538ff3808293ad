import Convoy
import Foundation

/// The primary key of a stored response: RFC 9111, section 2.
package enum CacheKey {
    static func key(_ query: CacheQuery, _ digest: KeyedDigest) -> String {
        if let key = query.options.key { return "key:" + key }
        return key(query.request.url, host: query.request.headerFields["Host"], digest)
    }

    /// The key of a URL in a request whose `Host` field may name another host (RFC 9110, section 7.1).
    static func key(_ url: URL, host: String?, _ digest: KeyedDigest) -> String {
        let key = key(url, digest)
        guard let host else { return key }
        // A field with more than a host and a port names no host.
        guard !host.utf8.contains(where: "/?#@\\".utf8.contains),
            case .success(let origin)? = URL(string: "\(url.scheme ?? "http")://\(host)")?.origin
        else { return key + hostMark + "?" + host }
        if case .success(origin) = url.origin { return key }
        return key + hostMark + origin
    }

    /// The separator before the host in the key of a request whose `Host` field does not name the host of its URL.
    package static let hostMark = "#host:"

    /// User name and password select the response but must not be stored; the key contains their digest instead.
    static func key(_ url: URL, _ digest: KeyedDigest) -> String {
        var text = url.absoluteString
        if let usual = usualKey(&text) { return usual }
        let whole = text.prefix { $0 != "#" }
        guard case .success(let origin) = url.origin, let colon = whole.utf8.firstIndex(of: UInt8(ascii: ":")) else {
            return String(whole)
        }
        let rest = whole[colon...].dropFirst(3).drop { $0 != "/" && $0 != "?" }
        var key = origin + (rest.first == "/" ? "" : "/") + rest
        if url.user != nil || url.password != nil {
            key += "#" + digest.of("\(url.user ?? ""):\(url.password ?? "")")
        }
        return key
    }

    /// Returns nil if scheme or host is not in lower case, or if the host is neither a name nor an IPv4 address.
    private static func usualKey(_ text: inout String) -> String? {
        text.withUTF8 { bytes in
            guard let (end, hasPort) = URL.usualAuthority(bytes) else { return nil }
            let fragment = bytes[end...].firstIndex(of: UInt8(ascii: "#")) ?? bytes.endIndex
            let rest = UnsafeBufferPointer(rebasing: bytes[end..<fragment])
            // The fifth byte distinguishes http from https.
            var middle = hasPort ? "" : bytes[4] == UInt8(ascii: ":") ? ":80" : ":443"
            if rest.first != UInt8(ascii: "/") { middle += "/" }
            // The key is built in one allocation, because each request needs a key.
            return String(unsafeUninitializedCapacity: end + middle.utf8.count + rest.count) { key in
                var count = key.initialize(fromContentsOf: bytes[..<end])
                count = key[count...].initialize(fromContentsOf: middle.utf8)
                return key[count...].initialize(fromContentsOf: rest)
            }
        }
    }
}
