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

        private static func openDescriptors() -> Int {
            (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 0
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
                // The manager creates the descriptors that libdispatch keeps for timers, so none of them appears
                // between the two counts.
                _ = RequestManager()
                let directory = try TemporaryDirectory()
                let server = StubServer { $0.answer(200) }
                let request = Request.stub("file").saved(to: directory.file("target"))
                _ = try await Sending(request, over: server.transport).response()
                let before = Self.openDescriptors()
                var taken: [Int32] = []
                Self.limit(RLIMIT_NOFILE, to: UInt(before + 20))
                while true {
                    let descriptor = open("/dev/null", O_RDONLY)
                    guard descriptor >= 0 else { break }
                    taken.append(descriptor)
                }
                let error = try await Sending(request, over: server.transport).error()
                #expect(error.code == .destinationUnwritable)
                #expect((error.underlying as? POSIXError)?.code == .EMFILE)
                for descriptor in taken { close(descriptor) }
                #expect(Self.openDescriptors() == before)
                _ = try await Sending(request, over: server.transport).response()
                #expect(Self.openDescriptors() == before)
            }
        }
    }
#endif
