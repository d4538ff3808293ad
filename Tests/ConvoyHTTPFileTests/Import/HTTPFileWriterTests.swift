import Convoy
import Foundation
import Testing

@testable import ConvoyHTTPFile

/// Tests that the reader reads back what the writer has written.
@Suite struct HTTPFileWriterTests {
    private static let pieces = [
        "{{", "}}", "{", "\\", "\\{\\{", "\\n", "###", "### title", "\n", "\r\n", "\r", "\n\n", "#", "//", "/*", "*/",
        "@", "@x = y", "<", "< file", "> {%", "%}", ">>", "<> a", "?? status == 200", "# @name x", ":", "=", "&", "\"",
        "'", " ", "\t", "\u{0}", "\u{1}", "\u{7F}", "é", "e\u{301}", "\u{301}", "😀", "\u{2028}", "\u{A0}", "name",
        "{\"a\": 1}", "curl http://x", "GET http://x", "HTTP/1.1", "import a", "run a", "--b", "%41",
    ]
    private static let types = [
        "application/json", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b",
        "multipart/mixed", "application/x-ndjson", "application/octet-stream", "",
    ]
    /// `CONVOY_LONG=1` in the environment uses 2,000 seeds.
    private static let seeds = 0..<UInt64(LongRuns.count(40, long: 2_000))

    private static func text(_ generator: inout SeededGenerator, atMost count: Int) -> String {
        (0..<Int.random(in: 1...count, using: &generator)).map { _ in pieces.randomElement(using: &generator) ?? "" }
            .joined()
    }

    @Test(arguments: seeds) func everyRequestIsReadBackAsItWas(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed &* 0x9E37_79B9_7F4A_7C15 &+ 1)
        var file = ImportedFile()
        var meant: [String] = []
        for number in 0..<8 {
            var imported = ImportedRequest()
            let method = ["GET", "POST", "PUT", "PATCH", "DELETE"].randomElement(using: &generator) ?? "GET"
            let url = "http://example.com/\(number)?q=" + Self.text(&generator, atMost: 4).percentEncoded
            imported.request.method = method
            imported.request.target = Template(url)
            imported.request.title = Word(text: Self.text(&generator, atMost: 3))
            imported.notes = [Self.text(&generator, atMost: 3)]
            let value = Self.text(&generator, atMost: 4)
            imported.addField("X-A", Template(value))
            let isKept = !value.utf8.contains { [0, 0x0A, 0x0D].contains($0) }
            var lines = ["\(method) \(url)"] + (isKept ? ["X-A: " + value.trimmed] : [])
            let type = Self.types.randomElement(using: &generator) ?? ""
            let body = Self.text(&generator, atMost: 6)
            if !type.isEmpty {
                imported.addField("Content-Type", Template(type))
                lines.append("Content-Type: \(type)")
            }
            imported.request.body = [.text(Template(body))]
            file.requests.append(imported)
            meant.append(lines.joined(separator: "\n") + "\n\n" + body)
        }
        let (text, notes) = HTTPFileWriter.write(file)
        #expect(notes == [])
        let requests = try built(text)
        try #require(requests.count == meant.count)
        for (request, meant) in zip(requests, meant) {
            // Bytes are compared, because two spellings of a character are equal as strings.
            #expect(Array(request.text.utf8) == Array(meant.utf8), "\(meant.debugDescription) in\n\(text)")
        }
    }

    @Test func aPlainBodyStaysReadable() throws {
        let text = try Imported("curl http://a/ --json '{\n  \"a\": 1\n}'").text
        #expect(
            text.hasSuffix(
                "\nPOST http://a/\nContent-Type: application/json\nAccept: application/json\n\n{\n  \"a\": 1\n}\n"))
    }

    /// The body is a text and a file without a line end between them.
    @Test func aRequestThatCannotBeWrittenIsReported() throws {
        let imported = try Imported("curl http://a/ --data-binary a= --data-binary @b")
        #expect(imported.notes == ["POST http://a/ cannot be written: its body"])
        #expect(HTTPFileReader.read(imported.text).requests.isEmpty)
    }
}
