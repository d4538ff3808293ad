import Foundation
import Testing

@testable import ConvoyCommand

/// Expects a wrong use of the command, whose message has these texts.
func expectMistake<Value>(
    _ texts: Texts, sourceLocation: SourceLocation = #_sourceLocation, in body: () throws -> Value
) {
    let error = #expect(throws: UsageError.self, sourceLocation: sourceLocation) { _ = try body() }
    texts.expect(in: error?.message ?? "", "in \(error?.message ?? "")", sourceLocation)
}

/// Tests that a message names the mistake and its correction in the command's own terms.
@Suite struct MistakesTests {
    private static let url = "http://127.0.0.1/a"

    /// Lines of shell, in which `URL` stands for a URL and `DIGITS` for a digest.
    private static let cases: [(line: String, words: Texts)] = [
        ("", ["a URL is missing", "write one, or -i FILE"]), ("''", ["URL 1 is empty", "shell variable"]),
        ("-", "-i -"), ("nonsense", ["not an absolute URL", "https://"]),
        ("ftp://example.com/a", ["its scheme is ftp://", "only http:// and https://"]),
        ("http://", ["URL 1", "it has no host: write https://"]),
        ("'http://a b/'", ["URL 1", "write %20 for a space"]),
        ("'http://[::1/'", ["URL 1", "such as https://example.com/file", "%XX"]),
        ("--otput x URL", ["unknown option --otput", "did you mean --output?"]),
        ("--sha265 x URL", "did you mean --sha256?"), ("-H 'Ac cept:' URL", "is not a token"),
        ("-r +5-10 URL", "range of bytes"), ("-E none.pem:pass:word URL", "cannot read none.pem: "),
        ("--jobs URL", "--jobs takes a number from 1 to 256"), ("--jobs 1000 URL", ["1 to 256", "1000"]),
        ("-c URL", ["always continued", "--cookie-jar"]), ("-x4 URL", "--segments 4"),
        ("-x ftp://127.0.0.1:1080 URL", ["takes a proxy with http://, https://, socks4://", "not ftp://"]),
        ("-x proxy.example.com:99999 URL", "a port from 1 to 65535, not 99999"),
        ("--socks5-hostname 127.0.0.1:1080 URL", "-x socks5h://HOST:PORT"), ("-s8 URL", "--segments 8"),
        ("-s 8 URL", ["URL 1 \"8\"", "aria2's -s 8 is --segments 8"]), ("-i URL", "curl's -i is --include"),
        ("-j URL", ["a number from 1 to 256", "curl's -j is not needed"]),
        (#"--json '{"a": 1}' URL"#, "--json-body DATA"),
        ("-T 30 URL", ["cannot read 30", "wget's -T 30 is --connect-timeout 30"]),
        ("-T /nowhere/file URL", "--upload-file cannot read /nowhere/file"),
        ("-T - -d a URL", ["--data gives a second body", "--upload-file"]),
        ("-G -F a=b URL", "--get puts --data into the URL"), ("-C 100 URL", ["takes only -", "-r 100-"]),
        ("-D /nowhere/heads --include -o x URL", ["--include prints", "with files use -D FILE"]),
        ("-o x 'URL/[1-3]'", ["the URL pattern matches 3", "write #1"]),
        ("'http://127.0.0.1/[5-1]'", "[5-1] is not a range such as [1-20]"),
        ("'http://127.0.0.1/[1-9999][1-9999]'", "more than a million URLs"),
        ("--max-redirs many URL", "--max-redirs takes a number"),
        ("--noproxy a -x http://127.0.0.1:1 URL", "https_proxy"),
        ("--unix-socket /s URL", "Unix sockets are not supported"), ("-O name URL", "-o NAME"),
        ("-q URL", ["--quiet", "--no-config"]), ("-N URL", "--existing updateIfChanged"),
        ("-nc URL", ["unknown option -nc", "--existing skip"]), ("-t 3 URL", "--retries 2"),
        ("--tlsv1.3 URL", "--tls-min 1.3"), ("--no-check-certificate URL", "--insecure"),
        ("--post-data a URL", "-d TEXT"), ("--split=4 URL", "--segments"), ("-o", "-o needs a value: -o NAME"),
        ("--output=", "--output needs a value: --output NAME"), ("--quiet=yes URL", "--quiet takes no value: remove"),
        ("-o - --json URL", "both write to standard output"),
        ("-H 'Accept text/plain' URL", ["'Name: value'", "the colon is missing"]),
        ("-X 'GET IT' URL", "a method, such as PUT"), ("-d a -F b=c URL", "second body"),
        ("-d @/nowhere/file URL", ["--data cannot read /nowhere/file", "No such file"]),
        ("-F noequals URL", "NAME=VALUE"), (#"--json-body "{'a': 1}" URL"#, "takes JSON"),
        ("-I -d a URL", "--head sends a request without a body"), ("-r 9-5 URL", "a range of bytes"),
        ("-z '31.1.2026 12:00' URL", "a file, or a date such as"), ("-z 2026-13-01 URL", "a file, or a date such as"),
        ("--deadline 5s URL", "a number of seconds above 0"), ("--max-size big URL", "a number of bytes above 0"),
        ("--resolve example.com:127.0.0.1 URL", "HOST:PORT:ADDRESS"), ("--tls-min 1.1 URL", "1.2 or 1.3"),
        ("--existing overwite URL", "did you mean overwrite?"),
        ("--cacert /nowhere.pem URL", "--cacert cannot read /nowhere.pem"),
        ("-w %{http_cod} URL", "did you mean %{http_code}?"), ("-w %{http_code URL", ["closing", "%{NAME}"]),
        ("--sha256 12 URL", "64 hexadecimal digits"), ("--mirror http://127.0.0.1/b URL", "--sha256"),
        ("--segments 2 -d a URL", "remove --data"), ("--base http://127.0.0.1/ URL", "add the list with -i"),
        ("--quiet --json URL", "exclude each other; remove one"),
        ("-K /nowhere/config URL", "--config cannot read /nowhere/config"), ("--proto =https http://a/b", "only https"),
        ("--proto =https https://a/b --mirror http://c/b --sha256 DIGITS", "only https"),
        ("--proto =https -i list", ["--proto", "list"]),
        ("--rate=0 URL", ["a number of bytes per second above 0", "such as 500k, 2.5M or 1MiB"]),
        ("--min-speed=-1 URL", "a number of bytes per second above 0"), ("--segments=17 URL", "a number from 1 to 16"),
        ("--retries 1001 URL", "--retries takes a number from 0 to 1000, not \"1001\""),
        ("--existing=keep URL", "overwrite, fail, rename, skip"), ("--transport=pigeon URL", "curl or urlsession"),
        ("--segments=2 --discard URL", "remove --discard"),
        ("--segments=2 --content-disposition URL", "remove --content-disposition"),
        ("--segments=2 --compressed URL", "exclude each other"),
        ("--sha256 DIGITS URL URL", "--sha256 is the digest of one file"),
        ("--sha256 DIGITS -i -", "--sha256 is the digest of one file"),
        ("--sha256 DIGITS --discard URL", "--sha256 and --discard exclude each other"),
        ("--sha256 DIGITS --sha512 DIGITSDIGITS URL", "--sha512 and --sha256 exclude each other"),
    ]

    @Test(arguments: cases.indices) func aMistakeIsExplained(index: Int) throws {
        let (line, words) = Self.cases[index]
        let digits = String(repeating: "aB", count: 32)
        let arguments = line.replacing("URL", with: Self.url).replacing("DIGITS", with: digits).shellWords ?? []
        let error = #expect(throws: UsageError.self) { _ = try FetchOptions(parsing: arguments) }
        let message = try #require(error?.message)
        for words in words.all { #expect(message.contains(words), "\(arguments): \(message)") }
        // The patterns match names of types, properties and methods.
        for pattern in [#"[a-z]\.[a-z]+[A-Z]"#, #"\([a-z_]*:\)"#, #"Policy|ConnectionOptions|hostOverrides|nil"#] {
            #expect(try message.firstMatch(of: Regex(pattern)) == nil, "\(message)")
        }
    }

    @Test func aFileInPlaceOfAURLGetsAHint() throws {
        let directory = try TemporaryDirectory()
        let path = directory.url.path + "/list.txt"
        try Data().write(to: URL(filePath: path))
        expectMistake("write -i \(path)") { try FetchOptions(parsing: [path]) }
        expectMistake("write -P \(directory.url.path)") { try FetchOptions(parsing: [directory.url.path]) }
    }

    @Test func aFileOfRowsInPlaceOfRequestsGetsAHint() {
        expectMistake("^rows.csv has rows instead of requests; write convoy run FILE.http --each rows.csv$") {
            try RunOptions(parsing: ["rows.csv", "api.http"])
        }
    }

    @Test(arguments: [["-i", "list"], ["http://a/1", "http://a/2"]])
    func oneNameForSeveralFilesIsNoDirectory(sources: [String]) throws {
        let temporary = try TemporaryDirectory()
        let directory = temporary.url.path
        let name = directory + "/none"
        expectMistake("-o \(name) is not a directory, and is one name for several URLs") {
            try FetchOptions(parsing: ["-o", name] + sources)
        }
        for options in [["-o", directory], ["-o", name + "/"], ["--create-dirs", "-o", name]] {
            #expect(throws: Never.self) { _ = try FetchOptions(parsing: options + sources) }
        }
    }

    @Test func whiteSpaceAroundAURLIsNoPartOfIt() throws {
        #expect(try FetchOptions(parsing: [" http://a/b\n"])?.urls.map(\.absoluteString) == ["http://a/b"])
    }

    @Test func passwordsAreNotRepeated() {
        for arguments in [
            ["-u", "me:se\u{7}cret", Self.url], ["-x", "ftp://me:secret@host:1", Self.url],
            ["-b", "a=secret\n", Self.url],
            ["me:secret@nohost"], ["ftp://user:secret@host/"], ["--header=Authorization: secret\n", Self.url],
        ] {
            expectMistake("!cret") { try FetchOptions(parsing: arguments) }
        }
    }
}
