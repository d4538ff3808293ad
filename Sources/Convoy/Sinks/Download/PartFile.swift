// The file that a download is written to, under a name of its own beside the target.
import Foundation

/// A part: an open, locked file.
///
/// The lock keeps other downloads away, and ends with the process, however that ends. A process that asks for no lock may
/// still write to the file; see ``isIntact``.
///
/// Used by one thread at a time.
final class PartFile {
    let path: String
    /// How many bytes it has.
    private(set) var byteCount: Int64
    /// Whether it was there before, with bytes.
    let wasThere: Bool
    /// Whether it has been made here.
    let isNew: Bool
    /// The open descriptor; -1 when closed.
    private(set) var descriptor: Int32
    /// Which file system it is on.
    private let device: dev_t

    /// What the file's mode is to be, where it is another than the part's; a part can be opened again by its owner.
    private let finalPermissions: mode_t?

    private init(path: String, descriptor: Int32, _ status: stat, _ permissions: mode_t, isNew: Bool) {
        (self.path, self.descriptor, self.isNew, device) = (path, descriptor, isNew, status.st_dev)
        // The process's mask has had its part when the file was made.
        let mode = status.st_mode & 0o7777
        finalPermissions = mode & permissions == mode ? nil : mode & permissions
        byteCount = Int64(status.st_size)
        wasThere = status.st_size > 0
    }

    deinit { close() }

    /// Opens the part or makes it, and locks it.
    ///
    /// What is not a regular file of our own with one name (a planted link) is taken away, not written to.
    ///
    /// - Parameter isFilledInPlace: whether it is written to in several places; otherwise it grows from its end.
    /// - Throws: `.destinationInUse` when another download has it.
    static func open(
        _ path: String, permissions: mode_t, isFilledInPlace: Bool = false
    ) throws(RequestError) -> PartFile {
        let flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | (isFilledInPlace ? 0 : O_APPEND)
        // The process that had it may rename or remove it between our opening and locking it: look again, a bounded number
        // of times.
        for _ in 0..<16 {
            // What we have made is ours, whatever owner the file system gives it.
            var isNew = true
            var descriptor = Foundation.open(path, flags | O_CREAT | O_EXCL, permissions | 0o600)
            if descriptor < 0, errno == EEXIST {
                isNew = false
                descriptor = Foundation.open(path, flags | O_NONBLOCK)
                // It went in between.
                if descriptor < 0, errno == ENOENT { continue }
            }
            guard descriptor >= 0 else {
                let problem = errno
                if problem == ELOOP || problem == ENXIO, unlink(path) == 0 { continue }
                let directory = URL(filePath: path).deletingLastPathComponent().path
                let isThere = access(directory, F_OK) == 0
                guard problem == ENOTDIR || problem == ENOENT && !isThere else {
                    throw .file("could not be created", path, problem)
                }
                throw RequestError(
                    .destinationUnwritable,
                    isThere
                        ? "nothing was sent: \(directory) is not a directory"
                        : "nothing was sent: the directory \(directory) does not exist; make it first",
                    underlying: POSIXError(POSIXErrorCode(rawValue: problem) ?? .ENOENT))
            }
            var (opened, named) = (stat(), stat())
            let problem = lock(descriptor)
            guard problem == 0, fstat(descriptor, &opened) == 0 else {
                let code = problem == 0 ? errno : problem
                Foundation.close(descriptor)
                guard code != EWOULDBLOCK else { throw .inUse(path) }
                throw .file("could not be locked", path, code)
            }
            let isNamed =
                lstat(path, &named) == 0 && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev
            let isOurs =
                opened.st_mode & S_IFMT == S_IFREG && opened.st_nlink == 1 && (isNew || opened.st_uid == geteuid())
            if isNamed, isOurs {
                return PartFile(path: path, descriptor: descriptor, opened, permissions, isNew: isNew)
            }
            if isNamed { unlink(path) }
            Foundation.close(descriptor)
        }
        throw .file("could not be created", path, EBUSY)
    }

    private static func lock(_ descriptor: Int32) -> Int32 {
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 { if errno != EINTR { return errno } }
        return 0
    }

    /// Writes bytes to a place of a file.
    ///
    /// - Parameters:
    ///   - position: where; behind what was written afterwards, also when not everything could be.
    ///   - appends: whether the place is the end of the file, wherever that is.
    /// - Returns: 0, or the error number.
    static func write(
        _ data: Data, to descriptor: Int32, at position: inout Int64, appends: Bool = false
    ) -> Int32 {
        data.withUnsafeBytes { bytes in
            var rest = bytes[...]
            while !rest.isEmpty {
                let piece = UnsafeRawBufferPointer(rebasing: rest)
                let written =
                    appends
                    ? Foundation.write(descriptor, piece.baseAddress, piece.count)
                    : pwrite(descriptor, piece.baseAddress, piece.count, off_t(position))
                if written > 0 {
                    rest = rest.dropFirst(written)
                    position += Int64(written)
                } else if written == 0 || errno != EINTR {
                    return written == 0 ? ENOSPC : errno
                }
            }
            return 0
        }
    }

