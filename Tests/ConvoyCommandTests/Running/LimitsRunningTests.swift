#if os(Linux)
    import Foundation
    import Testing

    /// Tests limits of the process, and an output that cannot be written.
    ///
    /// `CONVOY_LIMITS=1` in the environment tests more limits and more files.
    @Suite final class LimitsRunningTests: CommandTests {
        private static let isLong = ProcessInfo.processInfo.environment["CONVOY_LIMITS"] != nil
        private static let fileCount = isLong ? 300 : 60
        private static let spaces = isLong ? Array(stride(from: 90, through: 300, by: 10)) : [100, 130, 170]

        override init() throws {
            try super.init()
            server.respond { .status(200, body: String(repeating: $0.path, count: 2_000)) }
        }

        private func urls(_ count: Int) -> [String] { (0..<count).map { url("/f\($0)") } }

        /// Runs the command after a line of shell that sets a limit.
        @discardableResult
        private func fetch(
            after limit: String, _ arguments: [String], status: Int32? = nil, errors: Texts? = nil
        ) async throws -> ConvoyProcess.Ending {
            try await convoy(
                shell: "\(limit); exec \"$0\" \"$@\"", "fetch", "-o", directory.url.path, arguments, status: status,
                errors: errors)
        }

        private func expectFiles(_ count: Int) throws {
            #expect(try directory.names() == (0..<count).map { "f\($0)" }.sorted())
            for index in 0..<count {
                #expect(try content("f\(index)") == String(repeating: "/f\(index)", count: 2_000))
            }
        }

        @Test(arguments: [24, 32, 64, 256])
        func fewDescriptorsAreEnoughForEveryFile(limit: Int) async throws {
            try await fetch(
                after: "ulimit -n \(limit)", ["-j", "256", "--per-host", "256"] + urls(Self.fileCount), status: 0,
                errors: "")
            try expectFiles(Self.fileCount)
        }

        @Test(arguments: [4, 5, 6, 12]) func tooFewDescriptorsForOneRequestAreOneError(limit: Int) async throws {
            try await fetch(
                after: "ulimit -n \(limit)", urls(3), status: 2,
                errors: "^convoy: there are too few file descriptors: the limit of this process")
            #expect(server.requestCount == 0)
        }

        /// Runs as a user who has no other process, to which only root can switch.
        @Test(.enabled(if: getuid() == 0 && access("/usr/bin/setpriv", X_OK) == 0), arguments: [1, 2, 4, 6, 32])
        func tooFewThreadsForOneRequestAreOneError(limit: Int) async throws {
            let user = "exec /usr/bin/setpriv --reuid \(61_000 + limit) --clear-groups \"$0\" \"$@\""
            let arguments = ["fetch", "--discard", "--retries", "0"] + urls(1)
            let ending = try await ConvoyProcess(under: "/bin/bash", ["-c", "ulimit -u \(limit); \(user)"], arguments)
                .ended()
            // Status 126 or 127: this user cannot execute the command, so the test proves nothing.
            if ending.status == 126 || ending.status == 127 { return }
            #expect(ending.status == (limit == 32 ? 0 : 1))
            guard limit != 32 else { return }
            #expect(ending.errors.hasPrefix("convoy: no thread could be created for a request"))
            #expect(ending.errors.split(separator: "\n").count == 1)
            #expect(server.requestCount == 0)
        }

        @Test func theLimitOfDescriptorsIsRaisedAsFarAsIsAllowed() async throws {
            try await fetch(after: "ulimit -S -n 12", urls(3), status: 0)
            try expectFiles(3)
        }

        @Test(arguments: spaces)
        func aLimitOfTheAddressSpaceIsEnoughOrOneError(space: Int) async throws {
            let ending = try await fetch(
                after: "ulimit -v \(space << 10)", ["-j", "256", "--per-host", "256"] + urls(Self.fileCount))
            switch ending.status {
            case 0:
                #expect(ending.errors == "")
                try expectFiles(Self.fileCount)
            // The loader cannot even load the libraries; 127 is its exit status.
            case 127: #expect(ending.errors.contains("error while loading shared libraries"))
            default:
                #expect(ending.status == 2)
                #expect(ending.errors.hasPrefix("convoy: there is too little memory: the limit of this process"))
                #expect(server.requestCount == 0)
            }
        }

        @Test(arguments: [["--json"], []])
        func anOutputOnAFullDiskEndsNoDownload(options: [String]) async throws {
            let full = try #require(FileHandle(forWritingAtPath: "/dev/full"))
            let arguments = ["fetch", "-j", "1", "-o", directory.url.path] + options + urls(3)
            let ending = try await convoy(arguments, output: full, status: 1)
            #expect(ending.errors == "convoy: standard output can no longer be written: No space left on device\n")
            try expectFiles(3)
        }

        @Test func aTextThatCannotBeWrittenIsAnError() async throws {
            let full = try #require(FileHandle(forWritingAtPath: "/dev/full"))
            let ending = try await convoy("--version", output: full, status: 1)
            #expect(ending.errors.hasPrefix("convoy: standard output can no longer be written"))
        }
    }
#endif
