import ConvoySQLite
import Foundation

extension QueueError {
    init(_ error: any Error, of path: String, doing action: String = "written or read") {
        switch error {
        case let error as QueueError: self = error
        case let error as SQLiteError:
            self.init(path: path, code: error.code, system: error.system, doing: action, message: error.message)
        default: self.init(.failed, "\(path) could not be \(action): \(error)")
        }
    }

    init(path: String, code: Int32, system: Int32, doing action: String, message: String = "") {
        // Without permission to write a file, SQLite tries to read it, and reports the failure of that attempt.
        let isUnclear = code & 0xFF == 8 || (code & 0xFF == 14 && system == ENOENT)
        let system = isUnclear ? Self.refusal(of: path) ?? system : system
        // `errno` is meaningful only for failures of system calls.
        let isOfSystem = system != 0 && [10, 13, 14].contains(code & 0xFF)
        let reason = isOfSystem ? String(cString: strerror(system)) : message
        switch (code & 0xFF, system) {
        case (13, _), (10, ENOSPC), (10, EDQUOT), (10, EFBIG):
            self.init(
                .diskFull,
                "\(path) could not be \(action): the disk is full, or a quota or a limit of file sizes was reached "
                    + "(\(reason)). Committed changes are safe; free some space, and the queue continues")
        case (8, EROFS), (10, EROFS), (14, EROFS):
            self.init(
                .notPermitted,
                "\(path) could not be \(action): it is on a read-only file system. A queue is written even to be read, so "
                    + "make the file system writable, or use a copy of the queue")
        case (8, _), (10, EACCES), (10, EPERM), (14, EACCES), (14, EPERM), (3, _):
            self.init(
                .notPermitted,
                "\(path) could not be \(action): the file or its directory is not writable (\(reason)). "
                    + "Give this user write permission to both, because the log of the database is beside it")
        case (14, _):
            self.init(
                .notPermitted,
                "\(path) could not be \(action) (\(reason)). Its directory must exist, and the file must be a regular one"
            )
        case (10, ENOENT):
            self.init(
                .unavailable,
                "\(path) could not be \(action): its directory was removed while the queue used it. Close the queue and "
                    + "open it again, which creates a new one")
        case (26, _):
            self.init(
                .foreignFile, "\(path) is not an SQLite database: name another file; this one was not changed")
        case (11, _):
            self.init(
                .damaged,
                "\(path) is damaged (\(message)). Keep a copy with its -wal file; `sqlite3 \(path) .recover` saves "
                    + "readable rows")
        case (5, _), (6, _):
            self.init(
                .busy,
                "\(path) was locked by another process for more than 10 seconds: end that process, "
                    + "for example an sqlite3 shell in a transaction, and try again")
        default:
            self.init(.failed, "\(path) could not be \(action): SQLite reports \(code), \(message) (\(reason))")
        }
    }

    private static func refusal(of path: String) -> Int32? {
        let directory = URL(filePath: path, directoryHint: .notDirectory).deletingLastPathComponent().path
        if access(path, W_OK) != 0, errno != ENOENT { return errno }
        if access(directory, W_OK | X_OK) != 0, errno != ENOENT { return errno }
        return nil
    }

    /// `path` is the database or its write-ahead log.
    init(moved path: String, of database: String) {
        let rest =
            path == database
            ? "are in the original file: move it back, or close the queue and open it again"
            : "go into \(database) when every process closes it: close it, and open it again"
        self.init(
            .unavailable,
            "\(path) was moved, replaced or removed while the queue used it. This change was not stored; earlier changes "
                + "\(rest)")
    }
}
