// Certificates for the tests, made by the openssl command.
import Foundation
import Testing

#if os(Linux)
    /// A certificate authority and its certificates, as PEM files that are removed at the end of this process.
    struct Certificates: Sendable {
        /// A certificate with its private key.
        struct Identity: Sendable {
            let certificate: URL
            let privateKey: URL
            /// The base64 of the SHA-256 of the public key (RFC 7469, section 2.4).
            let publicKeyPin: String
        }

        /// The authority that signed all certificates except `selfSigned`.
        let authority: Identity
        /// A certificate for localhost, 127.0.0.1 and ::1, like `expired` and `selfSigned`.
        let server: Identity
        /// A certificate that has expired.
        let expired: Identity
        /// A certificate that is signed by itself.
        let selfSigned: Identity
        /// A certificate for example.invalid only.
        let otherName: Identity
        /// A client's certificate with the common name `convoy-client`.
        let client: Identity
        /// The client's private key, encrypted with ``password``.
        let lockedClientKey: URL
        /// The client's certificate and private key in one archive, encrypted with ``password``.
        let clientArchive: URL
        /// The directory of these files, also used for missing files.
        let directory: URL

        static let password = "open sesame"

        /// The certificates of this process.
        static var shared: Certificates {
            get throws { try made.get() }
        }

        private static let directory = FileManager.default.temporaryDirectory
            .appending(path: "convoy-certificates-\(UUID().uuidString)", directoryHint: .isDirectory)

        private static let made = Result {
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
            atexit { try? FileManager.default.removeItem(at: Certificates.directory) }
            return try Certificates(in: directory)
        }

        private init(in directory: URL) throws {
            let output = EventLog<Data>()
            let shell = try SpawnedProcess(["sh", "-euc", Self.script], in: directory) { output.record($0) }
            let status = shell.waitForEnd(within: .seconds(120))
            let text = String(decoding: output.events.joined(), as: UTF8.self)
            try #require(status == 0, "the certificates could not be made: \(text)")
            func identity(_ name: String) throws -> Identity {
                let pin = try String(contentsOf: directory.appending(path: "\(name).pin"), encoding: .utf8)
                return Identity(
                    certificate: directory.appending(path: "\(name).pem"),
                    privateKey: directory.appending(path: "\(name).key"),
                    publicKeyPin: pin.trimmingCharacters(in: .whitespacesAndNewlines))
            }
            authority = try identity("authority")
            server = try identity("server")
            expired = try identity("expired")
            selfSigned = try identity("self-signed")
            otherName = try identity("other-name")
            client = try identity("client")
            clientArchive = directory.appending(path: "client.p12")
            lockedClientKey = directory.appending(path: "locked.key")
            self.directory = directory
        }

        private static let script = """
            cat > configuration <<END
            [ca]
            default_ca = authority
            [authority]
            database = ./index
            rand_serial = yes
            unique_subject = no
            new_certs_dir = .
            default_md = sha256
            policy = policy
            [policy]
            commonName = supplied
            [req]
            distinguished_name = name
            [name]
            END
            : > index
            here='subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1'

            # name, common name, what else to give to req
            make() {
                name=$1 common=$2; shift 2
                openssl req -config configuration -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
                    -keyout $name.key -subj "/CN=$common" "$@"
            }
            # name, common name, extension, end
            sign() {
                make $1 $2 -out $1.request
                echo "$3" > $1.extension
                openssl ca -config configuration -batch -notext -cert authority.pem -keyfile authority.key \
                    -in $1.request -out $1.pem -startdate 20200101000000Z -enddate $4 -extfile $1.extension
            }
            make authority 'Convoy test authority' -x509 -days 3650 -out authority.pem \
                -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign
            make self-signed localhost -x509 -days 3650 -out self-signed.pem -addext "$here"
            sign server localhost "$here" 20491231000000Z
            sign expired localhost "$here" 20210101000000Z
            sign other-name example.invalid 'subjectAltName=DNS:example.invalid' 20491231000000Z
            sign client convoy-client 'extendedKeyUsage=clientAuth' 20491231000000Z
            openssl pkey -in client.key -aes-256-cbc -passout 'pass:\(password)' -out locked.key
            openssl pkcs12 -export -in client.pem -inkey client.key -passout 'pass:\(password)' -out client.p12
            for name in authority self-signed server expired other-name client; do
                openssl x509 -in $name.pem -noout -pubkey | openssl pkey -pubin -outform der |
                    openssl dgst -sha256 -binary | base64 > $name.pin
            done
            """
    }

    /// A program that runs beside the tests and is killed when this process ends for any reason.
    final class SpawnedProcess: @unchecked Sendable {
        // @unchecked: `lock` guards `isRunning`, `status` and the descriptor.
        private let lock = NSLock()
        private let end = DispatchSemaphore(value: 0)
        private var process: pid_t = 0
        private var isRunning = false
        private var status: Int32?
        private var input: Int32 = -1

        /// Starts a program found by its name.
        ///
        /// - Parameter onOutput: receives the program's output, including errors, on a separate thread.
        init(_ arguments: [String], in directory: URL, onOutput: @escaping @Sendable (Data) -> Void) throws {
            let isStarted = DispatchSemaphore(value: 0)
            // The system kills the program when the thread that started it ends, so this thread waits for the
            // program.
            Thread { [self] in
                let output = start(["env", "-C", directory.path, "setpriv", "--pdeathsig", "KILL"] + arguments)
                isStarted.signal()
                if let output { read(output, onOutput) }
            }.start()
            isStarted.wait()
            try #require(lock.withLock { isRunning }, "\(arguments) could not be started")
        }

        /// Writes bytes to the program's standard input.
        func write(_ data: Data) {
            lock.withLock {
                guard isRunning else { return }
                _ = data.withUnsafeBytes { send(input, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            }
        }

        /// Kills the program, unless it has ended.
        func kill() {
            lock.withLock { if isRunning { _ = Glibc.kill(process, SIGKILL) } }
        }

        /// Waits for the exit status, which is nil after a signal; kills the program after the time limit.
        func waitForEnd(within seconds: DispatchTimeInterval) -> Int32? {
            if end.wait(timeout: .now() + seconds) == .timedOut { kill() } else { end.signal() }
            return lock.withLock { status }
        }

        private func start(_ arguments: [String]) -> Int32? {
            // The program's input is a socket, not a pipe. Writing to the socket with MSG_NOSIGNAL does not end this
            // process when the program no longer reads.
            var toProgram: [Int32] = [-1, -1]
            var fromProgram: [Int32] = [-1, -1]
            guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &toProgram) == 0, pipe(&fromProgram) == 0 else {
                return nil
            }
            for descriptor in toProgram + fromProgram { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
            var actions = posix_spawn_file_actions_t()
            posix_spawn_file_actions_init(&actions)
            posix_spawn_file_actions_adddup2(&actions, toProgram[0], 0)
            posix_spawn_file_actions_adddup2(&actions, fromProgram[1], 1)
            posix_spawn_file_actions_adddup2(&actions, fromProgram[1], 2)
            // The program inherits no sockets of other servers. A connection that such a server closes would stay open.
            for other in 3..<min(1_024, Int32(sysconf(Int32(_SC_OPEN_MAX)))) {
                posix_spawn_file_actions_addclose(&actions, other)
            }
            var attributes = posix_spawnattr_t()
            posix_spawnattr_init(&attributes)
            var noSignals = sigset_t()
            sigemptyset(&noSignals)
            posix_spawnattr_setsigmask(&attributes, &noSignals)
            posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
            var words = arguments.map { strdup($0) } + [nil]
            var variables = ProcessInfo.processInfo.environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
            let result = posix_spawnp(&process, arguments[0], &actions, &attributes, &words, &variables)
            for pointer in words + variables { free(pointer) }
            posix_spawnattr_destroy(&attributes)
            posix_spawn_file_actions_destroy(&actions)
            close(toProgram[0])
            close(fromProgram[1])
            lock.withLock {
                isRunning = result == 0
                input = toProgram[1]
            }
            if result == 0 { return fromProgram[0] }
            close(toProgram[1])
            close(fromProgram[0])
            return nil
        }

        private func read(_ output: Int32, _ onOutput: (Data) -> Void) {
            var buffer = [UInt8](repeating: 0, count: 1 << 16)
            while case let count = Glibc.read(output, &buffer, buffer.count), count > 0 {
                onOutput(Data(buffer[..<count]))
            }
            close(output)
            // The process is reaped only under the lock, so that no signal is sent to a reused process id.
            var information = siginfo_t()
            waitid(P_PID, id_t(process), &information, WEXITED | WNOWAIT)
            lock.withLock {
                var state: Int32 = 0
                waitpid(process, &state, 0)
                status = state & 0x7F == 0 ? state >> 8 & 0xFF : nil
                isRunning = false
                close(input)
            }
            end.signal()
        }
    }
#endif
