import Convoy
import Foundation

enum OutputFile {
    static func write(_ data: Data, to path: String, mode: mode_t = 0o666) -> String? {
        let isSpecial = FileType.of(path, followsLinks: false).map { $0 != S_IFREG } ?? false
        let code = isSpecial ? fill(path, O_TRUNC, mode, data) : replace(data, at: path, mode: mode)
        return code == 0 ? nil : "\(path) cannot be written: \(String(cString: strerror(code)))"
    }

    // Returns 0 or an `errno`. The new file keeps the permissions of the replaced file.
    static func replace(_ data: Data, at path: String, mode: mode_t = 0o666) -> Int32 {
        let directory = path.lastIndex(of: "/").map { path[...$0] } ?? ""
        // The name is random. Otherwise, in a shared directory, another user could make a file of that name first.
        let temporary = "\(directory).convoy-\(UUID().uuidString).tmp"
        // The new file is private until it has the permissions of the replaced file.
        let isFile = FileType.of(path, followsLinks: false) == S_IFREG
        var code = fill(
            temporary, O_CREAT | O_EXCL | O_NOFOLLOW, isFile ? 0o600 : mode, data, replacing: isFile ? path : nil)
        if code == 0, rename(temporary, path) != 0 {
            code = errno
            unlink(temporary)
        }
        return code
    }

    static func create(_ bytes: some ContiguousBytes, at path: String, mode: mode_t = 0o666) -> Int32 {
        fill(path, O_CREAT | O_EXCL | O_NOFOLLOW, mode, bytes)
    }

    private static func fill(
        _ path: String, _ flags: Int32, _ mode: mode_t, _ bytes: some ContiguousBytes, replacing replaced: String? = nil
    ) -> Int32 {
        let descriptor = open(path, O_WRONLY | O_CLOEXEC | flags, mode)
        guard descriptor >= 0 else { return errno }
        var code = bytes.withUnsafeBytes { StandardStreams.write($0, to: descriptor) }
        if code == 0, let replaced { _ = PartFile.copyPermissions(of: replaced, to: descriptor) }
        if close(descriptor) != 0, code == 0 { code = errno }
        if code != 0, flags & O_CREAT != 0 { unlink(path) }
        return code
    }
}

extension Console {
    func write(_ data: Data, to path: String, mode: mode_t = 0o666) -> Bool {
        guard let problem = OutputFile.write(data, to: path, mode: mode) else { return true }
        printError("convoy: \(problem)")
        return false
    }
}