    /// Writes bytes to a place; those that could be written stay when it fails, and the place is behind them.
    func write(_ data: Data, at position: inout Int64) throws(RequestError) {
        let problem = Self.write(data, to: descriptor, at: &position)
        byteCount = max(byteCount, position)
        guard problem == 0 else { throw .file("could not be written", path, problem) }
    }

    /// Reads bytes that are there.
    ///
    /// - Returns: at most so many; none at the end.
    func read(_ limit: Int, at offset: Int64) throws(RequestError) -> Data {
        var data = Data(count: limit)
        while true {
            let count = data.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress, $0.count, off_t(offset)) }
            if count >= 0 { return data.prefix(count) }
            if errno != EINTR { throw .file("could not be read", path, errno) }
        }
    }

    /// Appends bytes; those that could be written stay when it fails.
    ///
    /// They go to the end of the file. A position would leave a hole where another process has cut the file off, and
    /// then its length would say nothing.
    func append(_ data: Data) throws(RequestError) {
        let problem = Self.write(data, to: descriptor, at: &byteCount, appends: true)
        guard problem == 0 else { throw .file("could not be written", path, problem) }
    }

    /// Whether it has the length that it was given here: false when another process has changed it.
    var isIntact: Bool {
        var status = stat()
        return fstat(descriptor, &status) == 0 && Int64(status.st_size) == byteCount
    }

    /// Cuts off what is behind so many bytes, or lengthens it by a hole.
    func truncate(to count: Int64) throws(RequestError) {
        guard byteCount != count else { return }
        while ftruncate(descriptor, off_t(count)) != 0 {
            if errno != EINTR { throw .file("could not be given its length", path, errno) }
        }
        byteCount = count
    }

    /// Returns when the bytes are on the disk.
    func synchronize() throws(RequestError) {
        guard PartFile.synchronize(descriptor) == 0 else { throw .file("could not be written", path, errno) }
    }

    /// Has its bytes on the disk, then does what gives it its name, together with other files that are ready.
    ///
    /// - Parameter directory: where the name is.
    func commit(
        in directory: String, _ place: @escaping @Sendable () -> Result<URL, RequestError>,
        _ completion: @escaping @Sendable (Result<URL, RequestError>) -> Void
    ) {
        DiskSync.of(device).commit(
            DiskSync.File(
                descriptor: descriptor, path: path, directory: directory, place: place, completion: completion))
    }

    func setFinalPermissions() throws(RequestError) {
        guard let finalPermissions, fchmod(descriptor, finalPermissions) != 0 else { return }
        throw .file("could not be given its permissions", path, errno)
    }

    /// Sets the time of its last change, and tells what the file then is.
    func status(changedAt seconds: Int64?) throws(RequestError) -> stat {
        if let seconds, let time = time_t(exactly: seconds) {
            let moment = timespec(tv_sec: time, tv_nsec: 0)
            guard futimens(descriptor, [moment, moment]) == 0 else {
                throw .file("could not be given its time", path, errno)
            }
        }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw .file("could not be looked at", path, errno) }
        return status
    }

    /// Whether what lies under the part's name is this part; it may have been removed, and a new one begun.
    var hasItsName: Bool {
        var (opened, named) = (stat(), stat())
        return fstat(descriptor, &opened) == 0 && lstat(path, &named) == 0 && opened.st_ino == named.st_ino
            && opened.st_dev == named.st_dev
    }

    func checkName() throws(RequestError) {
        guard hasItsName else {
            throw .file("was removed or replaced while it was written", path, ENOENT)
        }
    }

    func remove() { if hasItsName { unlink(path) } }

    /// Gives the lock back.
    func close() {
        guard descriptor >= 0 else { return }
        // A child that has been forked and has not called `exec` yet has the descriptor too: closing ours is not enough.
        _ = flock(descriptor, LOCK_UN)
        Foundation.close(descriptor)
        descriptor = -1
    }

    /// How many bytes a file system has left for such a file; nil when it does not tell.
    var freeBytes: Int64? {
        var status = statvfs()
        return fstatvfs(descriptor, &status) == 0 ? Self.freeBytes(status) : nil
    }

    /// How many bytes are left by the system's answer; nil when it is of a file system without sizes, which has no block.
    static func freeBytes(_ status: statvfs) -> Int64? {
        guard status.f_blocks > 0 else { return nil }
        let (bytes, overflow) = UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize))
        return overflow ? nil : Int64(clamping: bytes)
    }
}

extension RequestError {
    /// Something about a file failed.
    static func file(_ what: String, _ path: String, _ code: Int32) -> RequestError {
        let reason = POSIXError(POSIXErrorCode(rawValue: code) ?? .EIO)
        let isFull = [ENOSPC, EDQUOT].contains(code)
        return RequestError(
            isFull ? .diskFull : .destinationUnwritable, "the file \(path) \(what): \(reason.localizedDescription)",
            underlying: reason)
    }

    static func inUse(_ path: String) -> RequestError {
        RequestError(
            .destinationInUse,
            "another download to the same file is under way: it has locked \(path); wait for it, or choose another file"
        )
    }
}
