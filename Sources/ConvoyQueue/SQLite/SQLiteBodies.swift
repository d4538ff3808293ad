import Foundation

// A body's file is on the disk before its row is committed, and is removed after the commit that deletes the row. A
// crash between these steps leaves a file without a row; the next opening of the database removes such files of owners
// that no longer exist.
final class SQLiteBodies {
    static let rowLimit = 65_536

    let directory: URL
    private let owner: String
    private var count = 0

    init(in directory: URL, owner: String) {
        self.directory = directory
        self.owner = owner
    }

    func url(of name: String) -> URL { directory.appending(path: name) }

    /// The file is durable only after ``sync(_:)``.
    func write(_ data: Data) throws(QueueError) -> String {
        count += 1
        let name = "\(owner).\(count)"
        let path = url(of: name).path
        let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw QueueError(path: path, code: 10, system: errno, doing: "written") }
        defer { close(file) }
        let isWritten = data.withUnsafeBytes { (bytes: UnsafeRawBufferPointer) -> Bool in
            var rest = bytes[...]
            while !rest.isEmpty {
                let written = rest.withUnsafeBytes { Foundation.write(file, $0.baseAddress, $0.count) }
                if written < 0, errno == EINTR { continue }
                guard written > 0 else { return false }
                rest = rest.dropFirst(written)
            }
            return Self.isSynced(file)
        }
        guard isWritten else {
            let error = QueueError(path: path, code: 10, system: errno, doing: "written")
            unlink(path)
            throw error
        }
        return name
    }

    static func sync(_ directory: URL) throws(QueueError) {
        let file = open(directory.path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { throw QueueError(path: directory.path, code: 14, system: errno, doing: "opened") }
        defer { close(file) }
        guard Self.isSynced(file) else {
            throw QueueError(path: directory.path, code: 10, system: errno, doing: "synced")
        }
    }

    private static func isSynced(_ file: Int32) -> Bool {
        #if canImport(Darwin)
            // On Apple platforms, `fsync` leaves the bytes in the drive's cache.
            if fcntl(file, F_FULLFSYNC) == 0 { return true }
        #endif
        while fsync(file) != 0 { if errno != EINTR { return false } }
        return true
    }

    func remove(_ names: [String]) {
        // A row that was edited by hand may name a file of another directory, which is not removed.
        for name in names where !name.contains("/") { unlink(url(of: name).path) }
    }

    func abandoned(_ isGone: (String) -> Bool) -> [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? []
        let owners = Set(names.map { $0.prefix { $0 != "." } }).filter { isGone(String($0)) }
        return names.filter { owners.contains($0.prefix { $0 != "." }) }
    }
}
