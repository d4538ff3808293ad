// The file that a download writes to, under another name beside the target.
import Foundation

#if canImport(CLibcurl)
    import CLibcurl
#endif

// The lock excludes other downloads; the system releases it when the process ends. A process without the lock may still
// write to the file; see ``isIntact``. One thread at a time uses a part.
package final class PartFile {
    let path: String
    var byteCount: Int64
    private(set) var descriptor: Int32
    private let opened: stat
    private let permissions: mode_t

    private init(path: String, descriptor: Int32, _ opened: stat, _ permissions: mode_t) {
        (self.path, self.descriptor, byteCount) = (path, descriptor, Int64(opened.st_size))
        (self.opened, self.permissions) = (opened, permissions)
    }

    var wasThere: Bool { opened.st_size > 0 }
    var device: dev_t { opened.st_dev }

    deinit { close() }

    // Anything but a regular file of this user with one name, such as a planted link, is removed; a directory is an
    // error. With `isFilledInPlace`, segments are written, otherwise bytes are appended. Throws `.destinationInUse`
    // when another download has locked the part.
    static func open(
        _ path: String, permissions: mode_t, isFilledInPlace: Bool = false
    ) throws(RequestError) -> PartFile {
        let flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | (isFilledInPlace ? 0 : O_APPEND)
        // Another process may rename or remove the file between opening and locking. So the code tries up to 16 times.
        for _ in 0..<16 {
            var descriptor = Foundation.open(path, flags | O_CREAT | O_EXCL, permissions | 0o600)
            // A file that was created here belongs to this user, even if the file system reports another owner.
            let isNew = descriptor >= 0 || errno != EEXIST
            if !isNew {
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
                let defect =
                    isThere
                    ? "\(directory) is not a directory" : "the directory \(directory) does not exist; create it first"
                throw RequestError(
                    .destinationUnwritable, "nothing was sent: \(defect)", underlying: POSIXError(number: problem))
            }
            let isLocked = uninterrupted { flock(descriptor, LOCK_EX | LOCK_NB) } == 0
            guard isLocked, let opened = stat(of: descriptor) else {
                let problem = errno
                Foundation.close(descriptor)
                throw problem == EWOULDBLOCK ? .inUse(path) : .file("could not be locked", path, problem)
            }
            let isNamed = stat(path)?.isSameFile(as: opened) == true
            if isNamed, opened.isFile, opened.st_nlink == 1, isNew || opened.st_uid == geteuid() {
                return PartFile(path: path, descriptor: descriptor, opened, permissions)
            }
            if isNamed { unlink(path) }
            Foundation.close(descriptor)
        }
        throw .file("could not be created", path, EBUSY)
    }

    /// - Parameter position: the offset of the first byte; afterwards the offset after the written bytes, even after an
    ///   error.
    /// - Returns: 0, or the error number.
    package static func write(
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

    /// After an error the bytes written so far stay, and the position is after them.
    func write(_ data: Data, at position: inout Int64) throws(RequestError) {
        let problem = Self.write(data, to: descriptor, at: &position)
        byteCount = max(byteCount, position)
        guard problem == 0 else { throw .file("could not be written", path, problem) }
    }

    /// - Parameter offset: nil for the descriptor's own position, which a pipe has too.
    /// - Returns: empty at the end of the file; nil after an error, with its number in `errno`.
    static func read(_ descriptor: Int32, _ limit: Int, at offset: Int64? = nil) -> Data? {
        var data = Data(count: limit)
        let count = data.withUnsafeMutableBytes { bytes in
            uninterrupted {
                offset.map { pread(descriptor, bytes.baseAddress, bytes.count, off_t($0)) }
                    ?? Foundation.read(descriptor, bytes.baseAddress, bytes.count)
            }
        }
        return count < 0 ? nil : data.prefix(count)
    }

    // If another process truncated the file, a position would leave a hole, and the length would be meaningless.
    func append(_ data: Data) throws(RequestError) {
        let problem = Self.write(data, to: descriptor, at: &byteCount, appends: true)
        guard problem == 0 else { throw .file("could not be written", path, problem) }
    }

    /// False when another process has changed the length.
    var isIntact: Bool { stat(of: descriptor).map { Int64($0.st_size) == byteCount } == true }

    func truncate(to count: Int64) throws(RequestError) {
        guard byteCount != count else { return }
        guard uninterrupted({ ftruncate(descriptor, off_t(count)) }) == 0 else {
            throw .file("could not be resized", path, errno)
        }
        byteCount = count
    }

    /// The system is asked for each file, because the number of a device may later belong to a disk.
    var isInMemory: Bool {
        #if canImport(CLibcurl)
            convoy_disk_is_memory(descriptor) != 0
        #else
            false
        #endif
    }

    /// - Parameter replaced: the path of the file that the part replaces, if it exists; nil for a new file.
    func setFinalPermissions(_ limit: mode_t, replacing replaced: String? = nil) throws(RequestError) {
        if let replaced, Self.copyPermissions(of: replaced, to: descriptor, within: limit | 0o111) { return }
        // The umask was applied when the file was created. But the owner may always read and write a part.
        let mode = opened.st_mode & 0o7777
        guard mode & ~permissions != 0, fchmod(descriptor, mode & permissions) != 0 else { return }
        throw .file("could not get its permissions", path, errno)
    }

    func status(changedAt seconds: Int64?) throws(RequestError) -> stat {
        if let seconds, let time = time_t(exactly: seconds) {
            let moment = timespec(tv_sec: time, tv_nsec: 0)
            guard futimens(descriptor, [moment, moment]) == 0 else {
                throw .file("could not get its modification time", path, errno)
            }
        }
        guard let status = stat(of: descriptor) else { throw .file("could not be examined", path, errno) }
        return status
    }

    /// False after ``close()``, and if another process has removed the part and created a new one.
    var hasItsName: Bool { descriptor >= 0 && stat(path)?.isSameFile(as: opened) == true }

    func checkName() throws(RequestError) {
        guard hasItsName else { throw .file("was removed or replaced while it was written", path, ENOENT) }
    }

    func remove() { if hasItsName { unlink(path) } }

    func close() {
        guard descriptor >= 0 else { return }
        // A forked child that has not called `exec` yet shares the descriptor. Closing the descriptor in this process
        // alone would not release the lock.
        _ = flock(descriptor, LOCK_UN)
        Foundation.close(descriptor)
        descriptor = -1
    }

    var freeBytes: Int64? {
        var status = statvfs()
        return fstatvfs(descriptor, &status) == 0 ? Self.freeBytes(status) : nil
    }

    /// Of the file system; nil if it reports zero blocks, and on overflow.
    static func freeBytes(_ status: statvfs) -> Int64? {
        guard status.f_blocks > 0 else { return nil }
        let (bytes, overflow) = UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize))
        return overflow ? nil : Int64(clamping: bytes)
    }

    #if os(Linux)
        private typealias Rename =
            @Sendable @convention(c) (Int32, UnsafePointer<CChar>, Int32, UnsafePointer<CChar>, UInt32) -> Int32

        /// `renameat2`, which the Swift module of the C library does not export; nil in libraries without it.
        private static let renameat2: Rename? = dlsym(nil, "renameat2").map { unsafeBitCast($0, to: Rename.self) }
    #endif

    // As far as the system permits it, without the bits that run a program as its owner or group, because writing
    // removes them too. Returns whether there is a file to replace.
    package static func copyPermissions(of path: String, to descriptor: Int32, within limit: mode_t = 0o777) -> Bool {
        guard let old = stat(path), old.isFile, let new = stat(of: descriptor) else { return false }
        var mode = old.st_mode & limit
        if new.st_gid != old.st_gid, fchown(descriptor, .max, old.st_gid) != 0 {
            // The members of another group get no more than all users.
            mode &= ~0o070 | mode << 3
        }
        if new.st_uid != old.st_uid { _ = fchown(descriptor, old.st_uid, .max) }
        // A file system without permissions may refuse the change.
        _ = fchmod(descriptor, mode)
        return true
    }

    func rename(to target: String) throws(RequestError) {
        try checkName()
        guard Foundation.rename(path, target) == 0 else {
            throw .file("could not be renamed to its final name", target, errno)
        }
    }

    // False when the name exists. If the file system or the kernel does not support such a rename, for example NFS, the
    // part is linked.
    func renameIfFree(to target: String, beforeLinking: () -> Void = {}) throws(RequestError) -> Bool {
        try checkName()
        errno = ENOSYS
        #if canImport(Darwin)
            let status = renamex_np(path, target, UInt32(RENAME_EXCL))
        #else
            // 1 is RENAME_NOREPLACE.
            let status = Self.renameat2?(AT_FDCWD, path, AT_FDCWD, target, 1)
        #endif
        if status == 0 { return true }
        switch errno {
        case EEXIST: return false
        case EINVAL, ENOSYS, ENOTSUP, EPERM:
            beforeLinking()
            return try linkIfFree(to: target)
        default: throw .file("could not be renamed to its final name", target, errno)
        }
    }

    /// In two steps, between which the file has two names; false when the name exists.
    func linkIfFree(to target: String) throws(RequestError) -> Bool {
        try checkName()
        // A link fails when the name exists. A rename would replace a file that appeared a moment ago.
        if link(path, target) == 0 {
            unlink(path)
            return true
        }
        if errno == EEXIST { return false }
        // Some file systems have no hard links.
        guard stat(target) == nil else { return false }
        try rename(to: target)
        return true
    }

    /// Returns 0, or the error number.
    static func synchronize(_ descriptor: Int32) -> Int32 {
        #if canImport(Darwin)
            // On Apple platforms `fsync` leaves the bytes in the drive's cache.
            if fcntl(descriptor, F_FULLFSYNC) == 0 { return 0 }
        #endif
        return uninterrupted { fsync(descriptor) } == 0 ? 0 : errno
    }

    /// The error number; 0 also if the file system cannot synchronise directories.
    static func synchronize(directory: String) -> Int32 {
        let descriptor = Foundation.open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else {
            // If the directory cannot be read, or no descriptor is left, everything is synchronised instead.
            guard [EACCES, EPERM, EMFILE, ENFILE, ENOMEM].contains(errno) else { return errno }
            sync()
            return 0
        }
        defer { Foundation.close(descriptor) }
        let problem = synchronize(descriptor)
        return [EINVAL, ENOTSUP, ENOSYS].contains(problem) ? 0 : problem
    }
}

