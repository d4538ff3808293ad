import ConvoyTesting
import Foundation
import Testing

@testable import ConvoyCommand

/// Tests options that curl also has: the server receives the same from the command and from curl.
@Suite struct OptionsRunningTests {
    private static let curl = ["/usr/bin/curl", "/usr/local/bin/curl", "/opt/homebrew/bin/curl"]
        .first { FileManager.default.isExecutableFile(atPath: $0) }

    /// The parts of a request that do not differ from run to run.
    private struct Seen: Equatable, CustomStringConvertible {
        var method: String
        var target: String
        var fields: [String: String] = [:]
        var body: String

        init(_ request: RecordedRequest, port: Int, names: [String]) {
            (method, target, body) = (request.method, request.target, request.bodyText)
            for name in names { fields[name] = request.value(of: name)?.replacing(":\(port)", with: ":PORT") }
            target = target.replacing(":\(port)", with: ":PORT")
            guard let type = fields["Content-Type"], let mark = type.range(of: "boundary=") else { return }
            let boundary = String(type[mark.upperBound...])
            fields["Content-Type"] = type.replacing(boundary, with: "BOUNDARY")
            body = body.replacing(boundary, with: "BOUNDARY")
        }

        var description: String { "\(method) \(target) \(fields.sorted { $0.key < $1.key }) \(body.debugDescription)" }
    }

    private static let names = [
        "Accept", "Authorization", "Content-Type", "Cookie", "Host", "If-Modified-Since", "Proxy-Authorization",
        "Range",
        "Referer", "X-Key",
    ]

    private let directory: TemporaryDirectory
    private let server: TestServer

    init() throws {
        directory = try TemporaryDirectory()
        server = try TestServer()
        server.respond { request in
            switch request.path {
            case "/moved": .redirect(to: "/page")
            case "/missing": .status(404)
            default: .resource(Data("0123456789".utf8), etag: "\"v1\"", headerFields: [("X-A", "b")])
            }
        }
        let files = [
            "body.txt": "one\r\ntwo\n", "netrc": "machine 127.0.0.1\nlogin me\npassword from-file\n",
            "cookies.txt": "# Netscape HTTP Cookie File\n127.0.0.1\tFALSE\t/\tFALSE\t0\tsid\t31d4\n",
            "data.json": "{\"a\": [1, 2]}",
        ]
        for (name, text) in files { try Data(text.utf8).write(to: directory.url.appending(path: name)) }
    }

    private func seen(_ program: String?, _ arguments: [String], _ path: String) async throws -> Seen {
        let child =
            if let program {
                try ConvoyProcess(program: program, ["-q", "-s", "-o", "/dev/null"] + arguments + [url(path)])
            } else {
                try ConvoyProcess(["fetch", "--no-config", "-P", directory.url.path] + arguments + [url(path)])
            }
        let ending = try await child.ended()
        #expect(ending.status == 0, "\(ending.errors)")
        let request = try await server.takeRequest()
        return Seen(request, port: server.port, names: Self.names)
    }

    private func url(_ path: String) -> String { server.url(path).absoluteString }

    /// Returns the options with this test's directory and port in place of `DIR/` and `PORT`.
    private func placed(_ options: [String]) -> [String] {
        options.map { $0.replacing("DIR/", with: directory.url.path + "/").replacing("PORT", with: "\(server.port)") }
    }

