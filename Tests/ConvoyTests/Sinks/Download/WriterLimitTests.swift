#if os(Linux)
    import Foundation
    import Testing

    @testable import Convoy

    /// Tests limits of the process that affect the writer, each in a separate process.
    @Suite struct WriterLimitTests {
        private static func limit(_ resource: __rlimit_resource, to value: UInt) {
            var limit = rlimit(rlim_cur: value, rlim_max: value)
            #expect(setrlimit(__rlimit_resource_t(resource.rawValue), &limit) == 0)
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
                let server = StubServer { $0.answer(200) }
                let request = Request.stub("file").saved(to: directory.file("target"))
                _ = try await Sending(request, over: server.transport).response()
                await openDescriptorsOfDispatch()
                let before = openDescriptorCount()
                var given = rlimit()
                #expect(getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &given) == 0)
                // No descriptor can be opened now, also if another thread closes one.
                var none = rlimit(rlim_cur: 0, rlim_max: given.rlim_max)
                #expect(setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &none) == 0)
                let error = try await Sending(request, over: server.transport).error()
                #expect(error.code == .destinationUnwritable)
                #expect((error.underlying as? POSIXError)?.code == .EMFILE)
                #expect(setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &given) == 0)
                // There may be fewer, because the runtime may have closed one.
                #expect(openDescriptorCount() <= before)
                _ = try await Sending(request, over: server.transport).response()
                #expect(openDescriptorCount() <= before)
            }
        }

        /// The record of a large file cannot be created, and the transport has ended by then.
        @Test func aRecordThatLacksADescriptorFailsTheDownload() async {
            await #expect(processExitsWith: .success) {
                endProcessIfStuck()
                let directory = try TemporaryDirectory()
                let server = StubServer.held()
                let request = Request.stub("file").saved(to: directory.file("target"))
                let sending = Sending(request, over: server.transport)
                let exchange = await server.exchanges.wait()[0]
                await openDescriptorsOfDispatch()
                Self.limit(RLIMIT_NOFILE, to: 0)
                let gate = DispatchSemaphore(value: 0)
                let download = try #require(sending.operation.state.withLock { $0.followUp?.download })
                download.executor.async { gate.wait() }
                exchange.answer(200, headerFields: ["ETag": "\"1\""], body: Data(count: 1_500_000))
                gate.signal()
                let error = try await sending.error()
                #expect(error.code == .destinationUnwritable)
                #expect((error.underlying as? POSIXError)?.code == .EMFILE)
            }
        }
    }
#endif
