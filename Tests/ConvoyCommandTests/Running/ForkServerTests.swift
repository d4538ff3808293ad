#if os(Linux)
    import Foundation
    import Testing

    @testable import TestSupport

    /// Tests fork servers that end or hang.
    @Suite(.enabled(if: PreloadedLibrary.isPossible)) struct ForkServerTests {
        private static let isTrue = URL(filePath: "/bin/true")

        private func nothing<Value>(_ body: (Int32) throws -> Value) throws -> Value {
            let file = open("/dev/null", O_RDWR | O_CLOEXEC)
            defer { close(file) }
            return try body(file)
        }

        /// A start fails if the program is not a fork server, or if the message does not have three streams.
        ///
        /// In both cases the program ends. The start has no time limit, so it would wait for ever if the tests kept the
        /// program's end of the socket open.
        @Test(arguments: [false, true]) func aServerThatEndsStartsNothing(isServer: Bool) async throws {
            let ends = EventLog<Bool>()
            let server = try ForkServer(Self.isTrue, library: isServer ? PreloadedLibrary.forkServer.path : "")
            Thread.detachNewThread {
                ends.record(
                    (try? nothing { try server.start("/", ["true"], [], [$0, $0], within: -1) }) == nil)
            }
            #expect(await ends.wait() == [true])
        }

        @Test func aServerThatHangsStartsNothing() async throws {
            let server = try ForkServer(Self.isTrue, library: PreloadedLibrary.forkServer.path)
            defer { server.process.send(SIGKILL) }
            server.process.send(SIGSTOP)
            let status = "/proc/\(server.process.processIdentifier)/stat"
            try await look { try String(contentsOfFile: status, encoding: .utf8).contains(") T ") }
            #expect(throws: ForkServer.Silent.self) {
                try nothing { try server.start("/", ["true"], [], [$0, $0, $0], within: 1) }
            }
        }

        @Test func withoutItsServerAProgramIsStartedInTheUsualWay() async throws {
            func start() throws -> ForkedProcess? {
                try nothing { ForkServer.start(Self.isTrue, [], [:], nil, streams: [$0, $0, $0]) }
            }
            let ends = EventLog<Void>()
            let process = try #require(try start())
            process.onEnd { ends.record(()) }
            await ends.wait()
            #expect(!process.ending.isSignalled && process.ending.status == 0)
            let server = try #require(ForkServer.server(of: Self.isTrue))
            server.process.send(SIGKILL)
            await look { !server.process.isRunning }
            for _ in 0..<2 { #expect(try start() == nil) }
        }

        /// The tests could not end a process that outlived its fork server.
        @Test func theProcessesOfAServerEndWithIt() async throws {
            let server = try ForkServer(URL(filePath: "/bin/sleep"), library: PreloadedLibrary.forkServer.path)
            let (output, ends) = (Pipe(), EventLog<Data>())
            // Other children must not inherit this descriptor.
            _ = fcntl(output.fileHandleForWriting.fileDescriptor, F_SETFD, FD_CLOEXEC)
            let process = try #require(
                try nothing {
                    try server.start("/", ["sleep", "600"], [], [$0, output.fileHandleForWriting.fileDescriptor, $0])
                })
            try output.fileHandleForWriting.close()
            process.onEnd { ends.record(Data()) }
            // The process has the only descriptor for writing.
            Thread.detachNewThread { ends.record(output.fileHandleForReading.readDataToEndOfFile()) }
            server.process.send(SIGKILL)
            #expect(await ends.wait(count: 2) == [Data(), Data()])
            #expect(process.ending.isSignalled && process.ending.status == SIGKILL)
        }
    }
#endif