/// Repeats a system call that a signal interrupts.
private func uninterrupted<Count: SignedInteger>(_ call: () -> Count) -> Count {
    while true {
        let count = call()
        if count >= 0 || errno != EINTR { return count }
    }
}

extension stat {
    init?(_ path: String, followsLinks: Bool = false) {
        self.init()
        if fstatat(AT_FDCWD, path, &self, followsLinks ? 0 : AT_SYMLINK_NOFOLLOW) != 0 { return nil }
    }

    init?(of descriptor: Int32) {
        self.init()
        if fstat(descriptor, &self) != 0 { return nil }
    }

    var isFile: Bool { st_mode & S_IFMT == S_IFREG }

    func isSameFile(as other: stat) -> Bool { st_ino == other.st_ino && st_dev == other.st_dev }

    var changed: timespec {
        #if canImport(Darwin)
            st_mtimespec
        #else
            st_mtim
        #endif
    }
}

extension POSIXError {
    fileprivate init(number: Int32) { self.init(POSIXErrorCode(rawValue: number) ?? .EIO) }
}

extension RequestError {
    static func file(_ what: String, _ path: String, _ code: Int32) -> RequestError {
        let reason = POSIXError(number: code)
        let isFull = [ENOSPC, EDQUOT].contains(code)
        return RequestError(
            isFull ? .diskFull : .destinationUnwritable, "the file \(path) \(what): \(reason.localizedDescription)",
            underlying: reason)
    }

