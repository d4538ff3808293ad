// Programs that are linked once and started many times. `Tests/ForkServer` explains how.
#if os(Linux)
    import Foundation

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
            guard environment["LD_PRELOAD"] == nil, let server = servers.server(of: program) else { return nil }
            do {
                return try server.start(
                    directory?.path ?? FileManager.default.currentDirectoryPath, [program.path] + arguments,
                    environment.map { "\($0)=\($1)" }, streams)
            } catch {
                // From now on, the program is started in the usual way. The server is killed, so that it does not start
                // the program too.
                servers.forget(program)
                server.process.send(SIGKILL)
                return nil
            }
        }

        /// A server has ended without an answer, or does not answer.
        struct Silent: Error {}

        private final class Servers: @unchecked Sendable {
            // @unchecked: `lock` guards all properties.
            private let lock = NSLock()
            /// The server of each path; nil for a program that cannot have one.
            private var servers: [String: ForkServer?] = [:]

            /// The lock is held while a server starts, so each program gets only one server.
            func server(of program: URL) -> ForkServer? {
                lock.withLock {
                    if let server = servers[program.path] { return server }
                    let server =
                        PreloadedLibrary.isPossible
                        ? try? ForkServer(program, library: PreloadedLibrary.forkServer.path) : nil
                    servers[program.path] = .some(server)
                    return server
                }
            }

            func forget(_ program: URL) { lock.withLock { servers[program.path] = .some(nil) } }
        }

        let process = Process()
        private let requests: Int32

        init(_ program: URL, library: String) throws {
            let ends = try Self.sockets(SOCK_SEQPACKET)
            requests = ends.own
            // A server that does not receive must not hold up a sender for ever.
            var bound = timeval(tv_sec: 60, tv_usec: 0)
            setsockopt(requests, SOL_SOCKET, SO_SNDTIMEO, &bound, socklen_t(MemoryLayout<timeval>.size))
            // The server binds all symbols once, instead of each process.
            var environment = ProcessInfo.processInfo.environment
            environment.merge(["LD_PRELOAD": library, "LD_BIND_NOW": "1", "FORK_SERVER": "1"]) { $1 }
            for number in environment.count..<Self.room.variables { environment["ROOM\(number)"] = "" }
            process.executableURL = program
            process.arguments =
                Array(repeating: "", count: Self.room.arguments) + [String(repeating: " ", count: Self.room.bytes)]
            process.environment = environment
            let input = FileHandle(fileDescriptor: ends.other, closeOnDealloc: true)
            process.standardInput = input
            process.standardOutput = FileHandle.nullDevice
            try process.run()
            // While this process has a copy of the server's socket, it cannot detect the end of the server.
            try? input.close()
        }

        deinit { close(requests) }

        /// Sends a signal to a process of this server if it has not ended.
        ///
        /// Only the server knows whether the process has ended. After the end, another process may get the identifier.
        func send(_ signal: Int32, to process: pid_t) {
            let message = [process, signal]
            Glibc.send(requests, message, MemoryLayout<Int32>.size * message.count, Int32(MSG_NOSIGNAL))
        }

        /// - Returns: nil if the server cannot start such a process.
        func start(
            _ directory: String, _ arguments: [String], _ variables: [String], _ streams: [Int32]
        ) throws(Silent) -> ForkedProcess? {
            guard let answers = try? Self.sockets(SOCK_STREAM) else { return nil }
            var message = Data()
            for count in [arguments.count, variables.count] {
                withUnsafeBytes(of: UInt32(count)) { message.append(contentsOf: $0) }
            }
            for text in arguments + variables + [directory] { message.append(contentsOf: Array(text.utf8) + [0]) }
            let isSent = send(message, with: streams + [answers.other])
            close(answers.other)
            let identifier = isSent ? ForkedProcess.next(answers.own, within: 60_000) : nil
            if let identifier, identifier > 0 { return ForkedProcess(identifier, answers.own, of: self) }
            close(answers.own)
            if isSent, identifier == nil { throw Silent() }
            return nil
        }

        /// Two connected sockets that no child inherits.
        private static func sockets(_ kind: __socket_type) throws -> (own: Int32, other: Int32) {
            var ends: [Int32] = [-1, -1]
            guard socketpair(AF_UNIX, Int32(kind.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else {
                throw CocoaError(.featureUnsupported)
            }
            return (ends[0], ends[1])
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
        private let identifier: pid_t
        private let answers: Int32
        private let server: ForkServer
        private let lock = NSLock()
        private var status: Int32?

        fileprivate init(_ identifier: pid_t, _ answers: Int32, of server: ForkServer) {
            (self.identifier, self.answers, self.server) = (identifier, answers, server)
        }

        func send(_ signal: Int32) { if isRunning { server.send(signal, to: identifier) } }

        /// Calls the function on a new thread when the process has ended.
        func onEnd(_ body: @escaping @Sendable () -> Void) {
            Thread.detachNewThread { [self] in
                // The end of a server kills its processes.
                let status = Self.next(answers) ?? SIGKILL
                close(answers)
                lock.withLock { self.status = status }
                body()
            }
        }

        var isRunning: Bool { lock.withLock { status == nil } }

        var ending: ChildProcess.Ending {
            let word = lock.withLock { status } ?? 0
            let signal = word & 0x7F
            return ChildProcess.Ending(status: signal == 0 ? word >> 8 & 0xFF : signal, isSignalled: signal != 0)
        }

        /// The next answer; nil if the server has ended, or does not answer within a number of milliseconds.
        fileprivate static func next(_ answers: Int32, within bound: Int32 = -1) -> Int32? {
            var number: Int32 = 0
            var polled = pollfd(fd: answers, events: Int16(POLLIN), revents: 0)
            while true {
                let isReady = poll(&polled, 1, bound)
                let count = isReady > 0 ? read(answers, &number, 4) : Int(isReady)
                if count < 0, errno == EINTR { continue }
                return count == 4 ? number : nil
            }
        }
    }
#endif
