import Foundation
import Testing

@testable import ConvoyCommand

/// Tests that a message names the mistake and its correction in the command's own terms.
@Suite struct MistakesTests {
    private static let url = "http://127.0.0.1/a"

    private static let cases: [(arguments: [String], words: [String])] = [
        ([], ["a URL is missing", "write one, or -i FILE"]),
        ([""], ["URL 1 is empty", "shell variable"]),
        (["-"], ["-i -"]),
        (["nonsense"], ["not an absolute URL", "https://"]),
        (["ftp://example.com/a"], ["its scheme is ftp://", "only http:// and https://"]),
        (["http://"], ["URL 1", "it has no host: write https://"]),
        (["http://a b/"], ["URL 1", "write %20 for a space"]),
        (["http://[::1/"], ["URL 1", "such as https://example.com/file", "%XX"]),
        (["--otput", "x", url], ["unknown option --otput", "did you mean --output?"]),
        (["--sha265", "x", url], ["did you mean --sha256?"]),
        (["-H", "Ac cept:", url], ["is not a token"]),
        (["-r", "+5-10", url], ["range of bytes"]),
        (["-E", "none.pem:pass:word", url], ["cannot read none.pem: "]),
        (["--jobs", url], ["--jobs takes a number from 1 to 256"]),
        (["--jobs", "1000", url], ["1 to 256", "1000"]),
        (["-c", url], ["always continued", "--cookie-jar"]),
        (["-x4", url], ["--segments 4"]),
        (["-x", "ftp://127.0.0.1:1080", url], ["takes a proxy with http://, https://, socks4://", "not ftp://"]),
        (["-x", "proxy.example.com:99999", url], ["a port from 1 to 65535, not 99999"]),
        (["--socks5-hostname", "127.0.0.1:1080", url], ["-x socks5h://HOST:PORT"]),
        (["-s8", url], ["--segments 8"]),
        (["-s", "8", url], ["URL 1 \"8\"", "aria2's -s 8 is --segments 8"]),
        (["-i", url], ["curl's -i is --include"]),
        (["-j", url], ["a number from 1 to 256", "curl's -j is not needed"]),
        (["--json", "{\"a\": 1}", url], ["--json-body DATA"]),
        (["-T", "30", url], ["cannot read 30", "wget's -T 30 is --connect-timeout 30"]),
        (["-T", "/nowhere/file", url], ["--upload-file cannot read /nowhere/file"]),
        (["-T", "-", "-d", "a", url], ["--data gives a second body", "--upload-file"]),
        (["-G", "-F", "a=b", url], ["--get puts --data into the URL"]),
        (["-C", "100", url], ["takes only -", "-r 100-"]),
        (["-D", "/nowhere/heads", "--include", "-o", "x", url], ["--include prints", "with files use -D FILE"]),
        (["-o", "x", url + "/[1-3]"], ["the URL pattern matches 3", "write #1"]),
        (["http://127.0.0.1/[5-1]"], ["[5-1] is not a range such as [1-20]"]),
        (["http://127.0.0.1/[1-9999][1-9999]"], ["more than a million URLs"]),
        (["--max-redirs", "many", url], ["--max-redirs takes a number"]),
        (["--noproxy", "a", "-x", "http://127.0.0.1:1", url], ["https_proxy"]),
        (["--unix-socket", "/s", url], ["Unix sockets are not supported"]),
        (["-O", "name", url], ["-o NAME"]),
        (["-q", url], ["--quiet", "--no-config"]),
        (["-N", url], ["--existing updateIfChanged"]),
        (["-nc", url], ["unknown option -nc", "--existing skip"]),
        (["-t", "3", url], ["--retries 2"]),
        (["--tlsv1.3", url], ["--tls-min 1.3"]),
        (["--no-check-certificate", url], ["--insecure"]),
        (["--post-data", "a", url], ["-d TEXT"]),
        (["--split=4", url], ["--segments"]),
        (["-o"], ["-o needs a value: -o NAME"]),
        (["--output="], ["--output needs a value: --output NAME"]),
        (["--quiet=yes", url], ["--quiet takes no value: remove"]),
        (["-o", "-", "--json", url], ["both write to standard output"]),
        (["-H", "Accept text/plain", url], ["'Name: value'", "the colon is missing"]),
        (["-X", "GET IT", url], ["a method, such as PUT"]),
        (["-d", "a", "-F", "b=c", url], ["second body"]),
        (["-d", "@/nowhere/file", url], ["--data cannot read /nowhere/file", "No such file"]),
        (["-F", "noequals", url], ["NAME=VALUE"]),
        (["--json-body", "{'a': 1}", url], ["takes JSON"]),
        (["-I", "-d", "a", url], ["--head sends a request without a body"]),
        (["-r", "9-5", url], ["a range of bytes"]),
        (["-z", "31.1.2026 12:00", url], ["a file, or a date such as"]),
        (["-z", "2026-13-01", url], ["a file, or a date such as"]),
        (["--deadline", "5s", url], ["a number of seconds above 0"]),
        (["--max-size", "big", url], ["a number of bytes above 0"]),
        (["--resolve", "example.com:127.0.0.1", url], ["HOST:PORT:ADDRESS"]),
        (["--tls-min", "1.1", url], ["1.2 or 1.3"]),
        (["--existing", "overwite", url], ["did you mean overwrite?"]),
        (["--cacert", "/nowhere.pem", url], ["--cacert cannot read /nowhere.pem"]),
        (["-w", "%{http_cod}", url], ["did you mean %{http_code}?"]),
        (["-w", "%{http_code", url], ["closing", "%{NAME}"]),
        (["--sha256", "12", url], ["64 hexadecimal digits"]),
        (["--mirror", "http://127.0.0.1/b", url], ["--sha256"]),
        (["--segments", "2", "-d", "a", url], ["remove --data"]),
        (["--base", "http://127.0.0.1/", url], ["add the list with -i"]),
        (["--quiet", "--json", url], ["exclude each other; remove one"]),
        (["-K", "/nowhere/config", url], ["--config cannot read /nowhere/config"]),
        (["--proto", "=https", "http://a/b"], ["only https"]),
        (
            [
                "--proto", "=https", "https://a/b", "--mirror", "http://c/b", "--sha256",
                String(repeating: "0", count: 64),
            ],
            ["only https"]
        ),
        (["--proto", "=https", "-i", "list"], ["--proto", "list"]),
        (["--rate=0", url], ["a number of bytes per second above 0", "such as 500k, 2.5M or 1MiB"]),
        (["--min-speed=-1", url], ["a number of bytes per second above 0"]),
        (["--segments=17", url], ["a number from 1 to 16"]),
        (["--retries", "1001", url], ["--retries takes a number from 0 to 1000, not \"1001\""]),
        (["--existing=keep", url], ["overwrite, fail, rename, skip"]),
        (["--transport=pigeon", url], ["curl or urlsession"]),
        (["--segments=2", "--discard", url], ["remove --discard"]),
        (["--segments=2", "--content-disposition", url], ["remove --content-disposition"]),
        (["--segments=2", "--compressed", url], ["exclude each other"]),
        (["--sha256", digits, url, url], ["--sha256 is the digest of one file"]),
        (["--sha256", digits, "-i", "-"], ["--sha256 is the digest of one file"]),
        (["--sha256", digits, "--discard", url], ["--sha256 and --discard exclude each other"]),
        (["--sha256", digits, "--sha512", digits + digits, url], ["--sha512 and --sha256 exclude each other"]),
    ]
    private static let digits = String(repeating: "aB", count: 32)