    static func nameNotOnDisk(_ file: String, _ code: Int32) -> RequestError {
        let reason = POSIXError(number: code)
        return RequestError(
            .destinationUnwritable,
            "the file \(file) is complete, but its directory could not be written to the disk: \(reason.localizedDescription); a system crash may lose the file",
            underlying: reason)
    }

    static func inUse(_ path: String) -> RequestError {
        RequestError(
            .destinationInUse,
            "another download to the same file is running and has locked \(path); wait for it, or choose another file"
        )
    }
}

// Synchronising even a small file takes a disk milliseconds, so files that finish during a round are synchronised
// together in the next one. Any thread may use an instance. A round runs on the pool of `DiskExecutor` and blocks as
// long as the disk does. Each file system has at most one round at a time.
final class DiskSync: ExecutorMember {
    struct File: Sendable {
        let descriptor: Int32
        let directory: String
        /// Renames the part to the file, unless the argument is the error number of a failed synchronisation.
        let place: @Sendable (_ problem: Int32) -> Result<URL, RequestError>
        let completion: Callback<URL>
    }

    private struct State {
        var waiting: [File] = []
        /// Includes the files of the current round.
        var count = 0
    }

    private static let all = Locked([dev_t: DiskSync]())

    static func of(_ device: dev_t) -> DiskSync {
        all.withLock { all in
            let sync = all[device] ?? DiskSync()
            all[device] = sync
            return sync
        }
    }

    private let state = Locked(State())

    /// Whether so many files wait for a disk that a download must not release its slot before its file is synchronised.
    static var isCrowded: Bool {
        all.withLock { Array($0.values) }.contains { $0.state.withLock { $0.count >= 128 } }
    }

    func commit(_ file: File) {
        let begins = state.withLock { state in
            state.waiting.append(file)
            state.count += 1
            return state.count == 1
        }
        if begins { DiskExecutor.executors.submit(self) }
    }

    func runExecutor() {
        let files = state.withLock { state in
            defer { state.waiting = [] }
            return state.waiting
        }
        let results = Self.place(files)
        let hasMore = state.withLock { state in
            state.count -= files.count
            return state.count > 0
        }
        // The next round is queued before the completions are called, because a completion may block.
        if hasMore { DiskExecutor.executors.submit(self) }
        for (file, result) in zip(files, results) { file.completion(result) }
    }

    static func place(_ files: [File]) -> [Result<URL, RequestError>] {
        let executors = DiskExecutor.executors
        let results = zip(files, executors.blocking { synchronize(files) }).map { file, problem in file.place(problem) }
        var problems: [String: Int32] = [:]
        return zip(files, results).map { file, result in
            result.flatMap { url in
                let problem =
                    problems[file.directory] ?? executors.blocking { PartFile.synchronize(directory: file.directory) }
                problems[file.directory] = problem
                return problem == 0 ? .success(url) : .failure(.nameNotOnDisk(url.path, problem))
            }
        }
    }

    private static func synchronize(_ files: [File]) -> [Int32] {
        #if canImport(CLibcurl)
            // Synchronises the file system once, then reads each file's error. Synchronising each file would flush
            // the disk's cache once for each file.
            if files.count >= 4, convoy_disk_sync(files[0].descriptor) != 0 {
                return files.map { convoy_disk_error($0.descriptor) }
            }
        #endif
        return files.map { PartFile.synchronize($0.descriptor) }
    }
}
