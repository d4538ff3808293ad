// The temporary names of downloads that were cancelled.
import Foundation

enum TemporaryFiles {
    /// Waits, for half a second at most, until no temporary file has been seen in a directory for a moment.
    ///
    /// A cancelled request ends while the loader's thread may still be inside its last write, after which it removes the
    /// file, or receiving a head, for which it makes a file and removes it at once. To leave in that moment would leave
    /// the file. Files of another process are not ours to remove; the wait ends without them.
    static func waitUntilGone(in directory: String) {
        let deadline = ContinuousClock.now + .milliseconds(500)
        var quietLooks = 0
        while quietLooks < 6, .now < deadline {
            quietLooks = isAny(in: directory) ? 0 : quietLooks + 1
            usleep(10_000)
        }
    }

    static func isAny(in directory: String) -> Bool {
        guard let stream = opendir(directory) else { return false }
        defer { closedir(stream) }
        while let entry = readdir(stream) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name.hasPrefix(".convoy-"), name.hasSuffix(".part") { return true }
        }
        return false
    }
}