    private static let cases: [(ours: [String], curls: [String]?)] = [
        (["-X", "DELETE"], nil), (["--request", "PUT", "-d", "a=b"], nil), (["-d", "a=b", "--data", "c d=e"], nil),
        (["-d", "@DIR/body.txt"], nil), (["--data-binary", "@DIR/body.txt"], nil), (["--data-raw", "@here"], nil),
        (["-d", "a", "-H", "Content-Type: text/plain"], nil),
        (["--json-body", #"{"a": 1}"#], ["--json", #"{"a": 1}"#]),
        (["--json-body", "@DIR/data.json"], ["--json", "@DIR/data.json"]),
        (["-F", "name=a value"], nil), (["-F", "f=@DIR/body.txt;type=text/x-own;filename=other.txt"], nil),
        (["-F", "t=<DIR/body.txt", "-F", "u=v;type=text/own"], nil),
        (["-u", "me:secret:with colon"], nil), (["--netrc-file", "DIR/netrc"], nil),
        (["-d", ""], nil), (["-H", "X-Key;"], nil), (["-F", "n=\"a\\\"b\""], nil), (["-F", "n=\"a;b\\\\\""], nil),
        (["-F", "n=\"a\\nb\""], nil), (["-F", "n=5\" pipe;type=text/plain"], nil), (["-F", "n=\"abc"], nil),
        (["-F", "n=a\"b\"c"], nil), (["-F", "n=\"@a\""], nil), (["-F", "n=\"\""], nil), (["-F", "n=a\\\"b"], nil),
        (["-F", "n=<\"DIR/body.txt\";type=\"a/b\""], ["-F", "n=<\"DIR/body.txt\";type=a/b"]),
        (["-F", "n=@DIR/body.txt;filename=\"q\\\"r;s.txt\""], nil),
        (["--netrc-file", "DIR/netrc", "-u", "you:own"], nil),
        (["-b", "a=b; c=d"], nil), (["-b", "DIR/cookies.txt"], nil),
        (["-A", "agent/1.0"], nil), (["-e", "http://example.com/page"], nil), (["-H", "X-Key: value"], nil),
        (["-H", "Accept: text/plain"], nil), (["-r", "0-4"], nil), (["-r", "-3"], nil), (["--range", "7-"], nil),
        (["-z", "31 Jan 2026"], nil), (["-z", "DIR/body.txt"], nil), (["-z", "Sat, 31 Jan 2026 12:00:00 GMT"], nil),
        (["-x", "http://127.0.0.1:PORT"], nil), (["-x", "127.0.0.1:PORT"], nil),
        (["-x", "http://me:p%40w@127.0.0.1:PORT"], nil), (["--http1"], ["--http1.1"]),
        (["--connect-timeout", "9"], nil), (["-m", "60"], nil), (["--max-size", "1M"], ["--max-filesize", "1M"]),
        (["--resolve", "127.0.0.1:PORT:127.0.0.1"], nil), (["-k"], nil), (["--tls-min", "1.3"], ["--tlsv1.3"]),
    ]

    @Test(.enabled(if: curl != nil, "curl is not installed"), arguments: cases.indices)
    func theServerReceivesTheSameRequestFromCurl(index: Int) async throws {
        let (ours, curls) = Self.cases[index]
        var own = try await seen(nil, placed(ours), "/page?q=1")
        var other = try await seen(Self.curl, placed(curls ?? ours), "/page?q=1")
        // A missing `Accept` and `*/*` mean the same.
        for fields in [\Seen.fields] where own[keyPath: fields]["Accept"] == nil {
            other[keyPath: fields]["Accept"] = nil
        }
        if own.fields["Accept"] == "*/*" { own.fields["Accept"] = nil }
        if other.fields["Accept"] == "*/*" { other.fields["Accept"] = nil }
        #expect(own == other, "\(ours)")
    }

    /// The fields are those that curl 7.88 sends, except that it repeats a field that has one value.
    private static let repeated: [(options: [String], name: String, values: [String])] = [
        (["-A", "a", "-H", "User-Agent: b"], "User-Agent", ["b"]),
        (["-H", "User-Agent: b", "-A", "a"], "User-Agent", ["b"]),
        (["-e", "http://a/", "-H", "Referer: http://b/"], "Referer", ["http://b/"]),
        (["-b", "a=b", "-H", "Cookie: c=d"], "Cookie", ["c=d"]),
        (["-b", "DIR/cookies.txt", "-b", "a=b", "-H", "Cookie: c=d"], "Cookie", ["c=d"]),
        (["-u", "me:secret", "-H", "Authorization: Own x"], "Authorization", ["Own x"]),
        (["--netrc-file", "DIR/netrc", "-H", "Authorization: Own x"], "Authorization", ["Own x"]),
        (["--oauth2-bearer", "t", "-H", "Authorization: Own x"], "Authorization", ["Own x"]),
        (["-H", "Authorization: Own x", "--oauth2-bearer", "t"], "Authorization", ["Own x"]),
        (["-u", "me:secret", "--oauth2-bearer", "t"], "Authorization", ["Bearer t"]),
        (["-r", "0-3", "-H", "Range: bytes=1-2"], "Range", ["bytes=1-2"]),
        (["-z", "2020-01-01", "-H", "If-Modified-Since: x"], "If-Modified-Since", ["x"]),
        (["--compressed", "-H", "Accept-Encoding: gzip"], "Accept-Encoding", ["gzip"]),
        (["--json-body", "{}", "-H", "accept: a/b"], "Accept", ["a/b"]),
        (["--json-body", "{}", "-H", "Content-Type: a/b"], "Content-Type", ["a/b"]),
        (["-d", "a", "-H", "content-type: a/b"], "Content-Type", ["a/b"]),
        (["-d", "a", "-H", "Content-Length: 1"], "Content-Length", ["1"]),
        (["-H", "Host: a", "-H", "host: b"], "Host", ["a"]),
        (["-H", "X-Key: a", "-H", "X-Key: b"], "X-Key", ["a", "b"]),
        (["-d", "a", "-H", "Content-Type: a/b", "-H", "content-type: c/d"], "Content-Type", ["a/b"]),
        (["-H", "User-Agent: a", "-H", "user-agent: b"], "User-Agent", ["a"]),
        (["-H", "Range: bytes=0-1", "-H", "Range: bytes=2-3"], "Range", ["bytes=0-1"]),
        (["-H", "Accept: a/b", "-H", "Accept:"], "Accept", ["a/b"]),
        // An empty value omits the field.
        (["-H", "Accept:"], "Accept", []), (["-H", "User-Agent:"], "User-Agent", []), (["-A", ""], "User-Agent", []),
        (["-A", "a", "-H", "user-agent: "], "User-Agent", []), (["-e", ""], "Referer", []),
        (["-H", "Expect:", "-d", "a"], "Expect", []), (["-H", "Accept-Encoding:"], "Accept-Encoding", []),
        (["--compressed", "-H", "Accept-Encoding:"], "Accept-Encoding", []),
        (["-d", "a", "-H", "Content-Type:"], "Content-Type", []),
        (["--json-body", "{}", "-H", "Accept:"], "Accept", []),
        (["-u", "me:secret", "-H", "Authorization:"], "Authorization", []),
        (["--netrc-file", "DIR/netrc", "-H", "Authorization:"], "Authorization", []),
        (["-b", "a=b", "-H", "Cookie:"], "Cookie", []), (["-b", "DIR/cookies.txt", "-H", "Cookie:"], "Cookie", []),
        (["-d", "a", "-H", "Content-Length:"], "Content-Length", ["1"]), (["-r", "0-3", "-H", "Range:"], "Range", []),
        (["-z", "2020-01-01", "-H", "If-Modified-Since:"], "If-Modified-Since", []),
        (["-H", "X-Key;"], "X-Key", [""]), (["-H", "X-Key:"], "X-Key", []),
        (["-X", "POST", "-H", "Content-Length: 0"], "Content-Length", ["0"]),
        (["-X", "PUT", "-H", "Content-Length: 0"], "Content-Length", ["0"]),
        (["-d", "", "-H", "Content-Length: 0"], "Content-Length", ["0"]),
    ]

    @Test(arguments: repeated.indices) func aFieldOfTheUserReplacesThatOfAnOption(index: Int) async throws {
        let (options, name, values) = Self.repeated[index]
        let ending = try await ConvoyProcess(
            ["fetch", "--no-config", "-o", "/dev/null"] + placed(options) + [url("/page")]
        ).ended()
        #expect(ending.status == 0, "\(options): \(ending.errors)")
        #expect(try await server.takeRequest().values(of: name) == values, "\(options)")
    }

    /// As in curl, any given type keeps its parameters and gets the boundary of the form, also an empty type.
    @Test(
        arguments: [
            ([], "multipart/form-data; boundary="),
            (["Content-Type: multipart/form-data"], "multipart/form-data; boundary="),
            (["content-type:multipart/form-data; charset=utf-8"], "multipart/form-data; charset=utf-8; boundary="),
            (["Content-Type: multipart/form-data; boundary=own"], "multipart/form-data; boundary="),
            (["Content-Type: multipart/form-data; Boundary=\"o wn\"; a=b"], "multipart/form-data; a=b; boundary="),
            (["Content-Type: multipart/mixed"], "multipart/mixed; boundary="),
            (["Content-Type: text/plain"], "text/plain; boundary="), (["Content-Type;"], "; boundary="),
            (["Content-Type: multipart/form-data", "Content-Type: a/b"], "multipart/form-data; boundary="),
            (["Content-Type:"], nil),
        ] as [([String], String?)])
    func aFormHasOneTypeWithItsBoundary(fields: [String], start: String?) async throws {
        let options = fields.flatMap { ["-H", $0] } + ["-F", "n=v"]
        let ending = try await ConvoyProcess(["fetch", "--no-config", "-o", "/dev/null"] + options + [url("/a")])
            .ended()
        #expect(ending.status == 0, "\(ending.errors)")
        let request = try await server.takeRequest()
        let types = request.values(of: "Content-Type")
        #expect(types.count == (start == nil ? 0 : 1))
        guard let start, let type = types.first else { return }
        #expect(type.hasPrefix(start), "\(type)")
        #expect(request.bodyText.hasPrefix("--\(type.dropFirst(start.count))\r\n"), "\(type)")
    }

    @Test func aFieldOfAListReplacesThatOfTheCommandLine() async throws {
        let list = directory.url.appending(path: "list")
        let options = ["user-agent=own", "header=User-Agent: c", "header=X-Key: b", "out=a"].map { "\n  \($0)" }
        try Data((url("/a") + options.joined()).utf8).write(to: list)
        let ending = try await convoy(
            "--no-config", "-P", directory.url.path, "-A", "a", "-H", "x-key: a", "-H", "X-Other: c", "-i", list.path)
        #expect(ending.status == 0, "\(ending.errors)")
        let request = try await server.takeRequest()
        let values = ["User-Agent", "X-Key", "X-Other"].map { request.values(of: $0) }
        #expect(values == [["own"], ["b"], ["c"]])
    }

    @Test func theVerboseRequestHasNoOmittedField() async throws {
        let ending = try await convoy("--no-config", "-v", "-o", "/dev/null", "-H", "User-Agent:", url("/a"))
        #expect(ending.status == 0)
        #expect(!ending.errors.contains("> User-Agent"))
        #expect(ending.errors.contains("> Host"))
    }

    /// The three forms of a date (RFC 9110, section 5.6.7).
    @Test(arguments: ["Sat, 31 Jan 2026 12:00:00 GMT", "Saturday, 31-Jan-26 12:00:00 GMT", "Sat Jan 31 12:00:00 2026"])
    func aFileGetsTheTimeOfTheServer(date: String) async throws {
        server.respond { request in
            .status(200, headerFields: [("Last-Modified", date)], body: request.value(of: "If-Modified-Since") ?? "")
        }
        let file = directory.url.path + "/file"
        let ending = try await convoy("--no-config", "-R", "-z", date, "-o", file, url("/file"))
        #expect(ending.status == 0, "\(ending.errors)")
        let modified = try FileManager.default.attributesOfItem(atPath: file)[.modificationDate] as? Date
        #expect(modified?.timeIntervalSince1970 == 1_769_860_800)
        #expect(try String(contentsOfFile: file, encoding: .utf8) == "Sat, 31 Jan 2026 12:00:00 GMT")
    }

    @Test(arguments: [304, 200]) func aNewerBodyIsPrintedByHabit(status: Int) async throws {
        server.respond { _ in status == 304 ? .status(304) : .status(200, body: "new") }
        let ending = try await ConvoyProcess(
            nil, ["--no-config", "-s", "-z", "2026-01-31", url("/page")], in: try directory.makeDirectory("here"),
            variables: [:]
        ).ended()
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(ending.output == (status == 304 ? "" : "new"))
        #expect(try directory.names(in: "here") == [])
    }

    @Test(
        .enabled(if: curl != nil, "curl is not installed"),
        arguments: [
            ["-o", "-"], ["-o", "/dev/null"], ["-o", "DIR/name"], ["-I"], ["-s"], ["-f"],
            ["-o", "name", "--output-dir", "DIR"], ["-O", "--output-dir", "DIR"],
        ])
    func theEffectiveNameIsThatOfCurl(options: [String]) async throws {
        let placed = placed(options).map { $0 == "DIR" ? directory.url.path : $0 }
        let arguments = placed + ["-w", "|%{filename_effective}|", url("/page")]
        let ours = try await ConvoyProcess(["--no-config"] + arguments).ended()
        let others = try await ConvoyProcess(program: try #require(Self.curl), ["-q", "-s"] + arguments).ended()
        #expect(ours.status == 0, "\(ours.errors)")
        let (own, other) = (ours.output.split(separator: "|").last, others.output.split(separator: "|").last)
        #expect(own == other)
    }

    @Test(
        .enabled(if: curl != nil, "curl is not installed"),
        arguments: [
            "%{http_code} %{size_download} %{content_type}|%{num_redirects}\\n", "100%% %{method} %header{x-a}",
            "%{url_effective} %{response_code} %{remote_ip} %{http_version} %{exitcode}",
        ])
    func formatsAreThoseOfCurl(format: String) async throws {
        let ours = try await convoy("--no-config", "-P", directory.url.path, "-w", format, url("/moved"))
        let others = try await ConvoyProcess(
            program: try #require(Self.curl), ["-q", "-sL", "-o", "/dev/null", "-w", format, url("/moved")]
        ).ended()
        #expect(ours.status == 0)
        #expect(ours.output == others.output)
    }

    @Test(.enabled(if: curl != nil, "curl is not installed"), arguments: ["/page", "/missing"])
    func partsOfAFormatGoToStandardErrorOrOnlyAfterAnErrorAsInCurl(path: String) async throws {
        let format = "a%{stderr}b%{stdout}c%{http_code}%{stderr}d\\n%{onerror}e%{stdout}f"
        let arguments = ["-sf", "-o", "/dev/null", "-w", format, url(path)]
        let ours = try await ConvoyProcess(["--no-config", "--retries=0"] + arguments).ended()
        let others = try await ConvoyProcess(program: try #require(Self.curl), ["-q"] + arguments).ended()
        #expect(ours.output == others.output)
        // Our command also prints the error of a failed request there.
        #expect(ours.errors.contains(others.errors))
    }

    @Test func aBodyThatBeginsAgainIsNotPrintedTwice() async throws {
        // The body is larger than the sockets' buffers, so the command has printed some of it when the connection
        // ends.
        let whole = Data(repeating: 0x61, count: 40_000_000)
        server.enqueue(.status(200, body: whole).disconnecting(afterBytes: 30_000_000))
        server.enqueue(.status(200, body: whole))
        let ending = try await convoy("--no-config", "-o", "-", "--retries=1", url("/page"))
        #expect(ending.status == 1)
        #expect(ending.output.utf8.count < whole.count)
        #expect(ending.errors.contains("cannot be withdrawn"))
    }

    /// The file behind the link is written, as in curl.
    @Test func eachOfSeveralFilesIsWrittenThroughALinkInItsDirectory() async throws {
        let link = directory.url.path + "/link"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "target")
        let arguments = ["-P", directory.url.path, "-o", "link", url("/page"), "-o", "other", url("/page")]
        #expect(try await ConvoyProcess(["--no-config"] + arguments).ended().status == 0)
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == "target")
        #expect(try String(contentsOfFile: directory.url.path + "/target", encoding: .utf8) == "0123456789")
    }

    @Test func cookiesAreKeptFromOneRunToTheNext() async throws {
        let jar = directory.url.path + "/jar"
        server.enqueue(.status(200, headerFields: [("Set-Cookie", "sid=31d4; Path=/; Max-Age=1000")], body: "a"))
        let arguments = ["--no-config", "-P", directory.url.path, "-b", jar, "--cookie-jar", jar]
        #expect(try await ConvoyProcess(arguments + [url("/a")]).ended().status == 0)
        _ = try await server.takeRequest()
        #expect(try await ConvoyProcess(arguments + ["-b", "own=1", url("/b")]).ended().status == 0)
        #expect(try await server.takeRequest().value(of: "Cookie") == "sid=31d4; own=1")
        let text = try String(contentsOfFile: jar, encoding: .utf8)
        #expect(text.contains("\tFALSE\t/\tFALSE\t"))
        if let curl = Self.curl {
            _ = try await ConvoyProcess(program: curl, ["-q", "-s", "-b", jar, url("/c")]).ended()
            #expect(try await server.takeRequest().value(of: "Cookie") == "sid=31d4")
        }
    }

    @Test func aCookieJarIsWrittenThroughALink() async throws {
        let (jar, link) = (directory.url.path + "/jar", directory.url.path + "/link")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: jar)
        try Data("old text that is longer than what comes in its place".utf8).write(to: URL(filePath: jar))
        server.enqueue(.status(200, headerFields: [("Set-Cookie", "sid=31d4; Path=/; Max-Age=1000")], body: "a"))
        let arguments = ["--no-config", "-P", directory.url.path, "--cookie-jar", link, url("/a")]
        #expect(try await ConvoyProcess(arguments).ended().status == 0)
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == jar)
        let text = try String(contentsOfFile: jar, encoding: .utf8)
        #expect(text.contains("\tsid\t31d4"))
        #expect(!text.contains("old text"))
    }

