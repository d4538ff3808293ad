import Foundation
import Testing

@Suite(.enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/openssl"), "openssl is not installed"))
struct TLSRunningTests {
    private let directory: TemporaryDirectory
    private let target: URL
    private var trust: [String] { ["--cacert", path("server.pem")] }

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

    private func path(_ name: String) -> String { directory.file(name).path }

    /// Calls the body with the port of a server that serves `page`.
    private func serving(_ arguments: String..., body: (_ port: String) async throws -> Void) async throws {
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
        try await body(String(#require(line.split(separator: ":").last)))
        process.send(SIGKILL)
        try await process.ended(mayBeKilled: true)
        withExtendedLifetime(pipe) {}
    }

    private func fetch(_ port: String) -> Invocation {
        Invocation(["--no-config", "--retries=0", "-P", target.path], last: ["https://localhost:\(port)/page"])
    }

    @Test func aCertificateIsTrustedForAReason() async throws {
        try await serving { port in
            try await fetch(port)(status: 1, errors: "no trusted connection could be made")
            try await fetch(port)(trust)
            try await fetch(port)("--cacert", path("client.pem"), status: 1)
            let loud = try await fetch(port)("-v", "-k", errors: ["WARNING", "--insecure"])
            #expect(loud.errors.contains(#/TLS [0-9.]+ with \S+ after /#), "\(loud.errors)")
            let told = try await fetch(port)("-k", "--json", errors: "")
            #expect(told.events.first?["event"] as? String == "warning", "\(told.output)")
            #expect((told.events.first?["message"] as? String)?.contains("--insecure") == true)
            for name in ["CURL_CA_BUNDLE", "SSL_CERT_FILE"] {
                let variable = "unset CURL_CA_BUNDLE SSL_CERT_FILE; \(name)=\"$1\"; export \(name)"
                try await convoy(
                    shell: variable + "; shift; exec \"$0\" \"$@\"", path("server.pem"), "--no-config", "--retries=0",
                    "-P", target.path, "https://localhost:\(port)/page")
            }
        }
    }

    @Test func aClientShowsItsCertificate() async throws {
        try await serving("-Verify", "1", "-CAfile", "client.pem", "-verify_return_error") { port in
            try await fetch(port)(trust, status: 1)
            try await fetch(port)(trust, "--cert", path("client.pem"), "--key", path("client.key"))
            try await fetch(port)(trust, "--key", path("client.key"), status: 2, errors: "add --cert")
        }
    }

    @Test func olderTLSIsRefused() async throws {
        try await serving("-tls1_2") { port in
            try await fetch(port)(trust, "-v", "--tls-min", "1.2", errors: "TLS 1.2 with ECDHE")
            try await fetch(port)(trust, "--tls-min", "1.3", status: 1, errors: "no trusted connection could be made")
        }
    }

    /// The server announces HTTP/2 and does not speak it.
    @Test func onlyHTTP1IsSpokenIfAsked() async throws {
        try await serving("-alpn", "h2,http/1.1") { port in
            try await fetch(port)(trust, "-m", "2", status: 1)
            try await fetch(port)(trust, "-m", "2", "--http1")
        }
    }

    @Test func anOptionThatURLSessionLacksIsReported() async throws {
        try await convoy(
            "--no-config", "--transport", "urlsession", "--connect-timeout", "3", "-P", target.path,
            "http://127.0.0.1/a", status: 2, errors: "--connect-timeout")
    }
}
