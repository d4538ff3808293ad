// A small file beside a file: what is known about it.
import Foundation

/// A value that is kept in a sidecar.
///
/// As bytes: a line that names the format, the SHA-256 of what follows in hexadecimal, and JSON. What is not exactly that
/// (cut short, damaged, another program's) is no record.
protocol SidecarRecord: Codable, Sendable {
    /// The line that names the format, with its end.
    static var heading: String { get }
    /// Whether it can be one that was kept: what goes into requests and names is held to the rules for what servers send.
    ///
    /// Another program may have made it, on another machine: an archive that is unpacked brings hidden files along.
    var isSound: Bool { get }
}

/// The most that a sidecar may have.
private let limitBytes = 1 << 20

extension SidecarRecord {
    init?(_ data: Data) {
        let bytes = Array(data)
        let heading = Array(Self.heading.utf8)
        let bodyStart = heading.count + 65
        guard bytes.count > bodyStart, bytes.count <= limitBytes, bytes.starts(with: heading),
            bytes[bodyStart - 1] == UInt8(ascii: "\n")
        else { return nil }
        let body = Data(bytes[bodyStart...])
        guard bytes[heading.count..<bodyStart - 1].elementsEqual(SHA256.digest(of: body).hexadecimal.utf8),
            let record = try? JSONDecoder().decode(Self.self, from: body), record.isSound
        else { return nil }
        self = record
    }

    /// The record as it is kept.
    var data: Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        guard let body = try? encoder.encode(self) else { return Data() }
        return Data(Self.heading.utf8) + Data(SHA256.digest(of: body).hexadecimal.utf8) + Data("\n".utf8) + body
    }
}

/// Reads, replaces and removes a sidecar; only the download that has locked the part may.
struct SidecarFile<Record: SidecarRecord> {
    let path: String

    /// The record; nil when there is none that is sound.
    ///
    /// - Throws: when it cannot be told, for want of descriptors for example: the part is not thrown away for that.
    func read() throws(RequestError) -> Record? {
        let descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else {
            if errno == ENOENT || errno == ELOOP { return nil }
            throw .file("could not be read", path, errno)
        }
        defer { close(descriptor) }
        // One byte more than a record may have.
        var bytes = [UInt8](repeating: 0, count: limitBytes + 1)
        var count = 0
        while count < bytes.count {
            let next = bytes.withUnsafeMutableBytes { bytes in
                Foundation.read(descriptor, bytes.baseAddress.map { $0 + count }, bytes.count - count)
            }
            if next < 0, errno == EINTR { continue }
            if next < 0 { throw .file("could not be read", path, errno) }
            if next == 0 { break }
            count += next
        }
        return Record(Data(bytes.prefix(count)))
    }

    /// Replaces the record, at once and whole.
    ///
    /// - Parameter synchronized: whether it returns when the record is on the disk.
    func write(_ record: Record, synchronized: Bool) throws(RequestError) {
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
            problem = PartFile.synchronize(directory: URL(filePath: path).deletingLastPathComponent().path)
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

    /// Removes what is left of another part, where the part has just been made: of one that was being written only beside
    /// one that has been.
    func removeLeftover() {
        // Mostly there is none, which costs less to see than to try: a removal has the directory to itself.
        var status = stat()
        if lstat(path, &status) == 0 || errno != ENOENT, unlink(path) == 0 { unlink(path + "-new") }
    }
}