    @Test(arguments: cases.indices) func aMistakeIsExplained(index: Int) throws {
        let (arguments, words) = Self.cases[index]
        let error = #expect(throws: UsageError.self) { _ = try FetchOptions(parsing: arguments) }
        let message = try #require(error?.message)
        for words in words { #expect(message.contains(words), "\(arguments): \(message)") }
        // The patterns match names of types, properties and methods.
        for pattern in [#"[a-z]\.[a-z]+[A-Z]"#, #"\([a-z_]*:\)"#, #"Policy|ConnectionOptions|hostOverrides|nil"#] {
            #expect(try message.firstMatch(of: Regex(pattern)) == nil, "\(message)")
        }
    }

    @Test func aFileInPlaceOfAURLGetsAHint() throws {
        let directory = try TemporaryDirectory()
        let path = directory.url.path + "/list.txt"
        try Data().write(to: URL(filePath: path))
        let error = #expect(throws: UsageError.self) { _ = try FetchOptions(parsing: [path]) }
        #expect(error?.message.contains("write -i \(path)") == true)
        let other = #expect(throws: UsageError.self) { _ = try FetchOptions(parsing: [directory.url.path]) }
        #expect(other?.message.contains("write -P \(directory.url.path)") == true)
    }

    @Test func aFileOfRowsInPlaceOfRequestsGetsAHint() {
        let error = #expect(throws: UsageError.self) { _ = try RunOptions(parsing: ["rows.csv", "api.http"]) }
        #expect(error?.message == "rows.csv has rows instead of requests; write convoy run FILE.http --each rows.csv")
    }

    @Test(arguments: [["-i", "list"], ["http://a/1", "http://a/2"]])
    func oneNameForSeveralFilesIsNoDirectory(sources: [String]) throws {
        let temporary = try TemporaryDirectory()
        let directory = temporary.url.path
        let name = directory + "/none"
        let error = #expect(throws: UsageError.self) { _ = try FetchOptions(parsing: ["-o", name] + sources) }
        #expect(error?.message.contains("-o \(name) is not a directory, and is one name for several URLs") == true)
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
            let error = #expect(throws: UsageError.self) { _ = try FetchOptions(parsing: arguments) }
            #expect(error?.message.contains("cret") == false)
        }
    }
}
