// Programs that are linked once and started many times. `Tests/ForkServer` explains how.
#if os(Linux)
    import Foundation

    /// A process that starts a program by forking.
    final class ForkServer: Sendable {
        /// The space that a server reserves for the arguments and variables of a message.
        private static let room = (arguments: 1_024, variables: 512, bytes: 96 * 1_024)

        private static let servers = Servers()

        /// Starts a program with these descriptors as its streams.
        ///
        /// - Returns: nil if the program has to be started in the usual way.
        static func start(
            _ program: URL, _ arguments: [String], _ environment: [String: String], _ directory: URL?,
            streams: [Int32]
        ) -> ForkedProcess? {
            // The dynamic linker would read this variable, but the server is already linked.
            guard environment["LD_PRELOAD"] == nil else { return nil }
            return servers.server(of: program)?.start(
                directory?.path ?? FileManager.default.currentDirectoryPath, [program.path] + arguments,
                environment.map { "\($0)=\($1)" }, streams)
        }

        /// The servers by the path of their program.
        private final class Servers: @unchecked Sendable {
            // @unchecked: `lock` guards all properties.
            private let lock = NSLock()
            /// The server of each path; nil for a program that cannot have one.
            private var servers: [String: ForkServer?] = [:]

            /// The lock is held while a server starts, so each program gets only one server.
            func server(of program: URL) -> ForkServer? {
                lock.withLock {
                    if let server = servers[program.path] { return server }
                    let server = try? ForkServer(program)
                    servers[program.path] = .some(server)
                    return server
                }
            }
        }

        private let process = Process()
        private let requests: Int32

        private init(_ program: URL) throws {
            let library = try PreloadedLibrary.forkServer.path
            var ends: [Int32] = [-1, -1]
            let kind = Int32(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue)
            guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { throw CocoaError(.featureUnsupported) }
            requests = ends[0]
            // The server binds all symbols once, instead of each process.
            var environment = ProcessInfo.processInfo.environment
            environment.merge(["LD_PRELOAD": library, "LD_BIND_NOW": "1", "FORK_SERVER": "1"]) { $1 }
            for number in environment.count..<Self.room.variables { environment["ROOM\(number)"] = "" }
            process.executableURL = program
            process.arguments =
                Array(repeating: "", count: Self.room.arguments) + [String(repeating: " ", count: Self.room.bytes)]
            process.environment = environment
            process.standardInput = FileHandle(fileDescriptor: ends[1], closeOnDealloc: true)
            process.standardOutput = FileHandle.nullDevice
            try process.run()
        }

        private func start(
            _ directory: String, _ arguments: [String], _ variables: [String], _ streams: [Int32]
        ) -> ForkedProcess? {
            var answers: [Int32] = [-1, -1]
            guard pipe(&answers) == 0 else { return nil }
            for end in answers { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
            defer { close(answers[1]) }
            var message = Data()
            for count in [arguments.count, variables.count] {
                withUnsafeBytes(of: UInt32(count)) { message.append(contentsOf: $0) }
            }
            for text in arguments + variables + [directory] { message.append(contentsOf: Array(text.utf8) + [0]) }
            guard send(message, with: streams + [answers[1]]) else {
                close(answers[0])
                return nil
            }
            return ForkedProcess(answers[0])
        }

        private func send(_ message: Data, with files: [Int32]) -> Bool {
            // A `cmsghdr`: its length in 64 bits, level and type; then the descriptors.
            let length = 16 + files.count * MemoryLayout<Int32>.size
            var control = [Int32(length), 0, SOL_SOCKET, Int32(SCM_RIGHTS)] + files
            var message = message
            return control.withUnsafeMutableBytes { control in
                message.withUnsafeMutableBytes { bytes in
                    var piece = iovec(iov_base: bytes.baseAddress, iov_len: bytes.count)
                    return withUnsafeMutablePointer(to: &piece) { piece in
                        var head = msghdr()
                        (head.msg_iov, head.msg_iovlen) = (piece, 1)
                        (head.msg_control, head.msg_controllen) = (control.baseAddress, control.count)
                        return sendmsg(requests, &head, Int32(MSG_NOSIGNAL)) == bytes.count
                    }
                }
            }
        }
    }

    /// A process that a ``ForkServer`` started.
    final class ForkedProcess: RunningProcess, @unchecked Sendable {
        // @unchecked: `lock` guards the status.
        let processIdentifier: pid_t
        private let answers: Int32
        private let lock = NSLock()
        private var status: Int32?

        fileprivate init?(_ answers: Int32) {
            guard let identifier = Self.next(answers), identifier > 0 else {
                close(answers)
                return nil
            }
            (processIdentifier, self.answers) = (identifier, answers)
        }

        /// Calls the function on a new thread when the process has ended.
        func onEnd(_ body: @escaping @Sendable () -> Void) {
            Thread.detachNewThread { [self] in
                // If the server is gone, the process counts as killed.
                let status = Self.next(answers) ?? SIGKILL
                close(answers)
                lock.withLock { self.status = status }
                body()
            }
        }

        var isRunning: Bool { lock.withLock { status == nil } }

        /// The exit status, or the signal that ended the process.
        var ending: ChildProcess.Ending {
            let word = lock.withLock { status } ?? 0
            let signal = word & 0x7F
            return ChildProcess.Ending(status: signal == 0 ? word >> 8 & 0xFF : signal, isSignalled: signal != 0)
        }

        private static func next(_ answers: Int32) -> Int32? {
            var number: Int32 = 0
            while true {
                let count = read(answers, &number, 4)
                if count < 0, errno == EINTR { continue }
                return count == 4 ? number : nil
            }
        }
    }
#endif