    @Test func aPasswordOnStandardInputLeavesTheListThatFollows() async throws {
        let list = (0..<3).map { url("/\($0)") + "\n" }.joined()
        let ending = try await ConvoyProcess(
            shell: "printf '%s' \"$2\" | \"$0\" --no-config --jobs 1 -u - -P \"$1\" -i -",
            [directory.url.path, "me:secret\n" + list]
        ).ended()
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(server.requestCount == 3)
        #expect(try await server.takeRequest().value(of: "Authorization") != nil)
    }

    @Test func aPasswordInALocationIsNotShown() async throws {
        server.respond { request in
            request.path == "/moved"
                ? .redirect(to: "http://127.0.0.1:\(request.value(of: "Host")?.split(separator: ":").last ?? "")/page")
                : .status(200, headerFields: [("Content-Location", "http://me:secret@host/x")], body: "a")
        }
        let ending = try await convoy("--no-config", "-v", "-P", directory.url.path, url("/moved"))
        #expect(ending.status == 0)
        #expect(ending.errors.contains("< Content-Location: http://host/x"))
        #expect(!ending.errors.contains("secret"))
    }

    @Test(.enabled(if: FileManager.default.isWritableFile(atPath: "/dev/full"), "there is no /dev/full"))
    func headsThatCannotBeWrittenAreAFailure() async throws {
        let ending = try await ConvoyProcess(shell: "\"$0\" --no-config -I \"$1\" > /dev/full", [url("/a")]).ended()
        #expect(ending.status == 1)
        #expect(ending.errors.contains("standard output cannot be written"))
    }

