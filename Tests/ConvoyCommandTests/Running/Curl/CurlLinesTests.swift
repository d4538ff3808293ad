import Foundation
import Testing

/// Runs command lines of curl with curl and with the command.
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

    @Test(arguments: lines) func aLineWorksWhenItsFirstWordIsReplaced(line: String) async throws {
        let curls = try await CurlLineOutcome.of(line, byCommand: nil).0
        let (ours, errors) = try await CurlLineOutcome.of(line, byCommand: ["--no-config"])
        #expect(ours == curls, "\(errors)")
    }
}
