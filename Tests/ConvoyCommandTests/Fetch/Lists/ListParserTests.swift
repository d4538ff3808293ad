import Convoy
import Foundation
import Testing

@testable import ConvoyCommand

/// Tests lists that other programs write.
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

    private func entry(_ url: String, _ name: String? = nil, _ digest: FileDigest? = nil) throws -> ListParser.Outcome {
        .entry(ListEntry(url: try #require(URL(string: url)), name: name, digest: digest))
    }

    @Test func linesOfURLsHaveNamesAndDigests() throws {
        let text = "# list\nhttps://a.example/b\tname\nexample.com/c\n\nhttps://a.example/d\t\tsha256:\(digits)"
        #expect(
            outcomes(text) == [
                try entry("https://a.example/b", "name"), try entry("https://example.com/c"),
                try entry("https://a.example/d", nil, .sha256(digits)),
            ])
    }

    @Test func aSpaceBeforeTheNameIsReportedWithAdvice() {
        guard case .broken(1, let reason, _)? = outcomes("https://a.example/b name.txt").first else {
            Issue.record("the line is not broken")
            return
        }
        #expect(reason.contains("write a tab"))
        #expect(reason.contains("%20"))
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
        for option in ["dir=/x", "checksum=md5=00", "nonsense", "header=no colon"] {
            guard case .broken(2, _, _)? = outcomes("https://a.example/b\n \(option)").first else {
                Issue.record("\(option) is understood")
                continue
            }
        }
    }

    /// A server may provide the list, and could make the command send a local file to that server.
    @Test func aFieldOfAListReadsNoFile() throws {
        let directory = try TemporaryDirectory()
        let file = directory.file("fields")
        try Data("X-Key: v\n".utf8).write(to: file)
        guard case .broken(2, _, _)? = outcomes("https://a.example/b\n header=@\(file.path)").first else {
            Issue.record("the file was read")
            return
        }
    }

    @Test func urlsOfOneFileAreMirrorsAsFarAsTheyCanBeFetched() throws {
        let text = "ftp://a.example/b\thttps://m.example/b\t https://n.example/b\n"
        var entry = ListEntry(url: try #require(URL(string: "https://m.example/b")))
        entry.mirrors = [try #require(URL(string: "https://n.example/b"))]
        #expect(outcomes(text) == [.entry(entry)])
        guard case .broken(1, let reason, _)? = outcomes("ftp://a.example/b\tftp://c.example/b").first else {
            Issue.record("there is a URL")
            return
        }
        #expect(reason.contains("http"))
    }

    @Test func brokenLinesAreKeptAsTheyStood() {
        for text in ["https://a.example/b name", "https://a.example/b\n dir=/x\n out=c", #"{"url": 1}"#] {
            guard case .broken(_, _, let kept)? = outcomes(text + "\n\nhttps://a.example/c").first else {
                Issue.record("\(text) is understood")
                continue
            }
            #expect(kept == text)
        }
    }

    @Test func anObjectMayStandAmongURLs() throws {
        let text = "https://a.example/b\n{\"url\": \"https://a.example/c\", \"name\": \"n\"}"
        #expect(outcomes(text) == [try entry("https://a.example/b"), try entry("https://a.example/c", "n")])
    }

    @Test(arguments: ["%@  dir/a b.iso", "%@ *dir/a b.iso", "SHA256 (dir/a b.iso) = %@"])
    func digestsNeedABase(line: String) throws {
        let line = line.replacing("%@", with: digits)
        #expect(
            outcomes(line + "\n", base: "https://a.example/x")
                == [try entry("https://a.example/x/dir/a%20b.iso", "dir/a b.iso", .sha256(digits))])
        guard case .broken(nil, let reason, _)? = outcomes(line + "\n" + line).first else {
            Issue.record("no base is missed")
            return
        }
        #expect(reason.contains("--base URL"))
        #expect(outcomes(line + "\n" + line).count == 1)
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
            """
        let all = outcomes(text)
        #expect(
            all.prefix(2) == [try entry("https://a.example/b", "n", .sha256(digits)), try entry("https://a.example/c")])
        let lines = all.dropFirst(2).map { outcome -> Int? in
            if case .broken(let line, _, _) = outcome { line } else { nil }
        }
        #expect(lines == [3, 4])
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
        #expect(all.first == .entry(image))
        guard all.count == 2, case .broken(nil, let reason, _) = all[1] else {
            Issue.record("\(all)")
            return
        }
        #expect(reason.contains("no http or https URL"))
    }

    @Test func aMetalinkIsNotReadWithoutItsDigest() {
        let url = "<url>https://a.example/a</url></file></metalink>"
        let broken = outcomes("<metalink><file name='a'><hash type='md5'>00</hash><hash type='sha-1'>0</hash>" + url)
        guard case .broken(nil, let reason, _)? = broken.first, broken.count == 1 else {
            Issue.record("\(broken)")
            return
        }
        #expect(reason.contains("\"md5 and sha-1\""))
        var parser = ListParser()
        let lines = ["<metalink><file name='a'>", nil, url]
        let all = lines.enumerated().flatMap { number, line in
            let content = line.map { NumberedLine.Content.text($0) } ?? .broken(reason: "it is not valid UTF-8")
            return parser.parse(NumberedLine(number: number + 1, content: content))
        }
        #expect(all + parser.finish() == [.broken(line: 2, reason: "it is not valid UTF-8")])
    }

    @Test(arguments: ["", "-1", "+1", "1.5", "99999999999999999999"])
    func anInvalidSizeInAMetalinkIsReported(size: String) {
        let file = "<file name='a'><size>\(size)</size><url>https://a.example/a</url></file>"
        guard case .broken(nil, let reason, _)? = outcomes("<metalink>\(file)</metalink>").first else {
            Issue.record("\(size) is a size")
            return
        }
        #expect(reason == "the file \"a\" has an invalid size")
    }

    @Test func attributesAndReferencesOfXML() throws {
        let text = """
            <m:metalink
              x><m:file name = 'a&amp;lt;&#x42;&#+65;&#x+41;&unknown;&' y=z ="q" other="a>b"/><m:file name="c"
            ><url a="1>2">http://a.example/?x=1&amp;y=&#50;</url ></m:file></m:metalink>
            """
        let all = outcomes(text)
        guard all.count == 2, case .broken(_, let reason, _) = all[0] else {
            Issue.record("\(all)")
            return
        }
        #expect(reason.contains("a&lt;B&#+65;&#x+41;&unknown;&"))
        #expect(all[1] == .entry(ListEntry(url: try #require(URL(string: "http://a.example/?x=1&y=2")), name: "c")))
    }

    @Test func aMetalinkMayHaveAnyNumberOfComments() {
        let file = "<file name=\"a\"><url>https://a.example/a</url></file>"
        let text = "<metalink>" + String(repeating: "<!--\n-->", count: 100_000) + file + "</metalink>"
        #expect(outcomes(text).count == 1)
    }

    @Test(arguments: [
        "<metalink>", "<html></html>", "<metalink><file></metalink>", "<metalink",
        "<!DOCTYPE x [<!ENTITY a \"b\">]><metalink/>",
        "<metalink></metalink", "< ></ >",
    ])
    func xmlThatIsNotMetalinkIsReported(text: String) {
        guard case .broken(nil, let reason, _)? = outcomes(text).first else {
            Issue.record("\(text) is one")
            return
        }
        #expect(reason.contains("Metalink"))
    }

    @Test func anEmptyListIsSaid() async throws {
        let directory = try TemporaryDirectory()
        let list = directory.url.appending(path: "list")
        for (text, isEmpty) in [("", true), ("# only this\n\n", true), ("http://a/b", false), ("broken", false)] {
            try Data(text.utf8).write(to: list)
            let told = Locked(0)
            let items = FetchItems(
                FetchOptions(), list: try LineReader.open(list.path), naming: .byURL,
                onEmpty: { _ in told.withLock { $0 += 1 } }, onDefect: { _ in })
            while await items.next() != nil {}
            #expect(await items.next() == nil)
            #expect(told.withLock { $0 } == (isEmpty ? 1 : 0), "\(text)")
        }
    }
}