    @Test func withoutANetrcFileNoPasswordIsSent() async throws {
        let ending = try await ConvoyProcess(
            shell: "HOME=\"$1\" \"$0\" --no-config --netrc -P \"$1\" \"$2\"", [directory.url.path, url("/a")]
        ).ended()
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(try await server.takeRequest().value(of: "Authorization") == nil)
    }

    @Test func anUnchangedFileIsLeft() async throws {
        let file = directory.url.path + "/file"
        let date = "Sat, 31 Jan 2026 12:00:00 GMT"
        server.respond { request in
            request.value(of: "If-None-Match") == "\"v1\"" || request.value(of: "If-Modified-Since") == date
                ? .status(304)
                : .status(200, headerFields: [("ETag", "\"v1\""), ("Last-Modified", date)], body: "body")
        }
        let arguments = ["--no-config", "-z", file, "-o", file, url("/file")]
        let first = try await ConvoyProcess(arguments).ended()
        #expect(first.output.hasPrefix("saved file"))
        let modified = try FileManager.default.attributesOfItem(atPath: file)[.modificationDate] as? Date
        #expect(modified?.timeIntervalSince1970 == 1_769_860_800)
        let second = try await ConvoyProcess(arguments).ended()
        #expect(second.status == 0)
        #expect(second.output.hasPrefix("skipped file"))
        // Without the recorded validators the request uses the file's time.
        try FileManager.default.removeItem(atPath: directory.url.path + "/.file.convoy-version")
        let third = try await ConvoyProcess(arguments).ended()
        #expect(third.status == 0)
        #expect(third.output.hasPrefix("skipped file"), "\(third.output)")
    }

