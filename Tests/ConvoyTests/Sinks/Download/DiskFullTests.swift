#if os(Linux)
    import Foundation
    import Testing

    @testable import Convoy

    /// A small file system in memory, which is unmounted with the test.
    private final class SmallDisk: Sendable {
        let url: URL

        init?(byteCount: Int) {
            url = FileManager.default.temporaryDirectory.appending(
                path: "convoy-tests-disk-\(UUID().uuidString)", directoryHint: .isDirectory)
            guard (try? FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)) != nil,
                mount("none", url.path, "tmpfs", 0, "size=\(byteCount)") == 0
            else { return nil }
        }

        deinit {
            umount2(url.path, Int32(MNT_DETACH))
            try? FileManager.default.removeItem(at: url)
        }

        static let isPossible = SmallDisk(byteCount: 65_536) != nil

        func file(_ name: String) -> URL { url.appending(path: name, directoryHint: .notDirectory) }
        var entries: [String] {
            get throws { try FileManager.default.contentsOfDirectory(atPath: url.path).sorted() }
        }
    }

    /// The disk becomes full during a download, at many points.
    @Suite(.serialized, .enabled(if: SmallDisk.isPossible, "file systems cannot be mounted here"))
    struct DiskFullTests {
        @Test func aFullDiskIsReportedAndKeepsThePart() async throws {
            for seed in 0..<UInt64(LongRuns.count(15, long: 100)) {
                var random = SeededGenerator(seed: seed)
                let disk = try #require(SmallDisk(byteCount: 4 << 20))
                let version = FileVersion(
                    .init(FileVersion.seeded(seed, byteCount: 1_000_000 + Int(random.next() % 500_000))))
                let free = 100_000 + Int(random.next() % 800_000)
                try Data(count: (4 << 20) - free).write(to: disk.file("ballast"))
                // The response announces no length, so only a write can detect the lack of space.
                let server = StubServer { exchange in
                    guard exchange.request.headerFields["Range"] == nil else { return version.answer(exchange) }
                    exchange.answer(200, version.headerFields, pieces: version.content.pieces(of: 50_000))
                }
                let request = Request.stub("file").retries(.standard).saved(to: disk.file("target"))
                let error = try await Sending(request, over: server.transport).error()
                #expect(error.code == .diskFull, "seed \(seed): \(error)")
                #expect((error.underlying as? POSIXError)?.code == .ENOSPC)
                #expect(server.exchanges.count == 1, "it is not tried again")
                #expect(
                    try disk.entries == [".target.convoy-part", ".target.convoy-resume", "ballast"], "seed \(seed)")
                // Truncating frees the space at once, even if a forked process still has the file open.
                try Data().write(to: disk.file("ballast"))
                try FileManager.default.removeItem(at: disk.file("ballast"))
                let there = try Data(contentsOf: disk.file(".target.convoy-part")).count
                let response = try await Sending(request, over: server.transport).response()
                #expect(response.transfer.resumedBytes == there, "seed \(seed)")
                #expect(try Data(contentsOf: disk.file("target")) == version.content, "seed \(seed)")
                #expect(try disk.entries == ["target"])
            }
        }

        /// A tmpfs without a limit reports zero blocks and zero free blocks.
        @Test func aFileSystemWithoutSizesAcceptsALargeFile() async throws {
            let disk = try #require(SmallDisk(byteCount: 0))
            let version = FileVersion(FileVersion.seeded(1, byteCount: 2 << 20))
            let server = StubServer { version.answer($0) }
            let sending = Sending(Request.stub("file").saved(to: disk.file("target")), over: server.transport)
            #expect(try await sending.result().code == nil)
            #expect(try Data(contentsOf: disk.file("target")) == version.content)
        }
    }

    /// Tests limits of the process that affect the writer, each in a separate process.
    @Suite struct WriterLimitTests {
        private static func limit(_ resource: __rlimit_resource, to value: UInt) {
            var limit = rlimit(rlim_cur: value, rlim_max: value)
            #expect(setrlimit(__rlimit_resource_t(resource.rawValue), &limit) == 0)
        }

        /// The error after the waits for a descriptor.
        private static func error(of operation: AnyRequestOperation, _ clock: VirtualClock) async -> RequestError? {
            await look {
                clock.advanceToNext()
                return operation.isFinished
            }
            return operation.error
        }

        @Test func fileThatMayNotGrowIsAnErrorThatKeepsThePart() async {
            await #expect(processExitsWith: .success) {
                endProcessIfStuck()
                signal(SIGXFSZ, SIG_IGN)
                let directory = try TemporaryDirectory()
                let version = FileVersion(FileVersion.seeded(1, byteCount: 300_000))
                let server = StubServer { version.answer($0) }
                Self.limit(RLIMIT_FSIZE, to: 100_000)
                let request = Request.stub("file").saved(to: directory.file("target"))
                let error = try await Sending(request, over: server.transport).error()
                #expect(error.code == .destinationUnwritable)
                #expect((error.underlying as? POSIXError)?.code == .EFBIG)
                #expect(try directory.entries == [".target.convoy-part", ".target.convoy-resume"])
            }
        }

        @Test func tooManyOpenFilesAreAnErrorAndNoneIsLost() async {
            await #expect(processExitsWith: .success) {
                endProcessIfStuck()
                let directory = try TemporaryDirectory()
                let (server, clock) = (StubServer { $0.answer(200) }, VirtualClock())
                let manager = server.manager(clock: clock)
                let request = Request.stub("file").saved(to: directory.file("target"))
                _ = try await manager.send(request)
                await openDescriptorsOfDispatch()
                let before = openDescriptorCount()
                var given = rlimit()
                #expect(getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &given) == 0)
                // No descriptor can be opened now, also if another thread closes one.
                var none = rlimit(rlim_cur: 0, rlim_max: given.rlim_max)
                #expect(setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &none) == 0)
                let error = await Self.error(of: manager.enqueue(request), clock)
                #expect(error?.code == .destinationUnwritable)
                #expect((error?.underlying as? POSIXError)?.code == .EMFILE)
                #expect(setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &given) == 0)
                // There may be fewer, because the runtime may have closed one.
                #expect(openDescriptorCount() <= before)
                _ = try await manager.send(request)
                #expect(openDescriptorCount() <= before)
            }
        }

        /// The record of a large file cannot be created, and the transport has ended by then.
        @Test func aRecordThatLacksADescriptorFailsTheDownload() async {
            await #expect(processExitsWith: .success) {
                endProcessIfStuck()
                let directory = try TemporaryDirectory()
                let (server, clock) = (StubServer.held(), VirtualClock())
                let manager = server.manager(clock: clock)
                let operation = manager.enqueue(Request.stub("file").saved(to: directory.file("target")))
                let exchange = await server.exchanges.wait()[0]
                await openDescriptorsOfDispatch()
                Self.limit(RLIMIT_NOFILE, to: 0)
                let gate = DispatchSemaphore(value: 0)
                let download = try #require(operation.withLock { $0.followUp?.download })
                download.executor.async { gate.wait() }
                exchange.answer(200, headerFields: ["ETag": "\"1\""], body: Data(count: 1_500_000))
                gate.signal()
                let error = await Self.error(of: operation, clock)
                #expect(error?.code == .destinationUnwritable)
                #expect((error?.underlying as? POSIXError)?.code == .EMFILE)
            }
        }
    }
#endif
