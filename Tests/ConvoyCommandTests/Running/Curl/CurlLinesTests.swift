import Foundation
import Testing

/// Runs command lines of curl with curl and with the command: requests, output and files must be the same.
@Suite(.enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/curl"), "curl is not installed"))
struct CurlLinesTests {
    /// In a line, `curl` stands for the program and `URL` for the server.
    private static let lines = [
        "curl -s URL/a", "curl -s URL/a URL/b", "curl -fsSL URL/moved", "curl -sL URL/moved", "curl -s -f URL/a | cat",
        "curl --silent --show-error --fail --location URL/moved", "curl -s --url URL/a", "curl -s -# -Z -C - URL/a",
        "curl -s -o /dev/null -w '%{http_code}' URL/a",
        "curl -s -o /dev/null -o /dev/null -w '%{http_code} ' URL/a URL/b",
        "curl -s -o /dev/null -w '%{num_headers} %{time_redirect} %{method}' URL/a",
        "curl -s -w '%{json}' -o /dev/null URL/a | grep -o '\"http_code\":200'",
        "curl -sI -o /dev/null -w '%{http_code}' URL/a", "curl -s -o - URL/a", "curl -s -o /dev/stdout URL/a",
        "curl -s -o /dev/stderr URL/a 2> copy", "mkfifo p; cat p & curl -s -o p URL/a; wait; rm p",
        "curl -sO URL/a", "curl -sO URL/a -O URL/b", "curl -s --remote-name-all URL/a URL/b", "curl -sLOJ URL/named",
        "curl -s -o x URL/a -o y URL/b", "curl -s -o x -O URL/a URL/b", "curl -s --create-dirs -o d/e/x URL/a",
        "curl -s -R -o x URL/a; stat -c %Y x || stat -f %m x", "curl -s --output x URL/a",
        "curl -s 'URL/{a,b}' -o '#1.out'", "curl -s 'URL/[08-10]/{x,y}' -o '#1_#2'", "curl -s 'URL/p[1-3]'",
        "curl -s -g URL/a", "touch t; ln -s t l; curl -s -o l URL/a; test -L l && echo link",
        "ln -s t l; curl -s -o l URL/a; test -L l && echo link",
        "curl -s -G -d q=1 --data-urlencode 'r=a b&c' URL/s", "curl -s -G -d q=1 'URL/s?z=1#f'",
        "curl -s -G URL/s",
        "curl -s --data-urlencode 'a b' --data-urlencode '=c=d' --data-urlencode 'e@up' URL/f",
        "curl -s -d a=b -d c=d URL/f", "curl -s -X POST -H 'Content-Type: application/json' -d '{}' URL/f",
        "curl -s -T up URL/d/", "curl -s -T up URL", "curl -s -X POST -T up URL/x", "curl -s -T - URL/x < up",
        "curl -sSf -XPOST -d @- URL/x < up", "curl -s -X DELETE URL/a", "curl -d a=b URL/f 2> errors; rm errors",
        "curl -s --oauth2-bearer t0k URL/a", "curl -s -u me:pw URL/a", "curl -s -b a=b URL/a", "curl -s -r 0-3 URL/a",
        "curl -s -A me -e http://ref/ -H 'X-A: b' URL/a", "curl -s -x '' URL/a", "curl -s --noproxy '*' URL/a",
        "http_proxy=http://127.0.0.1:1 curl -s --noproxy 127.0.0.1 URL/a",
        "curl -sL --max-redirs 1 URL/moved", "curl -sL --max-redirs 0 URL/moved", "curl -sL --max-redirs -1 URL/moved",
        "curl -s --retry 2 --retry-delay 1 --retry-connrefused URL/a", "curl -s --http2 -m 9 --connect-timeout 9 URL/a",
        "curl -s --compressed -k -n URL/a", "curl -s -c jar -o x URL/a; test -f jar && rm jar",
        "curl -sL -D heads -o x URL/moved", "curl -s -D - -o /dev/null URL/a", "curl -s --include URL/a",
        "curl -sL --include URL/moved", "curl -s --fail-with-body URL/missing",
        "curl -s --fail-with-body -o x URL/missing",
        "curl -fsSL URL/missing",
        // Bodies and forms.
        "curl -s --request PUT -d a=b --data 'c d=e' URL/f", "curl -s -d '' URL/f", "curl -s --data-raw @here URL/f",
        "curl -s -d a -H 'Content-Type: text/plain' URL/f", "curl -s -H 'X-Key;' URL/a",
        "curl -s -F 'f=@filename;type=text/x-own;filename=other.txt' URL/f",
        "curl -s -F 't=<filename' -F 'u=v;type=text/own' URL/f", #"curl -s -F 'n="a\"b"' URL/f"#,
        #"curl -s -F 'n="a;b\\"' URL/f"#, #"curl -s -F 'n="a\nb"' URL/f"#,
        #"curl -s -F 'n=5" pipe;type=text/plain' URL/f"#,
        #"curl -s -F 'n="abc' URL/f"#, #"curl -s -F 'n=a"b"c' URL/f"#, #"curl -s -F 'n="@a"' URL/f"#,
        #"curl -s -F 'n=""' URL/f"#, #"curl -s -F 'n=a\"b' URL/f"#,
        #"curl -s -F 'n=@filename;filename="q\"r;s.txt"' URL/f"#,
        // Passwords, proxies, ranges and dates.
        "curl -s -u 'me:secret:with colon' URL/a", "curl -s --netrc-file netrc -u you:own URL/a",
        "curl -s -x http://me:p%40w@127.0.0.1:PORT http://example.com/a",
        "curl -s -x 127.0.0.1:PORT http://example.com/a", "curl -s --range 7- URL/a", "curl -s -z '31 Jan 2026' URL/a",
        "curl -s -z 'Sat, 31 Jan 2026 12:00:00 GMT' URL/a", "curl -s -z '29 Jan 2026' URL/new",
        "curl -s -z '31 Jan 2026' -w '%{http_code} %{exitcode} %{size_download}' -o page URL/a",
        // Formats.
        "curl -sL -o /dev/null -w '%{http_code} %{size_download} %{content_type}|%{num_redirects}\\n' URL/moved",
        "curl -s -o /dev/null -w '100%% %{method} %header{x-a}' URL/a",
        "curl -sL -o x -w '%{url_effective} %{response_code} %{remote_ip} %{http_version} %{exitcode}' URL/moved",
        "curl -s -o - -w '|%{filename_effective}' URL/a", "curl -s -o /dev/null -w '%{filename_effective}' URL/a",
        "curl -s -o tmp/x -w '%{filename_effective}' URL/a", "curl -sI -w '|%{filename_effective}' URL/a",
        "curl -s -o x --output-dir tmp -w '%{filename_effective}' URL/a",
        "curl -s -O --output-dir tmp -w '%{filename_effective}' URL/a", "curl -s -w '|%{filename_effective}' URL/a",
    ]

    /// Compares the effect of a line in both programs, and returns that of curl.
    @discardableResult
    private func compare(_ line: String, _ arguments: String...) async throws -> CurlLineOutcome {
        let (ours, errors) = try await CurlLineOutcome.of(line, byCommand: arguments)
        let curls = try await CurlLineOutcome.of(line, byCommand: nil).0
        #expect(ours == curls, "\(errors)")
        return curls
    }

    @Test(arguments: lines) func aLineWorksWhenItsFirstWordIsReplaced(line: String) async throws {
        try await compare(line, "--no-config")
    }

    private static func lines(_ fate: CurlManualLines.Fate) -> [String] {
        CurlManualLines.all.filter { $0.fate == fate }.map { String($0.line) }
    }

    @Test(arguments: lines(.alike)) func aCurlCommandHasTheSameEffect(line: String) async throws {
        try await compare(line, "fetch", "--no-config")
    }

    @Test(arguments: lines(.printed)) func aCurlCommandPrintsTheSameWithADash(line: String) async throws {
        let curls = try await compare(line, "fetch", "--no-config", "-o", "-")
        let alone = try await CurlLineOutcome.of(line, byCommand: ["fetch", "--no-config"]).0
        #expect(alone.requests == curls.requests && alone.files != curls.files)
    }

    @Test(arguments: lines(.told)) func anUnsupportedCurlCommandSendsNothingAndGivesAdvice(line: String) async throws {
        let (ours, errors) = try await CurlLineOutcome.of(line, byCommand: ["fetch", "--no-config"])
        #expect(ours.hasFailed && ours.requests == [] && ours.files == [:])
        // The message names a correction after the mistake.
        #expect(
            errors.contains(
                #/^convoy: [^\n]*[:;,] [^\n]*(write|curl's|use curl|such as|remove|run |is --|sets the address|chooses|the final URL)/#
            ), "\(errors)")
    }

    /// The page *Migrating from curl* has this number.
    @Test func mostCurlCommandsHaveTheSameEffect() {
        #expect(Self.lines.count + CurlManualLines.all.count == 211)
        #expect(Self.lines(.differs).count == 1)
    }
}

