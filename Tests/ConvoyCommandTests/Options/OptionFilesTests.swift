import Convoy
import ConvoyHTTPFile
import Foundation
import Testing

@testable import ConvoyCommand

@Suite struct OptionFilesTests {
    @Test func netrcHasHostsADefaultAndQuotes() {
        let netrc = Netrc(
            """
            # comment
            machine a.example login me password "with \\"blank s"
            macdef init
            machine not.this login no

            machine B.example
              login you account x
              password p#w
            default login anonymous password mail
            """)
        #expect(netrc.login(for: "a.example") == Netrc.Login(user: "me", password: "with \"blank s"))
        #expect(netrc.login(for: "b.EXAMPLE") == Netrc.Login(user: "you", password: "p#w"))
        #expect(netrc.login(for: "not.this")?.user == "anonymous")
        #expect(Netrc("machine a login b password c").login(for: "other") == nil)
        #expect(Netrc("machine").login(for: "a") == nil)
        let lines = Netrc("# comment\r\nmachine a login ua\r\n password pa\r\nmachine b login ub password pb\r\n")
        #expect(lines.login(for: "a") == Netrc.Login(user: "ua", password: "pa"))
        #expect(lines.login(for: "b") == Netrc.Login(user: "ub", password: "pb"))
    }

    @Test(arguments: [
        "MACHINE a LOGIN Me PASSWORD Pw", "Machine A Login Me Password Pw", "DEFAULT LOGIN Me PASSWORD Pw",
        "MACDEF init\nLOGIN no\n\nMACHINE a LOGIN Me ACCOUNT login PASSWORD Pw", "machine a PASSWORD Pw LOGIN Me",
        "\u{FEFF}machine a login Me password Pw", "\u{FEFF}# comment\r\nmachine a login Me password Pw\r\n",
        "machine b login x macdef init\n machine a login no\r\n\r\nmachine a login Me password Pw",
        "machine a login Me password Pw MacDef init\nlogin no\npassword no",
        "macdef x\n\nmachine a login Me password Pw",
        "machine macdef login macdef password no\nmachine a\n\nlogin\n\nMe password Pw",
    ])
    func keywordsAndMacrosOfNetrcAreRead(text: String) {
        #expect(Netrc(text).login(for: "a") == Netrc.Login(user: "Me", password: "Pw"))
    }

    /// A shell passes `<(…)` as the path of a pipe.
    @Test func aPipeIsReadLikeAFile() throws {
        let pipe = Pipe()
        try pipe.fileHandleForWriting.write(contentsOf: Data("GET http://a/\n".utf8))
        try pipe.fileHandleForWriting.close()
        let path = "/dev/fd/\(pipe.fileHandleForReading.fileDescriptor)"
        #expect(try OptionValues.content(of: path) == Data("GET http://a/\n".utf8))
    }

