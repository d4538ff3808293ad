import Foundation
import Testing

#if os(Linux)
    /// nginx on 127.0.0.1 with TLS, which responds with the number of the connection.
    final class Nginx: Sendable {
        static let isInstalled = FileManager.default.isExecutableFile(atPath: program)

        struct Answer: Sendable, Hashable {
            let method: String
            let target: String
            let connection: String
            /// The time in seconds since 1970.
            let time: Double
        }

        struct Options: Sendable {
            var speaksHTTP2 = true
            /// After this number of requests nginx ends a connection with a GOAWAY.
            var requestsPerConnection = 100_000
            /// A port of 127.0.0.1 to which nginx forwards paths starting with `/behind`.
            var backendPort: Int?
            var directives = ""
        }

        private static let program = "/usr/sbin/nginx"

        private let process: SpawnedProcess
        private let directory: TemporaryDirectory
        private let log: Log
        private let held: LoopbackPort
        var port: Int { held.port }

        var answers: EventLog<Answer> { log.answers }

        init(_ options: Options = Options()) async throws {
            (held, log) = (try LoopbackPort.refusing(), Log())
            directory = try TemporaryDirectory()
            try Self.configuration(held.port, options, in: directory).write(
                to: directory.file("configuration"), atomically: true, encoding: .utf8)
            let command = [Self.program, "-p", directory.url.path, "-c", "configuration", "-e", "stderr"]
            process = try SpawnedProcess(command, in: directory.url) { [log] in log.append($0) }
            try #require(await log.starts.wait(within: .seconds(120)).first == true)
        }

        deinit { shutDown() }

        func url(_ path: String = "/") -> String { "https://127.0.0.1:\(port)\(path)" }

        func shutDown() { process.kill() }

        private static func configuration(
            _ port: Int, _ options: Options, in directory: TemporaryDirectory
        ) throws -> String {
            let identity = try Certificates.shared.server
            let places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map {
                "\($0)_temp_path \(directory.file($0).path);"
            }
            let backend = options.backendPort.map { "location /behind { proxy_pass http://127.0.0.1:\($0); }" } ?? ""
            return """
                daemon off;
                master_process off;
                pid nginx.pid;
                error_log stderr notice;
                events { worker_connections 2048; }
                http {
                    log_format answers 'answered $request_method $request_uri $connection $msec';
                    access_log /dev/stdout answers;
                    \(places.joined(separator: "\n"))
                    server {
                        listen 127.0.0.1:\(port) ssl \(options.speaksHTTP2 ? "http2" : "");
                        ssl_certificate \(identity.certificate.path);
                        ssl_certificate_key \(identity.privateKey.path);
                        keepalive_requests \(options.requestsPerConnection);
                        \(options.directives)
                        \(backend)
                        location / { return 200 "$connection"; }
                    }
                }
                """
        }

        private final class Log: @unchecked Sendable {
            // @unchecked: only the thread that reads the output uses `rest`.
            private var rest = Data()
            let starts = EventLog<Bool>()
            let answers = EventLog<Answer>()

            func append(_ output: Data) {
                rest.append(output)
                while let end = rest.firstIndex(of: 0x0A) {
                    take(String(decoding: rest[..<end], as: UTF8.self))
                    rest = Data(rest[(end + 1)...])
                }
            }

            private func take(_ line: String) {
                let words = line.split(separator: " ").map(String.init)
                if words.first == "answered", words.count == 5, let time = Double(words[4]) {
                    answers.record(Answer(method: words[1], target: words[2], connection: words[3], time: time))
                }
                // nginx prints this line as soon as it listens.
                if line.contains("OS: ") { starts.record(true) }
                if line.contains("[emerg]") { starts.record(false) }
            }
        }
    }
#endif
