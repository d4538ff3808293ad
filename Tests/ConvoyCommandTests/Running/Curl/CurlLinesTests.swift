import Foundation
import Testing

/// Runs command lines of curl with curl and with the command: requests, output and files must be the same.
@Suite(.enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/curl"), "curl is not installed"))
struct CurlLinesTests {
    /// Compares the effect of a line in both programs, and returns that of curl.
    @discardableResult
    private func compare(_ line: String, _ arguments: String...) async throws -> CurlLineOutcome {
        let (ours, errors) = try await CurlLineOutcome.of(line, byCommand: arguments)
        let curls = try await CurlLineOutcome.of(line, byCommand: nil).0
        #expect(ours == curls, "\(errors)")
        return curls
    }

    @Test(arguments: CurlLines.alike) func aLineWorksWhenItsFirstWordIsReplaced(line: String) async throws {
        try await compare(line, "--no-config")
    }

    @Test(arguments: CurlLines.printed) func aLinePrintsTheSameWithADash(line: String) async throws {
        let curls = try await compare(line, "fetch", "--no-config", "-o", "-")
        let alone = try await CurlLineOutcome.of(line, byCommand: ["fetch", "--no-config"]).0
        #expect(alone.requests == curls.requests && alone.files != curls.files)
    }

    @Test(arguments: CurlLines.told) func anUnsupportedLineSendsNothingAndGivesAdvice(line: String) async throws {
        let (ours, errors) = try await CurlLineOutcome.of(line, byCommand: ["fetch", "--no-config"])
        #expect(ours.hasFailed && ours.requests == [] && ours.files == [:])
        // The message names a correction after the mistake.
        #expect(
            errors.contains(
                #/^convoy: [^\n]*[:;,] [^\n]*(write|curl's|use curl|such as|remove|run |is --|sets the address|chooses|the final URL)/#
            ), "\(errors)")
    }

    /// The page *Migrating from curl* has these numbers.
    @Test func mostLinesHaveTheSameEffect() {
        #expect(
            [CurlLines.alike, CurlLines.printed, CurlLines.told, CurlLines.differs].map(\.count) == [145, 28, 37, 1])
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
        if let words = line.shellWords, words.first == "curl" {
            return try ConvoyProcess(program: program, first + words.dropFirst(), in: directory, variables: variables)
        }
        let start = ["\"$0\""] + first
        let script = line.replacing(#/\bcurl(?= )/#, with: start.joined(separator: " "), maxReplacements: 1)
        let path = try program ?? ConvoyProcess.executable().path
        return try ConvoyProcess(program: "/bin/sh", ["-c", script, path], in: directory, variables: variables)
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

    /// "hello, compressed" in gzip.
    private static let coded = Data(base64Encoded: "H4sIAAAAAAACA8tIzcnJ11FIzs8tKEotLk5NAQASfhl4EQAAAA==") ?? Data()

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
        case "/gzip":
            request.value(of: "Accept-Encoding")?.contains("gzip") == true
                ? .status(200, headerFields: fields + [("Content-Encoding", "gzip")], body: coded)
                : .status(200, headerFields: fields, body: "plain")
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
