import Foundation
import Testing

#if os(Linux)
    /// `openssl s_server` on 127.0.0.1 with the same small response to every request, after which it closes.
    final class TLSServer: Sendable {
        private let process: SpawnedProcess
        private let log: Log
        let port: Int

        /// Starts a server and waits until it accepts.
        ///
        /// - Parameters:
        ///   - arguments: further arguments of `openssl s_server`.
        ///   - answer: the raw response; by default a 200 with `body`.
        init(
            _ identity: Certificates.Identity, _ arguments: [String] = [], body: String = "hello",
            answer: String? = nil
        ) async throws {
            let files = ["-cert", identity.certificate.path, "-key", identity.privateKey.path]
            let command = ["openssl", "s_server", "-accept", "127.0.0.1:0"] + files + arguments
            // s_server reads lines that start with certain letters as commands. H is not one of them.
            let answer =
                answer ?? "HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\nConnection: close\r\n\r\n\(body)"
            let log = Log()
            self.log = log
            process = try SpawnedProcess(command, in: identity.certificate.deletingLastPathComponent()) {
                log.append($0)
            }
            log.onHead = { [weak process] in process?.write(Data(answer.utf8)) }
            let ports = await log.ports.wait(within: .seconds(120))
            port = try #require(ports.first, "openssl s_server: \(log.text)")
        }

        deinit { shutDown() }

        /// The decrypted heads of the received requests, oldest first.
        var heads: [String] { log.heads.events }

        /// The output of the program: certificates of clients, alerts, requests.
        var output: String { log.text }

        func url(_ path: String = "/", host: String = "127.0.0.1") -> String { "https://\(host):\(port)\(path)" }

        func shutDown() { process.kill() }

        private final class Log: @unchecked Sendable {
            // @unchecked: `lock` guards all properties. `onHead` is called without the lock.
            private let lock = NSLock()
            private var output = ""
            private var rest = ""
            private var answer: @Sendable () -> Void = {}
            let heads = EventLog<String>()
            let ports = EventLog<Int>()

            var text: String { lock.withLock { output } }

            var onHead: @Sendable () -> Void {
                get { lock.withLock { answer } }
                set { lock.withLock { answer = newValue } }
            }

            func append(_ data: Data) {
                let newHeads: [String] = lock.withLock {
                    let text = String(decoding: data, as: UTF8.self)
                    output += text
                    rest += text
                    return takeHeads()
                }
                if ports.count == 0, let port = firstPort { ports.record(port) }
                for head in newHeads {
                    heads.record(head)
                    onHead()
                }
            }

            /// The port in the line `ACCEPT 127.0.0.1:40123`.
            private var firstPort: Int? {
                let words = text.split(whereSeparator: \.isNewline).first { $0.hasPrefix("ACCEPT ") }
                return words?.split(separator: ":").last.flatMap { Int($0) }
            }

            /// The complete heads in the output.
            ///
            /// Only HTTP has an empty line with CR and LF, and s_server's own text precedes the head.
            private func takeHeads() -> [String] {
                var heads: [String] = []
                while let end = rest.range(of: "\r\n\r\n") {
                    let lines = rest[..<end.lowerBound].components(separatedBy: "\r\n")
                    let requestLine = lines[0].components(separatedBy: "\n").last ?? ""
                    heads.append(([requestLine] + lines.dropFirst()).joined(separator: "\r\n"))
                    rest = String(rest[end.upperBound...])
                }
                return heads
            }
        }
    }
#endif
