import Foundation

// Each open instance of the store locks its own file (`flock`), and the kernel releases the lock when the process ends
// for any reason. Unlike a process id, the file's name is never reused, and it identifies the same instance in every
// container.
final class SQLiteOwners {
    let name = UUID().uuidString
    let directory: URL
    private var descriptor: Int32 = -1

    init(in directory: URL) throws(QueueError) {
        self.directory = directory
        // Before the new file is locked, another process may take it for the file of a dead instance and remove it. The
        // loop then creates the file again.
        for _ in 1...100 {
            let path = self.path(of: name)
            let made = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
            guard made >= 0 else {
                throw QueueError(path: path, code: 14, system: errno, doing: "made")
            }
            if flock(made, LOCK_EX | LOCK_NB) == 0, Self.isSame(made, path) {
                descriptor = made
                return
            }
            Self.closeFile(made)
        }
        throw QueueError(.busy, "no lock file could be created and locked in \(directory.path)")
    }

    /// Other processes then find the file unlocked and end the leases.
    deinit { close(isReleased: false) }

    private func path(of owner: String) -> String { directory.appending(path: "owner-\(owner)").path }

    /// The new file is locked before it gets its name, so no process finds it unlocked.
    func restore() {
        let path = path(of: name)
        guard descriptor >= 0, !Self.isSame(descriptor, path) else { return }
        Self.makeAgain(directory)
        // With its temporary name, the file looks like that of an owner without jobs. If the process crashes before the
        // renaming, the next opening of the database removes the file.
        let other = self.path(of: UUID().uuidString)
        let made = open(other, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard made >= 0 else { return }
        guard flock(made, LOCK_EX | LOCK_NB) == 0, rename(other, path) == 0 else {
            unlink(other)
            return Self.closeFile(made)
        }
        Self.closeFile(descriptor)
        descriptor = made
    }

    static func makeAgain(_ directory: URL) {
        for place in [directory.deletingLastPathComponent(), directory] { mkdir(place.path, 0o700) }
    }

    // The file is opened only for reading, so that watchers do not mistake its closing for the end of its owner.
    // `isMissingGone` is false where another program may have removed the file of an instance that is alive.
    func isGone(_ owner: String, isMissingGone: Bool = false) -> Bool {
        guard owner != name else { return false }
        let path = path(of: owner)
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return isMissingGone && errno == ENOENT }
        defer { Self.closeFile(file) }
        return flock(file, LOCK_EX | LOCK_NB) == 0
    }

    func remove(_ owners: [String]) { for owner in owners { unlink(path(of: owner)) } }

    var all: [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? []
        return names.filter { $0.hasPrefix("owner-") }.map { String($0.dropFirst("owner-".count)) }
    }

    func close(isReleased: Bool = true) {
        guard descriptor >= 0 else { return }
        if isReleased { unlink(path(of: name)) }
        Self.closeFile(descriptor)
        descriptor = -1
    }

    private static func isSame(_ descriptor: Int32, _ path: String) -> Bool {
        var (own, named) = (stat(), stat())
        return fstat(descriptor, &own) == 0 && stat(path, &named) == 0 && own.st_ino == named.st_ino
    }

    /// A forked child that has not called `exec` yet shares the descriptor, so closing alone would not release the
    /// lock.
    private static func closeFile(_ descriptor: Int32) {
        flock(descriptor, LOCK_UN)
        Foundation.close(descriptor)
    }
}
