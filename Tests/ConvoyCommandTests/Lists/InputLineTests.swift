import Convoy
import Foundation
import Testing

@testable import ConvoyCommand

@Suite struct InputLineTests {
    /// The reason why a line is refused; empty if it is not.
    private func refusal(_ line: String) -> String {
        if case .broken(let reason) = InputLine(line) { reason } else { "" }
    }

    @Test(arguments: ["", "   ", "# http://a/", "\t"])
    func blankLinesAndCommentsAreSkipped(line: String) {
        #expect(InputLine(line) == .blank)
    }

    @Test func aNameFollowsATab() throws {
        let url = try #require(URL(string: "http://a/b"))
        #expect(InputLine("http://a/b") == .request(ListEntry(url: url)))
        #expect(InputLine("  http://a/b\tname of it.txt ") == .request(ListEntry(url: url, name: "name of it.txt")))
        #expect(InputLine("http://a/b\t") == .request(ListEntry(url: url)))
    }

    @Test func aDigestIsInTheThirdColumn() throws {
        let url = try #require(URL(string: "http://a/b"))
        let digits = String(repeating: "0F", count: 32)
        let digest = FileDigest.sha256(digits)
        let named = ListEntry(url: url, name: "c", digest: digest)
        #expect(InputLine("http://a/b\tc\tsha256:\(digits)") == .request(named))
        #expect(InputLine("http://a/b\t\tSHA-256=\(digits) ") == .request(ListEntry(url: url, digest: digest)))
        #expect(InputLine("http://a/b\tc\t") == .request(ListEntry(url: url, name: "c")))
        for broken in ["sha256:00", "md5:\(digits)", "sha512:\(digits)", "sha256:\(digits)\tmore"] {
            #expect(refusal("http://a/b\t\t\(broken)").contains("sha256: and 64 hexadecimal digits"))
        }
    }

    /// A number in angle brackets stands for as many bytes in hexadecimal digits, one in braces for them in Base64.
    @Test(arguments: [
        "<16>", "<20>", "<32>", "<64>", "\"<32>\"", "sha256:<32>", "SHA-256=<32>", "sha256-<32>", "md5:<16>", "{16}",
        "{32}", "{48}", "{64}", "sha256-{32}", "sha384-{48}", "h1:{32}",
    ])
    func aDigestIsNoName(digest: String) {
        let digest = digest.replacing(#/<(\d+)>/#) { String(repeating: "0a", count: Int($0.1) ?? 0) }
            .replacing(#/\{(\d+)\}/#) { Data(repeating: 0xFB, count: Int($0.1) ?? 0).base64EncodedString() }
        #expect(refusal("http://a/b\t\(digest)").contains("second column is a digest"))
    }

    @Test(arguments: [
        "%@.iso", "%@ %@", "img-%@", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "20240101", "sha256-checksums",
    ])
    func aNameMayHaveDigits(name: String) throws {
        let name = name.replacing("%@", with: String(repeating: "0a", count: 16))
        let url = try #require(URL(string: "http://a/b"))
        #expect(InputLine("http://a/b\t\(name)") == .request(ListEntry(url: url, name: name)))
    }

    @Test func furtherURLsAreMirrors() throws {
        let urls = try ["http://a/b", "https://c/d", "http://e/"].map { try #require(URL(string: $0)) }
        let digits = String(repeating: "0F", count: 32)
        #expect(
            InputLine("http://a/b\thttps://c/d\thttp://e/")
                == .request(ListEntry(url: urls[0], mirrors: [urls[1], urls[2]])))
        #expect(
            InputLine("http://a/b\thttps://c/d\tsha256:\(digits)")
                == .request(ListEntry(url: urls[0], digest: .sha256(digits), mirrors: [urls[1]])))
        for broken in ["name", "sha256:00", "sha256:\(digits)\tname"] {
            #expect(refusal("http://a/b\thttps://c/d\t\(broken)").contains("only its digest may follow"))
        }
    }

    @Test(arguments: [
        "not a url", "http://a/b\u{A0}name", "/relative", "ftp://a/b", "http://", "http://a:99999/", "http://[::1/",
    ])
    func brokenLinesHaveAReason(line: String) {
        #expect(refusal(line) != "")
    }
}

@Suite struct LineSplitterTests {
    private func lines(_ bytes: [UInt8], blockBytes: Int) -> [NumberedLine] {
        var splitter = LineSplitter()
        var lines: [NumberedLine] = []
        for start in stride(from: 0, to: bytes.count, by: blockBytes) {
            lines += splitter.split(bytes[start..<min(bytes.count, start + blockBytes)])
        }
        return lines + [splitter.finish()].compactMap(\.self)
    }

