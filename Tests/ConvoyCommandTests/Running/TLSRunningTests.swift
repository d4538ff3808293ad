import ConvoyTesting
import Foundation
import Testing

/// Tests options for TLS against `openssl s_server`.
@Suite(.enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/openssl"), "openssl is not installed"))
struct TLSRunningTests {
    private let directory: TemporaryDirectory
    private let target: URL

    init() async throws {
        directory = try TemporaryDirectory()
        target = try directory.makeDirectory("target")
        let script = """
            cd "$1" && for name in server client; do openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 \\
            -nodes -keyout $name.key -out $name.pem -days 2 -subj /CN=$name -addext subjectAltName=DNS:localhost; done
            printf 'HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\nConnection: close\\r\\n\\r\\nhello' > page
            """
        let made = try await ConvoyProcess(shell: script, [directory.url.path]).ended()
        try #require(made.status == 0, "\(made.errors)")
    }

    private func path(_ name: String) -> String { directory.url.path + "/" + name }

    /// Starts a server that serves `page`, and returns its port.
    private func serve(_ arguments: [String] = []) async throws -> (process: ConvoyProcess, pipe: Pipe, port: String) {
        let pipe = Pipe()
        let script =
            "cd \"$1\" && shift && exec openssl s_server -HTTP -accept 127.0.0.1:0 -cert server.pem -key server.key \"$@\""
        let process = try ConvoyProcess(
            program: "/bin/sh", ["-c", script, "sh", directory.url.path] + arguments, output: pipe)
        try pipe.fileHandleForWriting.close()
        var text = ""
        for word in ["ACCEPT ", "\n"] where !text.contains("ACCEPT") || !text.hasSuffix("\n") {
            text += await pipe.text(until: word)
        }
        let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("ACCEPT ") })
        return (process, pipe, String(try #require(line.split(separator: ":").last)))
    }

    private func fetch(_ port: String, _ arguments: [String]) async throws -> ConvoyProcess.Ending {
        try await ConvoyProcess(
            ["--no-config", "--retries=0", "-P", target.path] + arguments + ["https://localhost:\(port)/page"]
        ).ended()
    }

    private func stop(_ process: ConvoyProcess) async throws {
        process.send(SIGKILL)
        _ = try await process.ended(mayBeKilled: true)
    }

    @Test func aCertificateIsTrustedForAReason() async throws {
        let (process, pipe, port) = try await serve()
        let refused = try await fetch(port, [])
        #expect(refused.status == 1)
        #expect(refused.errors.contains("no trusted connection could be made"))
        let trusted = try await fetch(port, ["--cacert", path("server.pem")])
        #expect(trusted.status == 0, "\(trusted.errors)")
        #expect(try await fetch(port, ["--cacert", path("client.pem")]).status == 1)
        let loud = try await fetch(port, ["-v", "-k"])
        #expect(loud.status == 0, "\(loud.errors)")
        #expect(loud.errors.contains(#/TLS [0-9.]+ with \S+ after /#), "\(loud.errors)")
        #expect(loud.errors.contains("WARNING"))
        #expect(loud.errors.contains("--insecure"))
        let told = try await fetch(port, ["-k", "--json"])
        #expect(told.status == 0)
        #expect(told.errors == "")
        #expect(told.events.first?["event"] as? String == "warning", "\(told.output)")
        #expect((told.events.first?["message"] as? String)?.contains("--insecure") == true)
        for name in ["CURL_CA_BUNDLE", "SSL_CERT_FILE"] {
            let child = try ConvoyProcess(
                shell: "unset CURL_CA_BUNDLE SSL_CERT_FILE; \(name)=\"$1\"; export \(name); shift; exec \"$0\" \"$@\"",
                [path("server.pem"), "--no-config", "--retries=0", "-P", target.path, "https://localhost:\(port)/page"])
            #expect(try await child.ended().status == 0, "\(name)")
        }
        try await stop(process)
        withExtendedLifetime(pipe) {}
    }

    @Test func aClientShowsItsCertificate() async throws {
        let (process, pipe, port) = try await serve(["-Verify", "1", "-CAfile", "client.pem", "-verify_return_error"])
        let trust = ["--cacert", path("server.pem")]
        #expect(try await fetch(port, trust).status == 1)
        let shown = try await fetch(port, trust + ["--cert", path("client.pem"), "--key", path("client.key")])
        #expect(shown.status == 0, "\(shown.errors)")
        let lonely = try await fetch(port, trust + ["--key", path("client.key")])
        #expect(lonely.status == 2)
        #expect(lonely.errors.contains("add --cert"))
        try await stop(process)
        withExtendedLifetime(pipe) {}
    }

    @Test func olderTLSIsRefused() async throws {
        let (process, pipe, port) = try await serve(["-tls1_2"])
        let trust = ["--cacert", path("server.pem")]
        let told = try await fetch(port, trust + ["-v", "--tls-min", "1.2"])
        #expect(told.status == 0 && told.errors.contains("TLS 1.2 with ECDHE"), "\(told.errors)")
        let refused = try await fetch(port, trust + ["--tls-min", "1.3"])
        #expect(refused.status == 1)
        #expect(refused.errors.contains("no trusted connection could be made"))
        try await stop(process)
        withExtendedLifetime(pipe) {}
    }

    /// The server announces HTTP/2 and does not speak it.
    @Test func onlyHTTP1IsSpokenIfAsked() async throws {
        let (process, pipe, port) = try await serve(["-alpn", "h2,http/1.1"])
        let arguments = ["--cacert", path("server.pem"), "-m", "2"]
        #expect(try await fetch(port, arguments).status == 1)
        #expect(try await fetch(port, arguments + ["--http1"]).status == 0)
        try await stop(process)
        withExtendedLifetime(pipe) {}
    }

    @Test func anOptionThatURLSessionLacksIsReported() async throws {
        let ending = try await convoy(
            "--no-config", "--transport", "urlsession", "--connect-timeout", "3", "-P", target.path,
            "http://127.0.0.1/a")
        #expect(ending.status == 2)
        #expect(ending.errors.contains("--connect-timeout"))
    }
}
