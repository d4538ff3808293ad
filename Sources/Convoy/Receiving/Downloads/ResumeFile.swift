// The file that a record is kept in.
import Foundation

/// Reads, replaces and removes the record beside a part; only whoever has locked the part may.
struct ResumeFile {
    let path: String

    /// The record; nil when there is none that is sound.
    ///
    /// - Throws: when it cannot be told, for want of descriptors for example: the part is not thrown away for that.
    func read() throws(RequestError) -> ResumeRecord? {
        let descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else {
            if errno == ENOENT || errno == ELOOP { return nil }
            throw .file("could not be read", path, errno)
        }
        defer { close(descriptor) }
        // One byte more than a record may have.
        var bytes = [UInt8](repeating: 0, count: ResumeRecord.limitBytes + 1)
        var count = 0
        while count < bytes.count {
            let next = bytes.withUnsafeMutableBytes { bytes in
                Foundation.read(descriptor, bytes.baseAddress.map { $0 + count }, bytes.count - count)
            }
            if next < 0, errno == EINTR { continue }
            guard next > 0 else { break }
            count += next
        }
        return ResumeRecord(Data(bytes.prefix(count)))
    }

    /// Replaces the record, at once and whole.
    ///
    /// - Parameter synchronized: whether it returns when the record is on the disk.
    func write(_ record: ResumeRecord, synchronized: Bool) throws(RequestError) {
        let new = path + "-new"
        // Left by a process that was killed: never written to, it may have other names.
        if unlink(new) != 0, errno != ENOENT { throw .file("could not be removed", new, errno) }
        let descriptor = open(new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .file("could not be created", new, errno) }
        var position: Int64 = 0
        var problem = PartFile.write(record.data, to: descriptor, at: &position)
        if problem == 0, synchronized, PartFile.synchronize(descriptor) != 0 { problem = errno }
        if close(descriptor) != 0, problem == 0 { problem = errno }
        if problem == 0, rename(new, path) != 0 { problem = errno }
        if problem == 0, synchronized {
            PartFile.synchronize(directory: URL(filePath: path).deletingLastPathComponent().path)
        }
        guard problem == 0 else {
            unlink(new)
            throw .file("could not be written", path, problem)
        }
    }

    /// Removes it, and what a process that was killed while it wrote one has left.
    func remove() {
        unlink(path)
        unlink(path + "-new")
    }
}
