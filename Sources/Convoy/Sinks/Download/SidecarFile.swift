// A small file that describes the target beside it.
import Foundation

/// A line with the format's name, the SHA-256 of the rest in hexadecimal, and JSON.
///
/// Any other content (truncated, damaged, from another program) is ignored.
protocol SidecarRecord: Codable, Sendable {
    static var heading: String { get }
    /// Values that are used in requests and file names must pass the same checks as data from a server: an unpacked
    /// archive may contain hidden files.
    var isSound: Bool { get }
}

private let limitBytes = 1 << 20

extension SidecarRecord {
    init?(_ data: Data) {
        let body = Data(data.dropFirst(Self.heading.utf8.count + 65))
        guard data.count <= limitBytes, data.dropLast(body.count).elementsEqual(Self.prefix(of: body)),
            let record = try? JSONDecoder().decode(Self.self, from: body), record.isSound
        else { return nil }
        self = record
    }

    var data: Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        guard let body = try? encoder.encode(self) else { return Data() }
        return Self.prefix(of: body) + body
    }

    private static func prefix(of body: Data) -> Data {
        Data((heading + FileDigest.ofBytes(body).hexadecimal + "\n").utf8)
    }
}

/// Only the download that has locked the part may use the sidecar file.
struct SidecarFile<Record: SidecarRecord> {
    let path: String

    /// Nil when there is no valid record; if reading failed, it throws, and the part is not discarded.
    func read() throws(RequestError) -> Record? {
        let descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else {
            if errno == ENOENT || errno == ELOOP { return nil }
            throw .file("could not be read", path, errno)
        }
        defer { close(descriptor) }
        var bytes = Data()
        // One byte more than the limit, to detect a longer file.
        while bytes.count <= limitBytes {
            guard let next = PartFile.read(descriptor, limitBytes + 1 - bytes.count) else {
                throw .file("could not be read", path, errno)
            }
            if next.isEmpty { break }
            bytes += next
        }
        return Record(bytes)
    }

    func write(_ record: Record, synchronized: Bool) throws(RequestError) {
        let new = path + "-new"
        // A killed process may have left this file. The file is removed instead of overwritten, because it may have
        // other hard links.
        if unlink(new) != 0, errno != ENOENT { throw .file("could not be removed", new, errno) }
        let descriptor = open(new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .file("could not be created", new, errno) }
        var position: Int64 = 0
        var problem = PartFile.write(record.data, to: descriptor, at: &position)
        if problem == 0, synchronized { problem = PartFile.synchronize(descriptor) }
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

    /// Removes the file, and the temporary file of a killed process.
    func remove() {
        // Usually neither exists. Checking is cheaper than removing, which locks the directory.
        for path in [path, path + "-new"] where stat(path) != nil || errno != ENOENT { unlink(path) }
    }
}

package enum Boot {
    /// A name that differs after every start of the system; nil when the system has none.
    package static let name: String? = {
        #if canImport(Darwin)
            var bytes = [UInt8](repeating: 0, count: 128)
            var length = bytes.count
            guard sysctlbyname("kern.bootsessionuuid", &bytes, &length, nil, 0) == 0, length > 0 else { return nil }
            return String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        #else
            guard let data = FileManager.default.contents(atPath: "/proc/sys/kernel/random/boot_id"), !data.isEmpty
            else { return nil }
            return String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        #endif
    }()
}
