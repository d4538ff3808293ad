import Foundation
import Testing

@testable import Convoy

#if canImport(CLibcurl)
    import CLibcurl
#endif

@Suite struct DiskSyncTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory.besideProducts() }

    #if canImport(CLibcurl)
        /// `convoy_disk_sync` returns 1 only on the file systems ext2 to ext4, XFS and Btrfs.
        @Test func aDiskIsSynchronizedAtOnce() async throws {
            let process = try ChildProcess(URL(filePath: "/usr/bin/stat"), ["-f", "-c", "%T", directory.url.path])
            await process.ended()
            let file = open(directory.url.path, O_RDONLY | O_CLOEXEC)
            defer { close(file) }
            let isPossible = ["ext2/ext3", "xfs", "btrfs"].contains(process.lines.first)
            #expect((convoy_disk_sync(file) == 1) == isPossible, "\(process.text)")
        }
    #endif

    /// A pipe cannot be synchronised, so it simulates a file whose bytes have not reached the disk.
    @Test func eachFileOfARoundReportsItsOwnErrors() async throws {
        let sync = DiskSync()
        let (hasBegun, mayGoOn) = (EventLog<Void>(), DispatchSemaphore(value: 0))
        let (placed, ended) = (EventLog<Int>(), EventLog<(index: Int, code: RequestError.Code?)>())
        var pipes: [Int32] = [-1, -1]
        try #require(pipe(&pipes) == 0)
        var descriptors = try (0..<5).map { index in
            let descriptor = open(directory.file("\(index)").path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
            try #require(descriptor >= 0)
            return descriptor
        }
        defer { for descriptor in descriptors + pipes { close(descriptor) } }
        close(descriptors[3])
        descriptors[3] = dup(pipes[1])
        func commit(_ index: Int) {
            let file = directory.file("\(index)")
            sync.commit(
                DiskSync.File(
                    descriptor: descriptors[index], directory: directory.url.path,
                    place: { problem in
                        guard problem == 0 else { return .failure(.file("could not be written", file.path, problem)) }
                        placed.record(index)
                        if index == 0 {
                            hasBegun.record(())
                            mayGoOn.wait()
                        }
                        return .success(file)
                    },
                    completion: { ended.record((index, $0.code)) }))
        }
        // The other files arrive while the first round runs, so they form the second round.
        commit(0)
        await hasBegun.wait()
        for index in 1..<5 { commit(index) }
        mayGoOn.signal()
        let ends = await ended.wait(count: 5)
        #expect(ends.filter { $0.code != nil }.map(\.index) == [3])
        #expect(ends.first { $0.index == 3 }?.code == .destinationUnwritable)
        #expect(placed.events == [0, 1, 2, 4])
    }
}
