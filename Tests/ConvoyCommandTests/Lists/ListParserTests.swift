import Convoy
import Foundation
import Testing

@testable import ConvoyCommand

@Suite struct ListParserTests {
    private let digits = String(repeating: "0f", count: 32)

    private func outcomes(_ text: String, base: String? = nil) -> [ListParser.Outcome] {
        var parser = ListParser(base: base.flatMap(URL.init))
        var all: [ListParser.Outcome] = []
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            all += parser.parse(NumberedLine(number: index + 1, content: .text(String(line))))
        }
        return all + parser.finish()
    }

    /// The reason why a line, or with nil the list, is refused; empty for another outcome.
    private func reason(of outcome: ListParser.Outcome, line: Int? = nil) -> String {
        if case .broken(line, let reason, _) = outcome { reason } else { "" }
    }

    private func refusal(_ text: String, base: String? = nil, line: Int? = nil) -> String {
        outcomes(text, base: base).first.map { reason(of: $0, line: line) } ?? ""
    }

    /// The reason why a list is refused as a whole; empty if it is not.
    private func refusalOfAll(_ text: String, base: String? = "https://a.example/") -> String {
        outcomes(text, base: base).count == 1 ? refusal(text, base: base) : ""
    }

    private func entry(_ url: String, _ name: String? = nil, _ digest: FileDigest? = nil) throws -> ListParser.Outcome {
        .entry(ListEntry(url: try #require(URL(string: url)), name: name, digest: digest))
    }

    @Test func aria2sOptionsBelongToTheURLBefore() throws {
        let text = """
            https://a.example/b\thttps://m.example/b
              out=other.bin
              checksum=sha-256=\(digits)
              split=4
            https://a.example/c
              header=X-Key: v
            """
        var second = ListEntry(url: try #require(URL(string: "https://a.example/c")))
        second.headerFields.add("X-Key", "v", isSecret: true)
        var first = ListEntry(
            url: try #require(URL(string: "https://a.example/b")), name: "other.bin", digest: .sha256(digits))
        first.mirrors = [try #require(URL(string: "https://m.example/b"))]
        #expect(outcomes(text) == [.entry(first), .entry(second)])
    }

    @Test(arguments: ["checksum = sha-256=%@", "CheckSum=SHA-256=%@ ", "\tchecksum\t=\u{A0}sha-256=%@"])
    func blanksAndCaseOfAria2sOptionsMakeNoDifference(option: String) throws {
        #expect(
            outcomes("https://a.example/b\n \(option.replacing("%@", with: digits))")
                == [try entry("https://a.example/b", nil, .sha256(digits))])
    }

    @Test(arguments: [
        "dir=/x", "checksum=md5=00", "checksum=sha-256=00", "checksum=", "checksum", "checksum=sha-256 = %@",
        "checksum: sha-256=%@", "sha256=%@", "hash=sha-256=%@", "nonsense", "header=no colon",
    ])
    func anOptionOfAria2IsRefusedIfAFileWouldNotBeWhatTheListSays(option: String) {
        #expect(refusal("https://a.example/b\n \(option.replacing("%@", with: digits))", line: 2) != "")
    }

    /// A server may provide the list, and could make the command send a local file to that server.
    @Test func aFieldOfAListReadsNoFile() throws {
        let directory = try TemporaryDirectory()
        let file = directory.file("fields")
        try Data("X-Key: v\n".utf8).write(to: file)
        #expect(refusal("https://a.example/b\n header=@\(file.path)", line: 2) != "")
    }

    @Test func urlsOfOneFileAreMirrorsAsFarAsTheyCanBeFetched() throws {
        let text = "ftp://a.example/b\thttps://m.example/b\t https://n.example/b\n"
        var entry = ListEntry(url: try #require(URL(string: "https://m.example/b")))
        entry.mirrors = [try #require(URL(string: "https://n.example/b"))]
        #expect(outcomes(text) == [.entry(entry)])
        #expect(refusal("ftp://a.example/b\tftp://c.example/b", line: 1).contains("http"))
    }

    @Test func brokenLinesAreKeptAsTheyStood() {
        for text in ["https://a.example/b name", "https://a.example/b\n dir=/x\n out=c", #"{"url": 1}"#] {
            let first = outcomes(text + "\n\nhttps://a.example/c").first
            #expect(first.flatMap { if case .broken(_, _, let kept) = $0 { kept } else { String?.none } } == text)
        }
    }

    @Test(arguments: ["%@  dir/a b.iso", "%@ *dir/a b.iso", "SHA256 (dir/a b.iso) = %@"])
    func digestsNeedABase(line: String) throws {
        let line = line.replacing("%@", with: digits)
        #expect(
            outcomes(line + "\n", base: "https://a.example/x")
                == [try entry("https://a.example/x/dir/a%20b.iso", "dir/a b.iso", .sha256(digits))])
        #expect(refusalOfAll(line + "\n" + line, base: nil).contains("--base URL"))
    }

    /// `%@` stands for a SHA-256 digest of 64 hexadecimal digits.
    @Test(arguments: [
        ("%@  a.iso", "a.iso"), ("%@ *a.iso", "a.iso"), ("%@ a.iso", "a.iso"),
        ("  %@ a b.iso ", "a b.iso"), ("sha256:%@ a.iso", "a.iso"), ("\\%@  a\\\\b\\n.iso", "a\\b\n.iso"),
        ("%@  a\\n", "a\\n"), ("SHA256 (a.iso) = %@", "a.iso"), ("SHA256(a.iso)= %@", "a.iso"),
        ("SHA2-256(a (1).iso)= %@", "a (1).iso"), ("sha256 (a.iso) = %@", "a.iso"), ("SHA-256 (a.iso) = %@", "a.iso"),
        ("\\SHA256 (a\\\\b) = %@", "a\\b"), ("SHA256 (a.iso) = BASE64", "a.iso"), ("BASE64  a.iso", "a.iso"),
    ])
    func aDigestIsReadInEveryForm(line: String, name: String) throws {
        let data = Data(repeating: 0x0F, count: 32).base64EncodedString()
        for digits in [digits, digits.uppercased()] {
            let line = line.replacing("%@", with: digits).replacing("BASE64", with: data)
            let url = try #require(URL(string: "https://a.example/")).appending(path: name)
            let entry = ListEntry(url: url, name: name, digest: .sha256(digits))
            #expect(outcomes(line + "\n\n", base: "https://a.example/") == [.entry(entry)], "\(line)")
        }
    }

    /// A number in angle brackets stands for as many bytes in hexadecimal digits.
    @Test(arguments: [
        "<16>  a", "<16> a", "<20> *a", "<20> a", "<28> a", "<48> a", "md5:<16> a", "blake2b:<24>  a",
        "MD5 (a) = <16>",
        "SHA1(a)= <20>", "SHA512/256 (a) = <32>", "SHA3-256 (a) = <32>", "BLAKE2b-256 (a) = <32>", "BLAKE2b (a) = <64>",
        "RMD160 (a) = <20>", "SHA384 (a) = <48>", "SM3 (a) = <32>", "\\MD5 (a\\\\b) = <16>",
        "MD5 (a) = Dw8PDw8PDw8PDw8PDw8PDw==", "SHA256 (a) = <31>", "Dw8PDw8PDw8PDw8PDw8PDw==  a", "4294967295 0 a",
        "00036     1 a", "HMAC-SHA256(a)= <32>", "\u{A0}<20>  a",
    ])
    func aListOfOtherDigestsIsRefusedAsAWhole(line: String) throws {
        let line = line.replacing(#/<(\d+)>/#) { String(repeating: "0f", count: Int($0.1) ?? 0) }
        let reason = refusalOfAll("\(line)\n\(line)\n\(digits)  b")
        #expect(reason.hasPrefix("it is a list of digests that cannot be checked: its digest is "), "\(reason)")
    }

    /// With a base URL, a line without a scheme is the name of a file.
    @Test(arguments: [
        "a.iso  %@", "a.iso: %@", "SHA256          %@       C:\\a.iso", "a.iso = %@", "1234,%@,a.iso",
        "%@0f0f  a.iso", "%@\u{A0}\u{A0}a.iso", "\"%@\" \"a.iso\"", "sha256-%@  a.iso", "sha256-BASE64=  a.iso",
        "BASE64  a.iso", "Dw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8P  a.iso",
        "golang.org/x/text v0.3.0 h1:BASE64=", "a.iso,BASE64=", "a.iso 1BadCafe", "a.iso\u{A0}00000f00",
        "a.iso: 0F0F0F0F 0F0F0F0F 0F0F0F0F 0F0F0F0F 0F0F0F0F 0F0F0F0F 0F0F0F0F",
        "a.iso:  0F 0F 0F 0F 0F 0F 0F 0F  0F 0F 0F 0F 0F 0F 0F 0F",
        "a.iso: 0F0F 0F0F 0F0F 0F0F 0F0F  0F0F 0F0F 0F0F 0F0F 0F0F",
    ])
    func aDigestInAnUnknownFormIsNoName(line: String) {
        let data = String(Data(repeating: 0x0F, count: 32).base64EncodedString().dropLast())
        let line = line.replacing("BASE64", with: data).replacing("%@", with: digits)
        #expect(refusalOfAll("\(line)\n\(line)") != "")
        let text = "# a comment\nreadme\n" + line
        let last = outcomes(text, base: "https://a.example/").last
        #expect(last.map { reason(of: $0, line: 3) }?.contains("a name and its digest") == true, "\(line)")
    }

    @Test(arguments: [
        "%@", "backup 2024010112000000", "photo-%@.jpg", "2024 12 report.pdf", "a\t%@ %@", "2024010112000000 backup",
        "0f0f0f0f0f0f0f0f0f0f  a", "%@0f0f\ta.iso", "backup 20240101", "img-0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f a",
    ])
    func aNameWithDigitsStaysAName(line: String) {
        let line = line.replacing("%@", with: digits)
        let first = outcomes(line, base: "https://a.example/").first
        #expect(first.map { if case .entry(let entry) = $0 { entry.digest == nil } else { false } } == true)
    }

    /// In a store of files by their digests, the name of a file is a digest.
    @Test(arguments: ["%@\timage.iso", "%@ \timage.iso", "%@\t image of a.iso", "%@\timage.iso\tsha256:%@"])
    func aTabAfterDigitsPrecedesTheNameToSaveAs(line: String) throws {
        let line = line.replacing("%@", with: digits)
        let name = line.contains(" of ") ? "image of a.iso" : "image.iso"
        let digest = line.contains("sha256:") ? FileDigest.sha256(digits) : nil
        let expected = try entry("https://a.example/\(digits)", name, digest)
        #expect(outcomes(line + "\n" + line, base: "https://a.example/") == [expected, expected])
    }

    @Test(arguments: ["Hash: SHA256\n\n", "\n", "Hash: SHA256\nHash: SHA512\n\n", ""])
    func aClearSignedListIsRead(heading: String) throws {
        let text = """
            -----BEGIN PGP SIGNED MESSAGE-----
            \(heading)# a comment
            \(digits)  a
            - -----  b
            SHA256 (c) = \(digits)
            -----BEGIN PGP SIGNATURE-----

            iQIzBAEBCAAdFiEE \(digits)
            =ab12
            -----END PGP SIGNATURE-----
            \(digits)  d
            """
        let all = outcomes(text, base: "https://a.example/")
        let names = all.map { if case .entry(let entry) = $0, entry.digest != nil { entry.name } else { String?.none } }
        #expect(names == ["a", nil, "c", "d"])
        guard case .broken(_, _, "-----  b")? = all.dropFirst().first else {
            Issue.record("\(all)")
            return
        }
    }

    @Test func otherDigestsAreBrokenLines() {
        let text = "\(digits)  a\n\(String(repeating: "0", count: 40))  b\nrubbish"
        let kinds = outcomes(text, base: "https://a.example/").map { if case .entry = $0 { true } else { false } }
        #expect(kinds == [true, false, false])
    }

    @Test func objectsAreLines() throws {
        let text = """
            {"url": "https://a.example/b", "name": "n", "sha256": "\(digits)"}
            {"url": "https://a.example/c"}
            {"name": "n"}
            {"url": "https://a.example/d", "sha512": "00"}
            {"URL": "https://a.example/e", "SHA256": "\(digits)", "size": 1, "md5": null, "headers": {"X-Key": "v"}}
            """
        let all = outcomes(text)
        #expect(
            all.prefix(2) == [try entry("https://a.example/b", "n", .sha256(digits)), try entry("https://a.example/c")])
        let lines = all.dropFirst(2).map { outcome -> Int? in
            if case .broken(let line, _, _) = outcome { line } else { nil }
        }
        #expect(lines == [3, 4, nil])
        var last = ListEntry(url: try #require(URL(string: "https://a.example/e")), digest: .sha256(digits))
        last.headerFields.add("X-Key", "v", isSecret: true)
        #expect(all.last == .entry(last))
    }

    @Test(arguments: [
        "sha1", "SHA-256", "md5", "digest", "checksum", "hash", "integrity", "sha256sum", "file_hash", "crc32",
        "blake2b",
    ])
    func anObjectWithADigestUnderAnotherNameIsRefused(name: String) {
        for value in ["\"\(digits)\"", "{\"sha256\": \"\(digits)\"}"] {
            let line = #"{"url": "https://a.example/b", "\#(name)": \#(value)}"#
            #expect(refusal(line, line: 1).contains("sha256 or sha512"))
        }
    }

    @Test func anObjectWithAnotherMemberIsRead() throws {
        let line = #"{"url": "https://a.example/b", "hashtags": ["x"], "cmd1": "y"}"#
        #expect(outcomes(line) == [try entry("https://a.example/b")])
    }

    @Test func metalinksAreRead() throws {
        let text = """
            <?xml version="1.0" encoding="UTF-8"?>
            <!-- a > b -->
            <metalink xmlns="urn:ietf:params:xml:ns:metalink">
              <file name="&#x61; &amp; b&#38;lt;.iso">
                <size>14471447</size>
                <hash type="sha-256">\(digits)</hash>
                <pieces length="10" type="sha-256"><hash>00</hash></pieces>
                <url location="de" priority="2">https://b.example/a</url>
                <url priority='1'><![CDATA[https://c.example/a?x=1&y=2]]></url>
                <url>ftp://d.example/a</url>
              </file>
              <file name="c"><url>ftp://d.example/c</url></file>
            </metalink>
            """
        let all = outcomes(text)
        var image = ListEntry(
            url: try #require(URL(string: "https://c.example/a?x=1&y=2")), name: "a & b&lt;.iso",
            digest: .sha256(digits))
        image.byteCount = 14_471_447
        image.mirrors = [try #require(URL(string: "https://b.example/a"))]
        #expect(all.first == .entry(image) && all.count == 2)
        #expect(all.last.map { reason(of: $0) }?.contains("no http or https URL") == true)
    }

    @Test func aMetalinkIsNotReadWithoutItsDigest() {
        var parser = ListParser()
        let lines = ["<metalink><file name='a'>", nil, "<url>https://a.example/a</url></file></metalink>"]
        let all = lines.enumerated().flatMap { number, line in
            let content = line.map { NumberedLine.Content.text($0) } ?? .broken(reason: "it is not valid UTF-8")
            return parser.parse(NumberedLine(number: number + 1, content: content))
        }
        #expect(all + parser.finish() == [.broken(line: 2, reason: "it is not valid UTF-8")])
    }

    @Test(arguments: [
        "<verification><hash type='sha-256'>%@</hash></verification>", "<HASH TYPE='sha-256'>%@</HASH>",
        "<hash type='sha-256'>%@</hash><hash type='SHA-256'>%@</hash>",
        "<x><y><hash type='sha-256'>%@</hash></y></x><hash type='md5'>00</hash>",
    ])
    func aDigestInAMetalinkIsReadWhereverItStands(hash: String) throws {
        let file = "<file name='a'>\(hash.replacing("%@", with: digits))<url>https://a.example/a</url></file>"
        #expect(
            outcomes("<metalink>\(file)</metalink>") == [try entry("https://a.example/a", "a", .sha256(digits))])
    }

    @Test func attributesAndReferencesOfXML() throws {
        let text = """
            <m:metalink
              x><m:file name = 'a&amp;lt;&#x42;&#+65;&#x+41;&unknown;&' y=z ="q" other="a>b"/><m:file name="c"
            ><url a="1>2">http://a.example/?x=1&amp;y=&#50;</url ></m:file></m:metalink>
            """
        let all = outcomes(text)
        #expect(all.first.map { reason(of: $0) }?.contains("a&lt;B&#+65;&#x+41;&unknown;&") == true)
        let entry = ListEntry(url: try #require(URL(string: "http://a.example/?x=1&y=2")), name: "c")
        #expect(all.dropFirst() == [.entry(entry)])
    }

    @Test func aMetalinkMayHaveAnyNumberOfComments() {
        let file = "<file name=\"a\"><url>https://a.example/a</url></file>"
        let text = "<metalink>" + String(repeating: "<!--\n-->", count: 100_000) + file + "</metalink>"
        #expect(outcomes(text).count == 1)
    }

    /// `%@` stands for a digest, `FILE` for the start of a file in a Metalink, and `REST` for the rest of the Metalink.
    @Test(arguments: [
        ("Algorithm       Hash     Path\n---------       ----     ----\nSHA256 %@ C:\\a.iso", "as sha256sum does"),
        ("\nAlgorithm : SHA256\nHash      : %@\nPath      : C:\\a.iso", "as sha256sum does"),
        ("SHA256 hash of a.iso:\n%@\nCertUtil: done.", "as sha256sum does"),
        ("; Generated by a program\na.iso 1BADCAFE", "as sha256sum does"),
        ("\n-----BEGIN PGP SIGNATURE-----\n\nabc\n-----END PGP SIGNATURE-----", "OpenPGP"),
        ("\n-----BEGIN PGP MESSAGE-----\n\nabc\n-----END PGP MESSAGE-----", "OpenPGP"),
        ("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nabc\n-----END PGP PUBLIC KEY BLOCK-----", "OpenPGP"),
        ("<metalink>", "Metalink"), ("<html></html>", "Metalink"), ("<metalink><file></metalink>", "Metalink"),
        ("<metalink", "Metalink"), ("<!DOCTYPE x [<!ENTITY a \"b\">]><metalink/>", "Metalink"),
        ("<metalink></metalink", "Metalink"), ("< ></ >", "Metalink"),
        ("<metalink version=\"3.0\"><publisher/><files>", "a Metalink of version 3, but only version 4 (RFC 5854)"),
        ("<metalink xmlns=\"http://www.metalinker.org/\"><files>", "a Metalink of version 3"),
        ("<metalink ><publisher/><files><file name='a'>", "a Metalink of version 3"),
        ("FILE<size></size>REST", "the file \"a\" has an invalid size"), ("FILE<size>-1</size>REST", "invalid size"),
        ("FILE<size>+1</size>REST", "invalid size"), ("FILE<size>1.5</size>REST", "invalid size"),
        ("FILE<size>99999999999999999999</size>REST", "invalid size"),
        ("FILE<hash type='md5'>00</hash><hash type='sha-1'>0</hash>REST", "\"md5 and sha-1\""),
        (
            "FILE<hash type='sha-256'>%@</hash><hash type='sha-256'>00</hash>REST",
            "the file \"a\" has two different digests of the type \"sha-256\""
        ),
    ])
    func aListIsRefusedAsAWhole(text: String, reason: String) {
        let text = text.replacing("%@", with: digits).replacing("FILE", with: "<metalink><file name='a'>")
            .replacing("REST", with: "<url>https://a.example/a</url></file></metalink>")
        #expect(refusalOfAll(text).contains(reason), "\(outcomes(text))")
    }
}
