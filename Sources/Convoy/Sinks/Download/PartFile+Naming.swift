// A part gets its name, and names get to the disk.
import Foundation

extension PartFile {
    #if os(Linux)
        private typealias Rename =
            @Sendable @convention(c) (
                Int32, UnsafePointer<CChar>, Int32, UnsafePointer<CChar>, UInt32
            ) -> Int32

        /// `renameat2`, which the module of the C library leaves out; nil in libraries that have none.
        private static let renameat2: Rename? = dlsym(nil, "renameat2").map { unsafeBitCast($0, to: Rename.self) }
    #endif

    /// Gives it a name; a file of that name is replaced.
    func rename(to target: String) throws(RequestError) {
        try checkName()
        guard Foundation.rename(path, target) == 0 else {
            throw .file("could not be put in its place", target, errno)
        }
    }

    /// Gives it a name that is free, in one step.
    ///
    /// - Returns: whether it has the name: false when there is a file of that name; nil when the file system or the kernel
    ///   cannot do it, NFS for example.
    func renameIfFree(to target: String) throws(RequestError) -> Bool? {
        try checkName()
        #if canImport(Darwin)
            let status = renamex_np(path, target, UInt32(RENAME_EXCL))
        #else
            guard let renameat2 = Self.renameat2 else { return nil }
            // RENAME_NOREPLACE
            let status = renameat2(AT_FDCWD, path, AT_FDCWD, target, 1)
        #endif
        if status == 0 { return true }
        switch errno {
        case EEXIST: return false
        case EINVAL, ENOSYS, ENOTSUP, EPERM: return nil
        default: throw .file("could not be put in its place", target, errno)
        }
    }

    /// Gives it a name that is free, in two steps: between them the file has two names.
    ///
    /// - Returns: whether it has the name; false when there is a file of that name.
    func linkIfFree(to target: String) throws(RequestError) -> Bool {
        try checkName()
        // A link is made only where there is nothing; a rename would replace what came there a moment ago.
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
            // `fsync` leaves the bytes in the drive's own memory there.
            if fcntl(descriptor, F_FULLFSYNC) == 0 { return 0 }
        #endif
        while fsync(descriptor) != 0 { if errno != EINTR { return -1 } }
        return 0
    }

    /// Returns when the names in a directory are on the disk.
    ///
    /// A file system that cannot do that for directories has done what it can.
    ///
    /// - Returns: 0, or the error number.
    static func synchronize(directory: String) -> Int32 {
        let descriptor = Foundation.open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else {
            // A directory that may be written to and not be read, or no descriptor left: then everything goes to the disk.
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
    /// The file has its name, and the directory that has the name could not be written.
    static func nameNotOnDisk(_ file: String, _ code: Int32) -> RequestError {
        let reason = POSIXError(POSIXErrorCode(rawValue: code) ?? .EIO)
        return RequestError(
            .destinationUnwritable,
            "the file \(file) is complete and there, and its directory could not be brought to the disk: \(reason.localizedDescription); it may be gone when the system stops",
            underlying: reason)
    }
}
