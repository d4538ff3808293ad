// Renaming a part, and synchronising directories.
import Foundation

extension PartFile {
    #if os(Linux)
        private typealias Rename =
            @Sendable @convention(c) (
                Int32, UnsafePointer<CChar>, Int32, UnsafePointer<CChar>, UInt32
            ) -> Int32

        /// `renameat2`, which the Swift module of the C library does not export; nil in libraries without it.
        private static let renameat2: Rename? = dlsym(nil, "renameat2").map { unsafeBitCast($0, to: Rename.self) }
    #endif

    /// Gives an open file the owner, the group and the permissions of the regular file that it replaces.
    ///
    /// The owner and the group are kept only if the system permits it. The bits that run a program as its owner or
    /// group are not kept, because writing to a file removes them too.
    ///
    /// - Parameter limit: the permissions that the new file may have.
    /// - Returns: whether there is a file to replace.
    package static func copyPermissions(
        of path: String, to descriptor: Int32, within limit: mode_t = 0o777
    ) -> Bool {
        var (old, new) = (stat(), stat())
        guard lstat(path, &old) == 0, old.st_mode & S_IFMT == S_IFREG, fstat(descriptor, &new) == 0 else {
            return false
        }
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

    /// Renames the part.
    ///
    /// An existing file of that name is replaced.
    func rename(to target: String) throws(RequestError) {
        try checkName()
        guard Foundation.rename(path, target) == 0 else {
            throw .file("could not be renamed to its final name", target, errno)
        }
        isRenamed = true
    }

    /// Renames the part atomically if the name is free.
    ///
    /// - Returns: whether the part was renamed; false when the name exists. Nil when the file system or the kernel does
    ///   not support such a rename, for example NFS.
    func renameIfFree(to target: String) throws(RequestError) -> Bool? {
        try checkName()
        #if canImport(Darwin)
            let status = renamex_np(path, target, UInt32(RENAME_EXCL))
        #else
            guard let renameat2 = Self.renameat2 else { return nil }
            // 1 is RENAME_NOREPLACE.
            let status = renameat2(AT_FDCWD, path, AT_FDCWD, target, 1)
        #endif
        isRenamed = status == 0
        if isRenamed { return true }
        switch errno {
        case EEXIST: return false
        case EINVAL, ENOSYS, ENOTSUP, EPERM: return nil
        default: throw .file("could not be renamed to its final name", target, errno)
        }
    }

    /// Renames the part in two steps if the name is free.
    ///
    /// Between the two steps the file has two names.
    ///
    /// - Returns: whether the part was renamed; false when the name exists.
    func linkIfFree(to target: String) throws(RequestError) -> Bool {
        try checkName()
        // A link fails when the name exists. A rename would replace a file that appeared a moment ago.
        if link(path, target) == 0 {
            unlink(path)
            return true
        }
        if errno == EEXIST { return false }
        // Some file systems have no hard links.
        var status = stat()
        guard lstat(target, &status) != 0 else { return false }
        try rename(to: target)
        return true
    }

    /// - Returns: 0, or -1 with `errno`.
    static func synchronize(_ descriptor: Int32) -> Int32 {
        #if canImport(Darwin)
            // On Apple platforms `fsync` leaves the bytes in the drive's cache.
            if fcntl(descriptor, F_FULLFSYNC) == 0 { return 0 }
        #endif
        while fsync(descriptor) != 0 { if errno != EINTR { return -1 } }
        return 0
    }

    /// Synchronises the names in a directory.
    ///
    /// If the file system cannot synchronise directories, the result is 0.
    ///
    /// - Returns: 0, or the error number.
    static func synchronize(directory: String) -> Int32 {
        let descriptor = Foundation.open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else {
            // If the directory cannot be read, or no descriptor is left, everything is synchronised instead.
            guard [EACCES, EPERM, EMFILE, ENFILE, ENOMEM].contains(errno) else { return errno }
            sync()
            return 0
        }
        defer { Foundation.close(descriptor) }
        guard synchronize(descriptor) != 0 else { return 0 }
        return [EINVAL, ENOTSUP, ENOSYS].contains(errno) ? 0 : errno
    }
}

extension RequestError {
    /// The error when the file was renamed, but its directory could not be synchronised.
    static func nameNotOnDisk(_ file: String, _ code: Int32) -> RequestError {
        let reason = POSIXError(POSIXErrorCode(rawValue: code) ?? .EIO)
        return RequestError(
            .destinationUnwritable,
            "the file \(file) is complete, but its directory could not be written to the disk: \(reason.localizedDescription); a system crash may lose the file",
            underlying: reason)
    }
}
