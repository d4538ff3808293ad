// The content of a disk after a power failure, from the record of all changes.
import Foundation

/// A directory on a disk with a cache: the durable state, and the changes that may be lost, in order.
///
/// A file's bytes and size are durable after a sync of the file, and a name after a sync of its directory. POSIX
/// promises no more, and ext4 does more.
struct DiskModel {
    /// The effect of a power failure on unsynced changes.
    enum Cut: String, CaseIterable {
        /// All unsynced changes are lost.
        case dropped
        /// All unsynced changes are kept.
        case kept
        /// The changes after one moment are lost, and the last write has only some of its sectors.
        case torn
        /// Any subset of the unsynced changes is kept, a write perhaps with only some of its sectors.
        case reordered
    }

    struct Contents: Equatable {
        var directories: Set<String> = []
        var files: [String: Data] = [:]
    }

    private enum Pending {
        case write(file: Int, offset: Int, Data)
        case truncate(file: Int, size: Int)
        case name(String, file: Int)
        case rename(String, to: String, file: Int)
        case removal(String)
        case directory(String)
    }

    private static let sectorSize = 512

    private var files: [Data] = []
    private var names: [String: Int] = [:]
    private var directories: Set<String> = []
    private var pending: [Pending] = []
    /// The files by their inode on the real disk, which may be reused, and by their current name.
    private var current: [UInt64: Int] = [:]
    private var live: [String: Int] = [:]

    mutating func apply(_ change: DiskChange) {
        switch change {
        case .create(let path, let number):
            files.append(Data())
            current[number] = files.count - 1
            live[path] = files.count - 1
            pending.append(.name(path, file: files.count - 1))
        case .write(let number, let offset, let bytes):
            if let file = current[number] { pending.append(.write(file: file, offset: offset, bytes)) }
        case .truncate(let number, let size):
            if let file = current[number] { pending.append(.truncate(file: file, size: size)) }
        case .sync(let number):
            guard let file = current[number] else { return }
            makeDurable { change in
                switch change {
                case .write(file, _, _), .truncate(file, _): true
                default: false
                }
            }
        case .syncDirectory(let directory):
            makeDurable { change in
                switch change {
                case .name(let path, _), .rename(_, to: let path, _), .removal(let path), .directory(let path):
                    Self.parent(of: path) == directory
                default: false
                }
            }
        case .makeDirectory(let path): pending.append(.directory(path))
        case .rename(let path, let target):
            guard let file = live.removeValue(forKey: path) else { return }
            live[target] = file
            pending.append(.rename(path, to: target, file: file))
        case .link(let path, let target):
            guard let file = live[path] else { return }
            live[target] = file
            pending.append(.name(target, file: file))
        case .unlink(let path):
            live[path] = nil
            pending.append(.removal(path))
        case .said: break
        }
    }

    /// The content after a power failure now.
    func contents(after cut: Cut, _ random: inout some RandomNumberGenerator) -> Contents {
        var disk = self
        switch cut {
        case .dropped: break
        case .kept: for change in pending { disk.perform(change) }
        case .torn:
            guard !pending.isEmpty else { break }
            let end = Int.random(in: 0..<pending.count, using: &random)
            for change in pending[..<end] { disk.perform(change) }
            disk.performPartly(pending[end], &random)
        case .reordered:
            for change in pending {
                switch Int.random(in: 0..<5, using: &random) {
                case 0...1: disk.perform(change)
                case 2: disk.performPartly(change, &random)
                default: break
                }
            }
        }
        return disk.durable
    }

    private var durable: Contents {
        var contents = Contents()
        func isThere(_ directory: String) -> Bool {
            directory.isEmpty || (directories.contains(directory) && isThere(Self.parent(of: directory)))
        }
        contents.directories = directories.filter(isThere)
        for (path, file) in names where isThere(Self.parent(of: path)) { contents.files[path] = files[file] }
        return contents
    }

    private static func parent(of path: String) -> String {
        path.lastIndex(of: "/").map { String(path[..<$0]) } ?? ""
    }

    private mutating func makeDurable(_ isMeant: (Pending) -> Bool) {
        let meant = pending.filter(isMeant)
        pending.removeAll(where: isMeant)
        for change in meant { perform(change) }
    }

    private mutating func perform(_ change: Pending) {
        switch change {
        case .write(let file, let offset, let bytes): write(bytes, to: file, at: offset)
        case .truncate(let file, let size): resize(file, to: size)
        case .name(let path, let file): names[path] = file
        case .rename(let path, let target, let file):
            names[path] = nil
            names[target] = file
        case .removal(let path): names[path] = nil
        case .directory(let path): directories.insert(path)
        }
    }

    /// Performs some sectors of a write, and another change completely or not at all.
    private mutating func performPartly(_ change: Pending, _ random: inout some RandomNumberGenerator) {
        guard case .write(let file, let offset, let bytes) = change else {
            if Bool.random(using: &random) { perform(change) }
            return
        }
        var start = 0
        while start < bytes.count {
            let end = min(bytes.count, ((offset + start) / Self.sectorSize + 1) * Self.sectorSize - offset)
            if Bool.random(using: &random) { write(bytes[start..<end], to: file, at: offset + start) }
            start = end
        }
    }

    private mutating func write(_ bytes: Data, to file: Int, at offset: Int) {
        if files[file].count < offset + bytes.count { resize(file, to: offset + bytes.count) }
        files[file].replaceSubrange(offset..<(offset + bytes.count), with: bytes)
    }

    private mutating func resize(_ file: Int, to size: Int) {
        let count = files[file].count
        if size < count { files[file].removeSubrange(size...) } else { files[file].append(Data(count: size - count)) }
    }
}