    #if os(Linux)
        private static let isTerminalThere = ["/usr/bin/script", "/usr/bin/setsid"]
            .allSatisfy { FileManager.default.isExecutableFile(atPath: $0) }

        /// Runs the command in a pseudo-terminal, and types the text after the command's question.
        private func run(_ arguments: [String], typing text: String) async throws -> (status: Int32, shown: String) {
            let (input, output) = (Pipe(), Pipe())
            let script = "CONVOY=\"$0\"; export CONVOY; exec script -qec 'exec \"$CONVOY\" '\"$1\" /dev/null"
            let words = (["--no-config"] + arguments).map(\.shellQuoted).joined(separator: " ")
            let child = try ConvoyProcess(shell: script, [words], input: input, output: output)
            try output.fileHandleForWriting.close()
            var shown = await output.text(until: "Password of me: ")
            try input.fileHandleForWriting.write(contentsOf: Data(text.utf8))
            shown += await output.text()
            try input.fileHandleForWriting.close()
            return (try await child.ended().status, shown)
        }

        @Test(.enabled(if: isTerminalThere, "script(1) is not installed"))
        func aPasswordIsAskedForAtTheTerminal() async throws {
            let file = directory.url.path + "/page"
            let (status, shown) = try await run(["-u", "me", "-o", file, url("/page")], typing: "s:cret\n")
            #expect(status == 0, "\(shown)")
            #expect(!shown.contains("s:cret"))
            #expect(try await server.takeRequest().value(of: "Authorization") == "Basic bWU6czpjcmV0")
            #expect(try String(contentsOfFile: file, encoding: .utf8) == "0123456789")
        }

