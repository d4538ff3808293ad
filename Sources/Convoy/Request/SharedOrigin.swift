// One string for the origin of many requests.
import Foundation

extension URL {
    /// The same origin as ``usualOrigin``, in a string that consecutive URLs of one origin share.
    ///
    /// Sharing saves memory: many requests to one host may be queued, and each stores its origin. Each thread remembers
    /// the last origin that it read.
    var sharedOrigin: String? {
        var text = absoluteString
        return text.withUTF8 { bytes in
            guard let (end, hasPort) = Self.usualAuthority(bytes) else { return nil }
            // The fifth byte distinguishes http from https.
            let port = hasPort ? "" : bytes[4] == UInt8(ascii: ":") ? ":80" : ":443"
            let last = LastOrigin.ofThread.value { LastOrigin() }
            if let last, last.isEqual(to: bytes[..<end], port) { return last.text }
            let origin = String(decoding: bytes[..<end], as: UTF8.self) + port
            last?.text = origin
            return origin
        }
    }
}

/// The last origin that a thread has read.
private final class LastOrigin {
    static let ofThread = ThreadObject<LastOrigin>()

    var text = ""

    func isEqual(to authority: Slice<UnsafeBufferPointer<UInt8>>, _ port: String) -> Bool {
        let known = text.utf8
        return known.count == authority.count + port.utf8.count && known.starts(with: authority)
            && known.dropFirst(authority.count).elementsEqual(port.utf8)
    }
}
