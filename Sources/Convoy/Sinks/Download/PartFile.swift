// The file that a download writes to, under another name beside the target.
import Foundation

#if canImport(CLibcurl)
    import CLibcurl
#endif

/// A part: an open file with a lock.
///
/// The lock excludes other downloads, and the system releases it when the process ends. A process that does not use
/// the lock may still write to the file; see ``isIntact``.
///
/// The owner uses a part on one thread at a time.
package final class PartFile {
    let path: String
    /// The file's number of bytes.
    var byteCount: Int64
    /// Whether the file existed before it was opened, and contained bytes.
    let wasThere: Bool
    /// Whether this instance created the file.
    let isNew: Bool
    /// The open descriptor; -1 when closed.
    private(set) var descriptor: Int32
    /// Whether a rename has given the file its final name.
    ///
    /// ``close()`` does not unlock such a file, because no download locks a file by its final name.
    var isRenamed = false
    /// The file system and the inode of the part, which identify the file while it is open.
    let (device, inode): (dev_t, ino_t)

    /// The final mode of the file, if it differs from the part's mode.
    ///
    /// The owner may always read and write a part, so that a later download can open it.
    private let finalPermissions: mode_t?

    private init(path: String, descriptor: Int32, _ status: stat, _ permissions: mode_t, isNew: Bool) {
        (self.path, self.descriptor, self.isNew) = (path, descriptor, isNew)
        (device, inode) = (status.st_dev, status.st_ino)
        // The umask was applied when the file was created, so the final mode is a subset of the file's mode.
        let mode = status.st_mode & 0o7777
        finalPermissions = mode & permissions == mode ? nil : mode & permissions
        byteCount = Int64(status.st_size)
        wasThere = status.st_size > 0
    }

    deinit { close() }

    /// Opens the part or makes it, and locks it.
    ///
    /// Anything but a regular file of this user with one name, such as a planted link, is removed. A directory is an
    /// error.
    ///
    /// - Parameter isFilledInPlace: whether several segments are written. If false, bytes are appended.
    /// - Throws: `.destinationInUse` when another download has locked the part.
    static func open(
        _ path: String, permissions: mode_t, isFilledInPlace: Bool = false
    ) throws(RequestError) -> PartFile {
        let flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | (isFilledInPlace ? 0 : O_APPEND)
        // Another process may rename or remove the file between opening and locking. So the code tries up to 16 times.
        for _ in 0..<16 {
            // A file that was created here belongs to this user, even if the file system reports another owner.
            var isNew = true
            var descriptor = Foundation.open(path, flags | O_CREAT | O_EXCL, permissions | 0o600)
            if descriptor < 0, errno == EEXIST {
                isNew = false
                descriptor = Foundation.open(path, flags | O_NONBLOCK)
                // Another process removed the file after the attempt to create it.
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
                        : "nothing was sent: the directory \(directory) does not exist; create it first",
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

    /// Writes bytes to a file.
    ///
    /// - Parameters:
    ///   - position: the offset of the first byte; afterwards the offset after the written bytes, even after an error.
    ///   - appends: whether to append to the file instead.
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

    /// Writes bytes at a position.
    ///
    /// After an error the bytes written so far stay, and the position is after them.
    func write(_ data: Data, at position: inout Int64) throws(RequestError) {
        let problem = Self.write(data, to: descriptor, at: &position)
        byteCount = max(byteCount, position)
        guard problem == 0 else { throw .file("could not be written", path, problem) }
    }

    /// Reads existing bytes.
    ///
    /// - Returns: at most `limit` bytes; none at the end.
    func read(_ limit: Int, at offset: Int64) throws(RequestError) -> Data {
        var data = Data(count: limit)
        while true {
            let count = data.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress, $0.count, off_t(offset)) }
            if count >= 0 { return data.prefix(count) }
            if errno != EINTR { throw .file("could not be read", path, errno) }
        }
    }

    /// Appends bytes.
    ///
    /// After an error the bytes written so far stay.
    ///
    /// The method appends instead of writing at a position. If another process truncated the file, a position would
    /// leave a hole, and the length would be meaningless.
    func append(_ data: Data) throws(RequestError) {
        let problem = Self.write(data, to: descriptor, at: &byteCount, appends: true)
        guard problem == 0 else { throw .file("could not be written", path, problem) }
    }

    /// Whether the length is the one that this instance wrote.
    ///
    /// False when another process has changed the length.
    var isIntact: Bool {
        var status = stat()
        return fstat(descriptor, &status) == 0 && Int64(status.st_size) == byteCount
    }

    /// Truncates the file to a length, or lengthens it with a hole.
    func truncate(to count: Int64) throws(RequestError) {
        guard byteCount != count else { return }
        while ftruncate(descriptor, off_t(count)) != 0 {
            if errno != EINTR { throw .file("could not be resized", path, errno) }
        }
        byteCount = count
    }

    func synchronize() throws(RequestError) {
        guard PartFile.synchronize(descriptor) == 0 else { throw .file("could not be written", path, errno) }
    }

    /// Whether the file system keeps its files in memory only, so that no file can be synchronised.
    ///
    /// The system is asked for each file, because the number of a device may later belong to a disk.
    var isInMemory: Bool {
        #if canImport(CLibcurl)
            convoy_disk_is_memory(descriptor) != 0
        #else
            false
        #endif
    }

    /// Sets the final mode.
    ///
    /// - Parameters:
    ///   - permissions: the mode that the request sets, which limits who may read and write a replaced file.
    ///   - replaced: the path of the file that the part replaces, if it exists; nil for a new file.
    func setFinalPermissions(_ permissions: mode_t, replacing replaced: String? = nil) throws(RequestError) {
        if let replaced, Self.copyPermissions(of: replaced, to: descriptor, within: permissions | 0o111) { return }
        guard let finalPermissions, fchmod(descriptor, finalPermissions) != 0 else { return }
        throw .file("could not get its permissions", path, errno)
    }

    /// Sets the modification time, and returns the file's status.
    func status(changedAt seconds: Int64?) throws(RequestError) -> stat {
        if let seconds, let time = time_t(exactly: seconds) {
            let moment = timespec(tv_sec: time, tv_nsec: 0)
            guard futimens(descriptor, [moment, moment]) == 0 else {
                throw .file("could not get its modification time", path, errno)
            }
        }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw .file("could not be examined", path, errno) }
        return status
    }

    /// Whether the part's name still refers to this file.
    ///
    /// Another process may have removed the part and created a new one. False after ``close()``.
    var hasItsName: Bool {
        var named = stat()
        return descriptor >= 0 && lstat(path, &named) == 0 && named.st_ino == inode && named.st_dev == device
    }

    func checkName() throws(RequestError) {
        guard hasItsName else {
            throw .file("was removed or replaced while it was written", path, ENOENT)
        }
    }

    func remove() { if hasItsName { unlink(path) } }

    /// Closes the file and releases the lock.
    func close() {
        guard descriptor >= 0 else { return }
        // A forked child that has not called `exec` yet shares the descriptor. Closing the descriptor in this process
        // alone would not release the lock.
        if !isRenamed { _ = flock(descriptor, LOCK_UN) }
        Foundation.close(descriptor)
        descriptor = -1
    }

    /// The free bytes of the file system; nil when unknown.
    var freeBytes: Int64? {
        var status = statvfs()
        return fstatvfs(descriptor, &status) == 0 ? Self.freeBytes(status) : nil
    }

    /// The free bytes according to `statvfs`; nil if the file system reports zero blocks, and on overflow.
    static func freeBytes(_ status: statvfs) -> Int64? {
        guard status.f_blocks > 0 else { return nil }
        let (bytes, overflow) = UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize))
        return overflow ? nil : Int64(clamping: bytes)
    }
}

extension RequestError {
    /// The error for a failed operation on a file.
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
            "another download to the same file is running and has locked \(path); wait for it, or choose another file"
        )
    }
}