        /// Ctrl-C, and Ctrl-D at the start of the line.
        @Test(
            .enabled(if: isTerminalThere, "script(1) is not installed"),
            arguments: [("half\u{3}", 130), ("\u{4}", 2)] as [(String, Int32)])
        func aPasswordThatIsNotGivenEndsTheRun(keys: String, code: Int32) async throws {
            let (status, shown) = try await run(["-u", "me", url("/page")], typing: keys)
            #expect(status == code, "\(shown)")
            #expect(server.requestCount == 0)
        }

        @Test(.enabled(if: isTerminalThere, "setsid(1) is not installed"))
        func withoutATerminalAMissingPasswordIsAnError() async throws {
            let ending = try await ConvoyProcess(
                under: "/usr/bin/setsid", ["-w"], ["--no-config", "-u", "me", url("/page")]
            ).ended()
            #expect(ending.status == 2)
            #expect(ending.errors.contains("without a terminal convoy cannot ask for it: use -u -"), "\(ending.errors)")
            #expect(server.requestCount == 0)
        }
    #endif

    @Test func failedURLsAreAListForTheNextRun() async throws {
        let failed = directory.url.path + "/failed"
        server.enqueue(.status(404))
        let first = try await convoy(
            "--no-config", "-P", directory.url.path, "-o", "own name", "--save-failed", failed, url("/a"))
        #expect(first.status == 1)
        #expect(try String(contentsOfFile: failed, encoding: .utf8) == "\(url("/a"))\town name\n")
        let second = try await convoy("--no-config", "-P", directory.url.path, "-i", failed, "--save-failed", failed)
        #expect(second.status == 0)
        #expect(try directory.names().contains("own name"))
        #expect(try String(contentsOfFile: failed, encoding: .utf8) == "")
        let third = try await convoy("--no-config", "-P", directory.url.path, "-i", failed)
        #expect(third.errors.contains("contains no URL"))
    }