/// The effect of a command line: the requests that a server receives, the output, and the files that remain.
struct CurlLineOutcome: Equatable {
    var hasFailed: Bool
    var output: String
    var files: [String: String]
    var requests: [String]

    private static let fields = [
        "Authorization", "Content-Type", "Cookie", "Range", "Referer", "If-None-Match", "If-Modified-Since",
        "Cache-Control", "Destination", "Proxy-Authorization",
    ]
    /// The files that the lines send and read, by name.
    private static let given = [
        "up": "a b\n&", "filename": "a b\r\n&", "file.txt": "user-agent = \"of file\"\n", "etag.txt": "\"e1\"\n",
        "cookiefile": "127.0.0.1\tFALSE\t/\tFALSE\t0\tck\tv\n", "portrait.jpg": "jpg", "index.html": "<p>\n",
        "headers.txt": "X-One: 1\nX-Two: 2\n", "prepared": "{\"a\":1}", "data.json": "{\"b\":\n2}", "file": "old",
        "netrc": "machine 127.0.0.1 login me password pw\n", "img1.png": "1", "img2.png": "2",
        "format": "%{http_code}\\n",
    ]

    /// Runs a line of curl in a separate directory, against a separate server.
    ///
    /// - Parameter arguments: the command's arguments before those of the line; nil for curl itself.
    ///
    /// - Returns: the outcome, and the text on standard error.
    static func of(_ line: String, byCommand arguments: [String]?) async throws -> (Self, errors: String) {
        let (directory, server) = (try TemporaryDirectory(), try TestServer())
        server.respond(answer)
        _ = try directory.makeDirectory("tmp")
        for (name, text) in given {
            let file = directory.url.appending(path: name)
            try Data(text.utf8).write(to: file)
            let date = Date(timeIntervalSince1970: 1_700_000_000)
            try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: file.path)
        }
        let base = String(server.url("/").absoluteString.dropLast())
        let port = String(base.split(separator: ":").last ?? "")
        let placed = line.replacing("URL", with: base).replacing("PORT", with: port)
        let ending = try await start(placed, byCommand: arguments, in: directory.url).ended()
        func plain(_ text: String) -> String { text.replacing(base, with: "URL").replacing(port, with: "PORT") }
        var files: [String: String] = [:]
        for name in try FileManager.default.subpathsOfDirectory(atPath: directory.url.path) {
            let file = directory.url.appending(path: name)
            guard let text = try? String(contentsOf: file, encoding: .utf8), given[name] != text else { continue }
            // The cookies of a jar may be in any order.
            let isJar = text.hasPrefix("# Netscape") || text.hasPrefix("# HTTP Cookie")
            files[name] = isJar ? cookies(plain(text)) : plain(text)
        }
        let requests = server.recordedRequests.map { plain(text(of: $0, isNamed: line.contains(#/ser-|-A |config/#))) }
        // The command prints lines about files where curl prints its progress meter. The comparison omits these
        // lines.
        let told = #/(?m)^((saved|received|skipped) .*  .*|\d+ (file|response)s?, .*|the files are in .*)\n/#
        // Several files arrive at the same time, so the order of requests varies.
        return (
            Self(
                hasFailed: ending.status != 0, output: plain(ending.output.replacing(told, with: "")), files: files,
                requests: requests.sorted()), ending.errors
        )
    }

    private static func start(
        _ line: String, byCommand arguments: [String]?, in directory: URL
    ) throws -> ConvoyProcess {
        let program = arguments == nil ? "/usr/bin/curl" : nil
        let first = arguments ?? ["-q"]
        var variables: [String: String?] = ["HOME": directory.path]
        for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] { variables[name] = .some(nil) }
        if let words = words(of: line), words.first == "curl" {
            return try ConvoyProcess(program: program, first + words.dropFirst(), in: directory, variables: variables)
        }
        let start = ["\"$0\""] + first
        let script = line.replacing(#/\bcurl(?= )/#, with: start.joined(separator: " "), maxReplacements: 1)
        let path = try program ?? ConvoyProcess.executable().path
        return try ConvoyProcess(program: "/bin/sh", ["-c", script, path], in: directory, variables: variables)
    }

    /// The words of a line; nil if the line needs a shell.
    private static func words(of line: String) -> [String]? {
        var (words, word, quote) = ([String](), String?.none, Character?.none)
        for character in line {
            if character == quote {
                quote = nil
            } else if quote == nil, character == " " {
                words += word.map { [$0] } ?? []
                word = nil
            } else if quote == nil, "'\"".contains(character) {
                (word, quote) = (word ?? "", character)
            } else if quote != "'", "\\$`".contains(character) || quote == nil && "|&;<>()*?[]~#".contains(character) {
                return nil
            } else {
                word = (word ?? "") + String(character)
            }
        }
        return quote == nil ? words + (word.map { [$0] } ?? []) : nil
    }

    private static func cookies(_ jar: String) -> String {
        jar.split(separator: "\n").filter { !$0.hasPrefix("#") || $0.hasPrefix("#HttpOnly") }.sorted()
            .joined(separator: "\n")
    }

    /// The text of a request without values that each client chooses.
    ///
    /// These are the boundary of a form, the parameters of a digest and, unless `isNamed` is true, the name of the
    /// program.
    private static func text(of request: RecordedRequest, isNamed: Bool) -> String {
        var values = fields.map { request.value(of: $0) ?? "" }
        if values[0].hasPrefix("Digest") { values[0] = "Digest" }
        values += request.headerFields.filter { $0.name.lowercased().hasPrefix("x-") }.map { "\($0.name)=\($0.value)" }
        if let accept = request.value(of: "Accept"), accept != "*/*" { values.append(accept) }
        if isNamed { values.append(request.value(of: "User-Agent") ?? "") }
        let text = ([request.method, request.target, request.bodyText] + values).joined(separator: "|")
        let boundary = values[1].firstMatch(of: #/boundary=(.*)/#)?.1
        return boundary.map { text.replacing($0, with: "boundary") } ?? text
    }

    private static func answer(_ request: RecordedRequest) -> Reply {
        let fields = [
            ("X-A", "b"), ("Date", "Sat, 31 Jan 2026 12:00:00 GMT"), ("ETag", "\"e1\""),
            ("Last-Modified", "Fri, 30 Jan 2026 12:00:00 GMT"),
        ]
        if request.path != "/new", request.value(of: "If-None-Match") ?? request.value(of: "If-Modified-Since") != nil {
            return .status(304, headerFields: fields)
        }
        return switch request.path {
        case "/moved":
            .status(302, headerFields: [("Location", "/a"), ("Set-Cookie", "c=1; Path=/; HttpOnly"), ("Date", "x")])
        case "/missing": .status(404, headerFields: fields, body: "no such thing")
        case "/named":
            .status(200, headerFields: fields + [("Content-Disposition", "attachment; filename=given")], body: "n")
        case "/install.sh": .status(200, headerFields: fields, body: "echo installed\n")
        case "/digest" where request.value(of: "Authorization")?.hasPrefix("Digest") != true:
            .status(401, headerFields: fields + [("WWW-Authenticate", "Digest realm=\"r\", nonce=\"n\", qop=\"auth\"")])
        // The client chooses the boundary of a form, so the response does not repeat the body.
        case _ where request.value(of: "Content-Type")?.hasPrefix("multipart/") == true:
            .status(200, headerFields: fields, body: "a form")
        default: .status(200, headerFields: fields, body: "\(request.method) \(request.target) \(request.bodyText)")
        }
    }
}
