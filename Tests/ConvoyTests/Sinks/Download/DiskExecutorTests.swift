import Foundation
import Testing

@testable import Convoy

#if canImport(CLibcurl)
    import CLibcurl
#endif

@Suite(.timeLimit(.minutes(2))) struct DiskExecutorTests {
    @Test func everythingRunsInOrder() {
        let (executor, ran) = (DiskExecutor(), EventLog<Int>())
        // Deferred work waits for the next work.
        executor.async(waits: true) { ran.record(0) }
        #expect(ran.events == [])
        for number in 1..<1_000 {
            if number % 3 == 1 {
                executor.async(waits: true) { ran.record(number) }
            } else {
                executor.async { ran.record(number) }
            }
        }
        executor.sync {}
        #expect(ran.events == Array(0..<1_000))
    }

    /// Executors whose disk blocks; each signal of the gate unblocks one executor.
    private static func hangingExecutors(
        _ count: Int, _ entered: EventLog<Void>, until gate: DispatchSemaphore
    ) -> [DiskExecutor] {
        let executors = (0..<count).map { _ in DiskExecutor() }
        for executor in executors {
            executor.async {
                entered.record(())
                gate.wait()
            }
        }
        return executors
    }

    /// Twenty blocked executors leave a worker free for another download.
    @Test func aBlockedDiskDelaysNoOtherDownload() async {
        let (entered, gate) = (EventLog<Void>(), DispatchSemaphore(value: 0))
        let executors = Self.hangingExecutors(20, entered, until: gate)
        await entered.wait(count: executors.count)
        let ran = EventLog<Void>()
        DiskExecutor().async { ran.record(()) }
        await ran.wait()
        for _ in executors { gate.signal() }
        for executor in executors { executor.sync {} }
    }

    /// Callbacks have separate workers.
    @Test func disksThatHangHoldUpNoCallback() async {
        await #expect(processExitsWith: .success) {
            endProcessIfStuck()
            let (entered, gate) = (EventLog<Void>(), DispatchSemaphore(value: 0))
            let executors = Self.hangingExecutors(200, entered, until: gate)
            // One worker is always permitted, and 96 more.
            await entered.wait(count: 97)
            let manager = StubServer().manager()
            let told = EventLog<Void>()
            // The first callback blocks its worker, and the second callback must still run.
            for _ in 0..<2 {
                manager.enqueue(Request.stub("a")) { _ in
                    told.record(())
                    if told.count == 1 { gate.wait() }
                }
            }
            await told.wait(count: 2)
            for _ in 0...executors.count { gate.signal() }
        }
    }
}

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