    @Test func brokenLinesAreKeptForTheNextRunToo() async throws {
        let (list, failed) = (directory.url.path + "/list", directory.url.path + "/failed")
        let (bad, good) = (url("/bad"), url("/good"))
        server.respond { $0.path == "/good" ? .status(200, body: "in") : .status(404) }
        let digits = String(repeating: "0", count: 64)
        let text = """
            \(url("/x")) name
            \(bad)\t\(url("/worse"))
              out=n
              header=X-Key: v
              checksum=sha-256=\(digits)
            \(good)
              dir=/nowhere
            \(good)
            {"url": "\(bad)", "headers": {"X-A": "b"}}
            """
        try Data((text + "\n").utf8 + [0xFF, 0x0A]).write(to: URL(filePath: list))
        let arguments = ["--no-config", "-P", directory.url.path, "--retries=0", "-i", list, "--save-failed", failed]
        let first = try await ConvoyProcess(arguments).ended()
        #expect(first.status == 1)
        let expected = """
            \(bad)\t\(url("/worse"))
              out=n
              checksum=sha256:\(digits)
              header=X-Key: v
            \(bad)
              header=X-A: b
            # line 1 of \(list): a space follows its URL: write a tab before the name, or %20 for a space in the URL
            \(url("/x")) name
            # line 7 of \(list): aria2's dir= is not supported: set the directory of all files with -P DIR
            \(good)
              dir=/nowhere
            # line 10 of \(list): it is not valid UTF-8

            """
        #expect(try String(contentsOfFile: failed, encoding: .utf8) == expected)
        #expect(try directory.names().contains("good"))
        // A run with the written list fails for the same URLs, and writes the same lines apart from comments.
        try FileManager.default.moveItem(atPath: failed, toPath: list + "2")
        server.respond { _ in .status(404) }
        let second = try await ConvoyProcess(arguments.map { $0 == list ? list + "2" : $0 }).ended()
        #expect(second.status == 1)
        let again = try String(contentsOfFile: failed, encoding: .utf8)
        let lines = { (text: String) in text.split(separator: "\n").filter { !$0.hasPrefix("#") } }
        #expect(lines(again) == lines(expected))
    }

    @Test func unreadLinesAreReportedAndUnsentURLsAreSaved() async throws {
        let failed = directory.url.path + "/failed"
        let gate = Gate()
        server.respond { _ in .status(200, body: "0123456789").stalling(afterBodyBytes: 5, until: gate) }
        let pipe = Pipe()
        let child = try ConvoyProcess(
            ["--no-config", "-P", directory.url.path, "-j", "1", "-i", "-", "--save-failed", failed, "--json"]
                + [url("/1"), url("/2")], input: pipe)
        try await server.requestsReceived(count: 1)
        child.send(SIGINT)
        let ending = try await child.ended()
        #expect(ending.status == 130)
        #expect(ending.errors == "")
        let remark = "standard input was not read from line 1 on; \(failed) does not contain those lines"
        let warning = try #require(ending.events(named: "warning").first)
        #expect(warning["message"] as? String == remark)
        #expect(warning["list"] as? String == "standard input")
        #expect(try String(contentsOfFile: failed, encoding: .utf8) == "\(url("/1"))\n\(url("/2"))\n# \(remark)\n")
        try pipe.fileHandleForWriting.close()
    }

    /// The run stops before it has read its list, so the list of failures would lack the unread lines.
    @Test func anInterruptedRunKeepsTheListThatItReads() async throws {
        let list = directory.url.path + "/list"
        let text = (1...4_000).map { url("/\($0)") + "\n" }.joined()
        try Data(text.utf8).write(to: URL(filePath: list))
        let gate = Gate()
        server.respond { _ in .status(200, body: "0123456789").stalling(afterBodyBytes: 5, until: gate) }
        let child = try ConvoyProcess(
            ["--no-config", "-P", directory.url.path, "-j", "1", "-i", list, "--save-failed", list])
        try await server.requestsReceived(count: 1)
        child.send(SIGINT)
        let ending = try await child.ended()
        #expect(ending.status == 130)
        #expect(ending.errors.contains("convoy: \(list) was not read from line "), "\(ending.errors)")
        #expect(ending.errors.contains(" on; it is left unchanged\n"))
        #expect(try String(contentsOfFile: list, encoding: .utf8) == text)
    }

    /// Swift replaces such bytes, so the file would get another name.
    @Test func argumentsThatAreNotUTF8AreRefused() async throws {
        let script = #"exec "$0" --no-config -P "$1" -o "$(printf 'f\377')" "$2""#
        let ending = try await ConvoyProcess(shell: script, [directory.url.path, url("/a")]).ended()
        #expect(ending.status == 2)
        #expect(ending.errors.hasPrefix("convoy: argument 5 is not UTF-8: "))
        #expect(server.requestCount == 0)
    }

    @Test func optionsInAFileComeBeforeThoseOfTheLine() async throws {
        let config = directory.url.path + "/config"
        let text = "# mine\nuser-agent = \"from \\\"file\\\"\"\n-H X-Key: file\nurl \(url("/one"))\nquiet\n"
        try Data(text.utf8).write(to: URL(filePath: config))
        let ending = try await convoy("-K", config, "-P", directory.url.path, "-A", "line")
        #expect(ending.status == 0)
        #expect(ending.output == "")
        let request = try await server.takeRequest()
        #expect(request.target == "/one")
        #expect(request.value(of: "User-Agent") == "line")
        #expect(request.value(of: "X-Key") == "file")
    }

