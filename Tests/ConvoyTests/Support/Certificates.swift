import Convoy
import Foundation
import Testing

#if os(Linux)
    /// A certificate authority and its certificates, as PEM files that are removed at the end of this process.
    struct Certificates: Sendable {
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
        let expired: Identity
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
    final class SpawnedProcess: Sendable {
        private let process = Process()
        private let end = DispatchSemaphore(value: 0)
        private let input: Int32

        /// Starts a program found by its name.
        ///
        /// - Parameter onOutput: receives the program's output, including errors, on a separate thread.
        init(_ arguments: [String], in directory: URL, onOutput: @escaping @Sendable (Data) -> Void) throws {
            // The program's input is a socket, not a pipe. Writing to the socket with MSG_NOSIGNAL does not end this
            // process when the program no longer reads.
            var (toProgram, fromProgram): ([Int32], [Int32]) = ([-1, -1], [-1, -1])
            let isOpen = socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &toProgram) == 0 && pipe(&fromProgram) == 0
            try #require(isOpen)
            for descriptor in toProgram + fromProgram { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
            input = toProgram[1]
            let ends = [toProgram[0], fromProgram[1]].map { FileHandle(fileDescriptor: $0, closeOnDealloc: true) }
            process.executableURL = URL(filePath: "/usr/bin/env")
            process.arguments = ["-C", directory.path, "setpriv", "--pdeathsig", "KILL"] + arguments
            (process.standardInput, process.standardOutput, process.standardError) = (ends[0], ends[1], ends[1])
            let (isStarted, failure) = (DispatchSemaphore(value: 0), Locked<(any Error)?>(nil))
            // The system kills the program when the thread that started it ends, so this thread waits for the
            // program.
            Thread { [process, end, output = fromProgram[0]] in
                // The program inherits the signals that this thread blocks. A shell waits for one of them.
                var noSignals = sigset_t()
                sigemptyset(&noSignals)
                pthread_sigmask(SIG_SETMASK, &noSignals, nil)
                do { try process.run() } catch { failure.withLock { $0 = error } }
                for end in ends { try? end.close() }
                isStarted.signal()
                var buffer = [UInt8](repeating: 0, count: 1 << 16)
                while case let count = Glibc.read(output, &buffer, buffer.count), count > 0 {
                    onOutput(Data(buffer[..<count]))
                }
                close(output)
                if failure.withLock({ $0 == nil }) { process.waitUntilExit() }
                end.signal()
            }.start()
            isStarted.wait()
            if let error = failure.withLock({ $0 }) { throw error }
        }

        deinit { close(input) }

        func write(_ data: Data) {
            _ = data.withUnsafeBytes { send(input, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
        }

        func kill() { if process.isRunning { _ = Glibc.kill(process.processIdentifier, SIGKILL) } }

        /// Waits for the exit status, which is nil after a signal; kills the program after the time limit.
        func waitForEnd(within seconds: DispatchTimeInterval) -> Int32? {
            guard end.wait(timeout: .now() + seconds) == .success else {
                kill()
                return nil
            }
            end.signal()
            return process.terminationReason == .exit ? process.terminationStatus : nil
        }
    }
#endif
