import ConvoyTesting
import Foundation
import Testing

/// Runs command lines of curl's by curl and by the command.
///
/// Requests, output and files must be the same.
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
    ]

    private struct Outcome: Equatable {
        var hasFailed: Bool
        var output: String
        var files: [String: String]
        var requests: [String]
    }

    private func outcome(of line: String, by program: String) async throws -> Outcome {
        let (directory, server) = (try TestDirectory(), try TestServer())
        server.respond { request in
            let fields = [
                ("X-A", "b"), ("Date", "Sat, 31 Jan 2026 12:00:00 GMT"),
                ("Last-Modified", "Fri, 30 Jan 2026 12:00:00 GMT"),
            ]
            return switch request.path {
            case "/moved": .status(302, headerFields: [("Location", "/a"), ("Date", "x")])
            case "/missing": .status(404, headerFields: fields, body: "no such thing")
            case "/named":
                .status(200, headerFields: fields + [("Content-Disposition", "attachment; filename=given")], body: "n")
            default: .status(200, headerFields: fields, body: "\(request.method) \(request.target) \(request.bodyText)")
            }
        }
        try Data("a b\n&".utf8).write(to: directory.url.appending(path: "up"))
        let base = String(server.url("/").absoluteString.dropLast())
        let script = "unset http_proxy https_proxy all_proxy no_proxy; cd \"$1\" && "
        let words = line.replacing(/\bcurl\b/, with: program).replacing("URL", with: base)
        let ending = try await ConvoyProcess(shell: script + words, [directory.url.path]).ended()
        let names = try directory.names().filter { !$0.hasPrefix(".") }
        var files: [String: String] = [:]
        for name in names where name != "d" {
            files[name] = try String(contentsOf: directory.url.appending(path: name), encoding: .utf8)
        }
        let deep = directory.url.appending(path: "d/e/x")
        files["d/e/x"] = try? String(contentsOf: deep, encoding: .utf8)
        let fields = ["Authorization", "Content-Type", "Cookie", "Range", "Referer", "X-A"]
        let requests = server.recordedRequests.map { request in
            let values = fields.map { request.value(of: $0) ?? "" }
            return ([request.method, request.target, request.bodyText] + values).joined(separator: "|")
        }
        // Several files arrive at the same time in any order.
        return Outcome(
            hasFailed: ending.status != 0, output: ending.output.replacing(base, with: "URL"), files: files,
            requests: requests.sorted())
    }

    @Test(arguments: lines) func aLineWorksWhenItsFirstWordIsReplaced(line: String) async throws {
        let curls = try await outcome(of: line, by: "/usr/bin/curl -q")
        let ours = try await outcome(of: line, by: "\"$0\" --no-config")
        #expect(ours == curls)
    }
}