    @Test func cookieFilesAreReadAsTheyAreWritten() throws {
        let cookies = [
            Cookie(name: "a", value: "b=c", domain: "example.com", isHostOnly: false, isSecure: true, isHTTPOnly: true),
            Cookie(
                name: "n", value: "", domain: "host", path: "/x", expires: Date(timeIntervalSince1970: 2_000_000_000)),
        ]
        #expect(try CookieFile.cookies(in: CookieFile.text(of: cookies)) == cookies)
        #expect(try CookieFile.cookies(in: CookieFile.text(of: cookies) + "none\n\t\t\t\t\t\n") == cookies)
        for text in ["", "# no\n\n \n", CookieFile.text(of: [])] { #expect(try CookieFile.cookies(in: text) == []) }
    }

    @Test(arguments: [
        ("Set-Cookie: a=b; Domain=example.com", "Set-Cookie"), ("HTTP/1.1 200 OK\r\nset-cookie: a=b\r\n", "Set-Cookie"),
        ("h\tFALSE\t/\tFALSE\t0\ta\tb\nSet-Cookie: a=b", "Set-Cookie"), ("[{\"name\": \"a\"}]", "seven columns"),
        ("h FALSE / FALSE 0 a b", "seven columns"), ("a=b", "seven columns"),
    ])
    func otherCookieFilesAreNamed(text: String, words: String) {
        expectMistake([words]) { try CookieFile.cookies(in: text) }
    }

    @Test func configurationLinesHaveSeveralForms() throws {
        let scanner = OptionScanner(options: Subcommand.fetch.options)
        let text = "jobs 4\n--retries=2\n  header : \"A: \\\"b\\\"\"\n-P dir\nurl = https://example.com\nquiet\n#x\n"
        let scanned = try ConfigFile.scan(text, "file", scanner)
        #expect(scanned.given.map(\.option.name) == ["jobs", "retries", "header", "directory-prefix", "quiet"])
        #expect(scanned.given.map(\.value) == ["4", "2", "A: \"b\"", "dir", ""])
        #expect(scanned.operands == ["https://example.com"])
        let more = "quiet # a\nurl = http://h/#b # c\ncookie = \"\"\ndata = \"a\u{2028}# b\\v\" # d\njobs 4\t# e\n"
        let others = try ConfigFile.scan(more, "file", scanner)
        #expect(others.given.map(\.value) == ["", "", "a\u{2028}# b\u{0B}", "4"])
        #expect(others.operands == ["http://h/#b"])
        for (line, words) in [
            ("jbs 4", "line 1 of file: unknown option --jbs; did you mean --jobs?"),
            ("quiet yes", "takes no value"),
            ("config other", "only on a command line"), ("jobs", "needs a value"),
        ] {
            expectMistake([words]) { try ConfigFile.scan(line, "file", scanner) }
        }
    }

    @Test(arguments: [
        ("output = Track #1.mp3", "Track #1.mp3"), ("output = My Track # 1.mp3", "My Track # 1.mp3"),
        ("output #1.html", "#1.html"), ("jobs = 4 #parallel", "4"), ("silent #no bars", ""),
        ("output = a#b # c", "a#b"), ("output = a #", "a"),
        ("output = \"a # 1\" # c", "a # 1"),
    ])
    func aValueMayContainTheMarkOfAComment(line: String, value: String) throws {
        let scanner = OptionScanner(options: Subcommand.fetch.options)
        #expect(try ConfigFile.scan(line, "file", scanner).given.map(\.value) == [value])
    }

    @Test(arguments: [
        ("localhost", "http://localhost"), ("localhost:80/a", "http://localhost:80/a"),
        ("127.0.0.1:8765/x", "http://127.0.0.1:8765/x"), ("127.a.b.com/x", "https://127.a.b.com/x"),
        ("[::1]:80/", "http://[::1]:80/"),
        ("example.com/a.zip", "https://example.com/a.zip"), ("host:8080", "https://host:8080"),
        ("me:pw@example.com", "https://me:pw@example.com"), ("a/b", "a/b"), ("../x", "../x"), ("word", "word"),
        ("ftp:x", "ftp:x"), ("http://a", "http://a"), ("a.b c", "a.b c"),
        ("127.example.com", "https://127.example.com"),
    ])
    func aSchemeIsAddedToTextThatBeginsWithAHost(text: String, url: String) {
        #expect(text.withScheme == url)
    }

    @Test(arguments: [
        ("proxy.example.com", "http://proxy.example.com:1080"), ("https://p:8443", "https://p:8443"),
        ("https://p/", "https://p:443"), ("SOCKS5H://[::1]", "socks5h://[::1]:1080"), ("socks://p:1", "socks4://p:1"),
        ("http://p:80", "http://p:80"),
    ])
    func aProxyHasTheDefaultPortOfCurl(text: String, url: String) throws {
        #expect(try ProxyValue.read(text) == .server(try #require(URL(string: url))))
        let words = text.split(separator: "://")
        let (scheme, place) = (words.count == 2 ? words[0] + "://" : "", words.last ?? "")
        #expect(
            try ProxyValue.read("\(scheme)me:p%40w@\(place)")
                == .server(try #require(URL(string: url)), userName: "me", password: "p@w"))
    }

    @Test func helpFitsIntoEightyColumns() {
        let texts =
            Subcommand.allCases.map(\.help) + HelpTopic.allCases.filter { $0 != .man }.map(\.text) + [HelpText.tool]
        for line in texts.joined(separator: "\n").split(separator: "\n") { #expect(line.count < 80, "\(line)") }
    }

    @Test func everyGroupAndOptionIsOnTheManualPage() {
        let page = ManPage.text
        for option in Subcommand.fetch.options {
            #expect(page.contains("\\-\\-" + option.name.replacing("-", with: "\\-")))
        }
        #expect(!page.split(separator: "\n").contains { $0.hasPrefix("'") })
    }

    @Test func foreignOptionsAreNotOptionsOfConvoy() {
        let names = Set(Subcommand.fetch.options.flatMap { $0.spellings + $0.aliases.map { "--\($0)" } })
        #expect(names.isDisjoint(with: FetchOptions.habits.keys))
    }
}
