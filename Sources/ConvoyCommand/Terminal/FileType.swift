import Foundation

enum FileType {
    static func of(_ path: String, followsLinks: Bool = true) -> mode_t? {
        var status = stat()
        return (followsLinks ? stat(path, &status) : lstat(path, &status)) == 0 ? status.st_mode & S_IFMT : nil
    }

    static func of(_ descriptor: Int32) -> mode_t? {
        var status = stat()
        return fstat(descriptor, &status) == 0 ? status.st_mode & S_IFMT : nil
    }

    // The command writes to the target and keeps the link, as curl does.
    static func target(ofLink path: String) -> String {
        var path = path
        for _ in 0..<40 where of(path, followsLinks: false) == S_IFLNK {
            guard let next = try? FileManager.default.destinationOfSymbolicLink(atPath: path) else { break }
            let slash = path.lastIndex(of: "/").map { path[...$0] } ?? ""
            path = next.hasPrefix("/") ? next : slash + next
        }
        return path
    }

    static func resolved(_ path: String) -> String? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }

    static func problem(with path: String, isDirectory: Bool) -> Int32 {
        guard let type = of(path) else { return errno }
        if isDirectory != (type == S_IFDIR) { return isDirectory ? ENOTDIR : EISDIR }
        return access(path, isDirectory ? W_OK | X_OK : R_OK) == 0 ? 0 : errno
    }
}
