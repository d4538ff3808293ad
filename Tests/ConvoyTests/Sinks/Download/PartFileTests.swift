import Foundation
import Testing

@testable import Convoy

/// Tests the file of a partial download (the part), and other files and processes that use the same name.
@Suite struct PartFileTests {
    private let directory: TemporaryDirectory
    private var path: String { directory.file("part").path }
    private var victim: URL { directory.file("victim") }

    init() throws { directory = try TemporaryDirectory.besideProducts() }

    private func open(_ permissions: mode_t = 0o644) throws -> PartFile {
        try PartFile.open(path, permissions: permissions)
    }

    private func filled() throws -> PartFile {
        let part = try open()
        try part.append(Data("part".utf8))
        return part
    }

    @Test(arguments: ["symbolic", "hard", "dangling", "pipe"]) func aPlantedFileIsRemovedNotFollowed(kind: String)
        throws
    {
        try Data("keep".utf8).write(to: victim)
        switch kind {
        case "symbolic": #expect(symlink(victim.path, path) == 0)
        case "hard": #expect(link(victim.path, path) == 0)
        case "pipe": #expect(mkfifo(path, 0o600) == 0)
        default: #expect(symlink(directory.file("nowhere").path, path) == 0)
        }
        let part = try filled()
        #expect(!part.wasThere && part.byteCount == 4)
        #expect(try Data(contentsOf: victim) == Data("keep".utf8))
        #expect(try directory.entries == ["part", "victim"])
    }

    @Test(.enabled(if: geteuid() == 0, "only root can give files away"))
    func aFileOfAnotherUserIsRemoved() throws {
        try Data("theirs".utf8).write(to: directory.file("part"))
        #expect(chown(path, 12_345, 12_345) == 0)
        #expect(try !open().wasThere)
    }

    #if os(Linux)
        @Test(arguments: [true, false]) func aFileSystemInMemoryIsRecognised(isBesideProducts: Bool) async throws {
            let directory = try isBesideProducts ? TemporaryDirectory.besideProducts() : TemporaryDirectory()
            let process = try ChildProcess(URL(filePath: "/usr/bin/stat"), ["-f", "-c", "%T", directory.url.path])
            await process.ended()
            let part = try PartFile.open(directory.file("part").path, permissions: 0o644)
            #expect(part.isInMemory == ["tmpfs", "ramfs"].contains(process.lines.first), "\(process.text)")
        }
    #endif

    /// A rename leaves nothing to unlock but the descriptor.
    @Test(arguments: [true, false]) func aRenamedFileIsNotLockedOnceItIsClosed(replaces: Bool) throws {
        let part = try open()
        let other = Foundation.open(path, O_RDWR | O_CLOEXEC)
        defer { close(other) }
        #expect(flock(other, LOCK_EX | LOCK_NB) != 0)
        if replaces {
            try part.rename(to: victim.path)
        } else {
            #expect(try part.renameIfFree(to: victim.path))
        }
        part.close()
        #expect(flock(other, LOCK_EX | LOCK_NB) == 0)
    }

    @Test func directoryInItsPlaceIsAnError() throws {
        #expect(mkdir(path, 0o700) == 0)
        #expect(throws: RequestError.self) { try open() }
    }

    @Test func aSecondOpenFailsUntilTheFileIsClosed() throws {
        let part = try filled()
        let error = #expect(throws: RequestError.self) { try open() }
        #expect(error?.code == .destinationInUse)
        part.close()
        let next = try open()
        #expect(next.wasThere && next.byteCount == 4)
    }

    /// The part can be opened again whatever mode the file gets at the end.
    @Test(arguments: [0o400, 0o644, 0o200, 0o755] as [mode_t]) func fileGetsItsMode(mode: mode_t) throws {
        let part = try open(mode)
        part.close()
        let again = try open(mode)
        try again.setFinalPermissions(mode)
        #expect(try again.renameIfFree(to: victim.path))
        var status = stat()
        #expect(stat(victim.path, &status) == 0)
        #expect(status.st_mode & 0o7777 & ~mode == 0)
        #expect(status.st_mode & 0o400 == mode & 0o400)
    }

    @Test func fileThatMustStayStays() throws {
        try Data("keep".utf8).write(to: victim)
        let part = try filled()
        #expect(try !part.renameIfFree(to: victim.path))
        #expect(try !part.linkIfFree(to: victim.path))
        #expect(try Data(contentsOf: victim) == Data("keep".utf8))
        // A link gives the final name, and removes the other one.
        #expect(try part.linkIfFree(to: directory.file("free").path))
        #expect(try directory.entries == ["free", "victim"])
        #expect(try Data(contentsOf: directory.file("free")) == Data("part".utf8))
    }

    @Test func freeBytesAreThoseOfTheFileSystem() {
        // A file system without sizes, such as a tmpfs without a limit.
        var status = statvfs()
        #expect(PartFile.freeBytes(status) == nil)
        (status.f_blocks, status.f_frsize) = (10, 4_096)
        #expect(PartFile.freeBytes(status) == 0)
        status.f_bavail = 3
        #expect(PartFile.freeBytes(status) == 12_288)
        status.f_bavail = .max
        #expect(PartFile.freeBytes(status) == nil)
    }

    /// If another process has truncated the part, no hole is created, and the length shows the change.
    @Test func bytesGoToTheEndWhereverItIs() throws {
        let part = try filled()
        #expect(part.isIntact)
        #expect(truncate(path, 2) == 0)
        #expect(!part.isIntact)
        try part.append(Data("part".utf8))
        #expect(!part.isIntact)
        #expect(try Data(contentsOf: directory.file("part")) == Data("papart".utf8))
    }
}
