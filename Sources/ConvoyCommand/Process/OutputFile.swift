// Writes complete files, for example reports.
import Foundation

enum OutputFile {
    /// Replaces a file atomically; writes directly to a link, a pipe or a device.
    ///
    /// - Returns: error messages; empty if there are none.
    static func write(_ text: String, to path: String, mode: mode_t = 0o666) -> [String] {
        // A link, a pipe or a device is never replaced.
        let isSpecial = FileType.of(path, followsLinks: false).map { $0 != S_IFREG } ?? false
        // The name is random. Otherwise, in a shared directory, another user could make a file of that name first.
        let target = isSpecial ? path : "\(path).\(UUID().uuidString).tmp"
        let flags = isSpecial ? O_TRUNC : O_CREAT | O_EXCL | O_NOFOLLOW
        var code = fill(target, flags, mode, isNew: !isSpecial) { StandardStreams.write(text, to: $0) }
        if code == 0, !isSpecial, rename(target, path) != 0 {
            code = errno
            unlink(target)
        }
        guard code != 0 else { return [] }
        return ["\(path) cannot be written: \(String(cString: strerror(code)))"]
    }

    /// Creates a file; fails with EEXIST if the file exists.
    ///
    /// - Returns: 0, or an `errno`.
    static func create(_ bytes: [UInt8], at path: String, mode: mode_t) -> Int32 {
        fill(path, O_CREAT | O_EXCL | O_NOFOLLOW, mode, isNew: true) { descriptor in
            bytes.withUnsafeBytes { StandardStreams.write($0, to: descriptor) }
        }
    }

    /// Opens a file, writes its content and closes it.
    ///
    /// - Parameter isNew: whether the file is removed if it cannot be written.
    /// - Returns: 0, or an `errno`.
    private static func fill(
        _ path: String, _ flags: Int32, _ mode: mode_t, isNew: Bool, _ write: (Int32) -> Int32
    ) -> Int32 {
        let descriptor = open(path, O_WRONLY | O_CLOEXEC | flags, mode)
        guard descriptor >= 0 else { return errno }
        var code = write(descriptor)
        if close(descriptor) != 0, code == 0 { code = errno }
        if code != 0, isNew { unlink(path) }
        return code
    }
}