    @Test func theDefaultConfigurationIsReadUnlessTurnedOff() async throws {
        let home = try directory.makeDirectory("convoy")
        try Data("user-agent mine\n".utf8).write(to: home.appending(path: "config"))
        let script = "XDG_CONFIG_HOME=$1; export XDG_CONFIG_HOME; shift; exec \"$0\" \"$@\""
        for (arguments, agent) in [([String](), "mine"), (["--no-config", "-A", "none"], "none")] {
            let child = try ConvoyProcess(
                shell: script, [directory.url.path, "-P", directory.url.path] + arguments + [url("/a")])
            #expect(try await child.ended().status == 0)
            #expect(try await server.takeRequest().value(of: "User-Agent") == agent)
        }
    }

    @Test func aMirrorReplacesAFailingServer() async throws {
        server.respond { request in
            request.path == "/gone" ? .status(404) : .resource(generatedByteCount: 3_000_000, etag: "\"v1\"")
        }
        let digest = try await ConvoyProcess(
            shell: "curl -q -s \"$1\" | sha256sum | cut -d' ' -f1", [url("/there")]
        ).ended().output.trimmingCharacters(in: .whitespacesAndNewlines)
        let ending = try await convoy(
            "--no-config", "-P", directory.url.path, "--sha256", digest, "--mirror", url("/there"), "--segments=2",
            url("/gone"))
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(try directory.names().contains("gone"))
    }

    @Test func aMirrorGetsNoPassword() async throws {
        let mirror = try TestServer()
        mirror.respond { _ in .resource(generatedByteCount: 10, etag: "\"v1\"") }
        server.respond { _ in .status(503) }
        let digest = try await ConvoyProcess(
            shell: "curl -q -s \"$1\" | sha256sum | cut -d' ' -f1", [mirror.url("/a").absoluteString]
        ).ended().output.trimmingCharacters(in: .whitespacesAndNewlines)
        _ = try await mirror.takeRequest()
        let ending = try await convoy(
            "--no-config", "-P", directory.url.path, "--retries=0", "--sha256", digest, "-u", "me:secret", "-b", "a=b",
            "-H", "X-Key: secret", "-H", "Host: other.example", "--mirror", mirror.url("/a").absoluteString, url("/a"))
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(try await server.takeRequest().value(of: "Authorization") != nil)
        for _ in 1..<mirror.requestCount {
            let request = try await mirror.takeRequest()
            for name in ["Authorization", "Cookie", "X-Key"] { #expect(request.value(of: name) == nil) }
            #expect(request.value(of: "Host") == "127.0.0.1:\(mirror.port)")
        }
    }

    /// With a jar, the command adds the cookies of `-b` to its requests, but not to those to a mirror.
    @Test func aMirrorThatIsAskedForTheLengthReceivesNoCookie() async throws {
        let mirror = try TestServer()
        mirror.respond { _ in .resource(generatedByteCount: 4_000_000, etag: "\"v1\"") }
        server.respond { _ in Reply.status(200).resetting(afterBytes: 0) }
        let digest = try await ConvoyProcess(
            shell: "curl -q -s \"$1\" | sha256sum | cut -d' ' -f1", [mirror.url("/a").absoluteString]
        ).ended().output.trimmingCharacters(in: .whitespacesAndNewlines)
        _ = try await mirror.takeRequest()
        let jar = directory.url.appending(path: "jar").path
        let ending = try await convoy(
            "--no-config", "-P", directory.url.path, "--retries=0", "--cookie-jar", jar, "-b", "a=b", "--sha256",
            digest,
            "--mirror",
            mirror.url("/a").absoluteString, url("/a"))
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(try await server.takeRequest().value(of: "Cookie") == "a=b")
        #expect(mirror.requestCount > 1)
        for _ in 1..<mirror.requestCount {
            #expect(try await mirror.takeRequest().value(of: "Cookie") == nil)
        }
    }

    @Test func theProxyIsNamedInErrors() async throws {
        let gone = try TestServer()
        let port = gone.port
        gone.shutDown()
        let ending = try await convoy(
            "--no-config", "-x", "127.0.0.1:\(port)", "--retries=0", "-P", directory.url.path, url("/a"))
        #expect(ending.status == 1)
        #expect(ending.errors.contains("proxy"))
        #expect(ending.errors.contains("127.0.0.1"))
        #expect(ending.errors.contains("\(port)"))
    }

    /// `--range` saves no other range than the requested one; as with curl, a 200 is the complete body.
    @Test(arguments: [
        Reply.status(206, body: "01234"),
        .status(206, headerFields: [("Content-Range", "bytes 0-4/10")], body: "01234"),
    ])
    func aRangeFailsIfTheServerSendsOtherBytes(_ reply: Reply) async throws {
        server.respond { _ in reply }
        let output = directory.url.appending(path: "range").path
        let ending = try await ConvoyProcess(["fetch", "--no-config", "-r", "5-9", "-o", output, url("/page")]).ended()
        #expect(ending.status == 1, "\(ending.errors)")
        #expect(!FileManager.default.fileExists(atPath: output))
    }
}