    @Test(arguments: [1, 2, 3, 1_000])
    func linesDoNotDependOnTheBlocks(blockBytes: Int) {
        let bytes = Array("\u{FEFF}one\r\n\ntwo\u{E9}\nlast".utf8)
        #expect(
            lines(bytes, blockBytes: blockBytes) == [
                NumberedLine(number: 1, content: .text("one")), NumberedLine(number: 2, content: .text("")),
                NumberedLine(number: 3, content: .text("two\u{E9}")), NumberedLine(number: 4, content: .text("last")),
            ])
    }

    @Test func brokenBytesSpoilOnlyTheirLine() {
        let long = [UInt8](repeating: 0x61, count: LineSplitter.limitBytes + 1)
        let result = lines(Array("a\n".utf8) + [0xFF, 0x0A] + long + Array("\nb\0\nz\n".utf8), blockBytes: 1_000)
        #expect(result.map(\.number) == [1, 2, 3, 4, 5])
        let isText = result.map { if case .text = $0.content { true } else { false } }
        #expect(isText == [true, false, false, false, true])
    }

    /// The first line that is neither blank nor a comment decides whether the input is XML.
    @Test(arguments: [
        ("", false), ("<a>\n", true), ("\u{FEFF}\t<a>\r\n", true), ("\n# <\n\n<a>\n", true), ("x\n<a>\n", false),
        ("# comment\n", false),
    ])
    func linesOfXMLMayBeLonger(start: String, isXML: Bool) {
        let long = [UInt8](repeating: 0x61, count: LineSplitter.limitBytes + 1)
        let result = lines(Array(start.utf8) + long, blockBytes: 1_000)
        let text = NumberedLine.Content.text(String(decoding: long, as: UTF8.self))
        #expect(result.last?.content == (isXML ? text : .broken(reason: "it is longer than 65536 bytes")))
    }

    @Test func oneLineOfXMLHasALimit() {
        let long = Array("<".utf8) + [UInt8](repeating: 0x61, count: LineSplitter.limitBytesOfXML)
        let result = lines(long, blockBytes: 65_536)
        #expect(result.map(\.content) == [.broken(reason: "it is longer than 16777216 bytes")])
    }
}

@Suite struct UTF16DecoderTests {
    private func text(_ bytes: [UInt8], blockBytes: Int) -> [UInt8] {
        var decoder = UTF16Decoder()
        var text: [UInt8] = []
        for start in stride(from: 0, to: bytes.count, by: blockBytes) {
            text += decoder.utf8(of: bytes[start..<min(bytes.count, start + blockBytes)], isEnd: false)
        }
        return text + decoder.utf8(of: [], isEnd: true)
    }

    @Test(arguments: [1, 2, 3, 1_000], ["", "\n", "ä😀\u{2028}z\r\n", "😀"])
    func textDoesNotDependOnTheBlocks(blockBytes: Int, content: String) throws {
        for encoding in [String.Encoding.utf16LittleEndian, .utf16BigEndian, .utf8] {
            let bytes = try #require("\u{FEFF}\(content)".data(using: encoding))
            #expect(text(Array(bytes), blockBytes: blockBytes) == Array("\u{FEFF}\(content)".utf8))
        }
        #expect(text(Array(content.utf8), blockBytes: blockBytes) == Array(content.utf8))
    }

    @Test(arguments: [[0xFF, 0xFE, 0x00, 0xD8], [0xFF, 0xFE, 0x61], [0xFE, 0xFF, 0xDC, 0x00, 0x00, 0x61], [0xFF]])
    func invalidUTF16IsInvalidUTF8(bytes: [UInt8]) {
        #expect(String(validating: text(bytes, blockBytes: 1), as: UTF8.self) == nil)
    }

    /// A terminal sends a line only when it is complete.
    @Test func aShortLineNeedsNoMoreBytes() {
        var decoder = UTF16Decoder()
        #expect(decoder.utf8(of: [0x0A], isEnd: false) == [0x0A])
    }
}

@Suite struct LineReaderTests {
    @Test func stopEndsAWaitThatReadingWouldNot() async throws {
        let directory = try TemporaryDirectory()
        let fifo = directory.url.appending(path: "fifo").path
        #expect(mkfifo(fifo, 0o600) == 0)
        // The test opens the FIFO for reading and writing. Opening does not wait, and reading never ends by itself.
        let keeper = open(fifo, O_RDWR)
        defer { close(keeper) }
        let reader = try LineReader.open(fifo)
        async let next = reader.next()
        reader.stop()
        #expect(await next == nil)
        #expect(await reader.next() == nil)
        // Unblocks the reading thread.
        _ = StandardStreams.write("\n", to: keeper)
    }

    @Test func anUnreadableListIsAUsageError() throws {
        let directory = try TemporaryDirectory()
        #expect(throws: UsageError.self) { try LineReader.open(directory.url.path) }
        #expect(throws: UsageError.self) { try LineReader.open(directory.url.path + "/none") }
    }
}
