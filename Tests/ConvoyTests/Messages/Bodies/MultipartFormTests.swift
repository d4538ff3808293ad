import Foundation
import Testing

@testable import Convoy

@Suite struct MultipartFormTests {
    @Test func looksAsBrowsersWriteIt() throws {
        var form = MultipartForm(boundary: "b")
        form.append("Ann", name: "user")
        form.append(Data("x".utf8), name: "f", fileName: "a.png")
        form.append(Data("y".utf8), name: "raw")
        #expect(form.count == 3)
        #expect(form.contentType == "multipart/form-data; boundary=b")
        let expected = [
            "--b", "Content-Disposition: form-data; name=\"user\"", "", "Ann", "--b",
            "Content-Disposition: form-data; name=\"f\"; filename=\"a.png\"", "Content-Type: image/png", "", "x", "--b",
            "Content-Disposition: form-data; name=\"raw\"", "", "y", "--b--", "",
        ]
        #expect(try String(decoding: form.rendered(), as: UTF8.self) == expected.joined(separator: "\r\n"))
        #expect(try MultipartForm(boundary: "b").rendered() == Data("--b--\r\n".utf8))
    }

    @Test func eachFormHasABoundaryOfItsOwn() {
        #expect(MultipartForm().boundary != MultipartForm().boundary)
        #expect(MultipartForm().defect == nil)
    }

    /// Servers disagree about a backslash before a quotation mark or before another backslash.
    ///
    /// Most servers read the quotation mark as part of the name, and continue the name after it.
    @Test(arguments: [#"a\"#, #"a\\"#, #"\"#, #"\\server\share"#, #"a\\b"#])
    func nameThatServersReadDifferentlyIsRefused(name: String) {
        var named = MultipartForm()
        named.append("x", name: name)
        var file = MultipartForm()
        file.append(Data("x".utf8), name: "file", fileName: name)
        var onDisk = MultipartForm()
        onDisk.append(file: URL(filePath: "/tmp/" + name), name: "file")
        for form in [named, file, onDisk] {
            #expect(form.defect?.contains("backslash") == true, "\(form.defect ?? "none")")
            #expect(Request<Data>.post("http://stub/").multipart(form).defect != nil)
        }
    }

    /// The form copies small parts, and reads large parts in place.
    ///
    /// No byte is lost where a small part follows a large one.
    @Test(arguments: [0, 1, 65_535, 65_536, 65_537, 400_000], [1, 7, 4_096, 1 << 20])
    func partsOfAllSizesAreSeenAsTheyAre(_ byteCount: Int, _ bufferSize: Int) throws {
        guard byteCount < 100 || bufferSize > 7 else { return }
        let directory = try TemporaryDirectory()
        let content = Data.patterned(byteCount)
        try content.write(to: directory.file("part.bin"))
        var form = MultipartForm()
        form.append("before", name: "text")
        form.append(content, name: "data")
        form.append(file: directory.file("part.bin"), name: "file")
        form.append("", name: "empty")
        form.append(content, name: "again", fileName: "again.txt")
        form.append(byteCount: Int64(byteCount), name: "stream") { InputStream(data: content) }
        let bytes = try form.rendered(bufferSize: bufferSize)
        let parts = try FormParser.parse(bytes, contentType: form.contentType)
        #expect(parts.map(\.name) == ["text", "data", "file", "empty", "again", "stream"])
        #expect(parts.map(\.content) == [Data("before".utf8), content, content, Data(), content, content])
        #expect(parts.map(\.fileName) == [nil, nil, "part.bin", nil, "again.txt", nil])
        #expect(
            parts.map(\.contentType) == [nil, nil, "application/octet-stream", nil, "text/plain", nil])
        // Renders the form again, as for a retry.
        #expect(try form.rendered(bufferSize: bufferSize) == bytes)
    }

    @Test(arguments: 0..<40 as Range<UInt64>)
    func randomFormIsSeenAsItIs(_ seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let pieces = [
            "\"", "%22", "\\", "\\\"", ";", "; name=\"x\"", "--", "--b", "a", "ü", "\u{2028}", "\u{85}", "\t", "\u{7f}",
            " ", "'", "name*=utf-8''", "\u{202e}", "👩‍👩‍👧", ":", "=", "é",
        ]
        var form = MultipartForm()
        var expected: [ReceivedPart] = []
        func text() -> String { pieces.sample(0...6, &generator).joined() }
        for _ in 0..<Int.random(in: 0...12, using: &generator) {
            var content = Data("\r\n--b\r\n\(text())\r\n--".utf8)
            if Bool.random(using: &generator) { content += Data(count: Int.random(in: 0...100_000, using: &generator)) }
            let fileName = Bool.random(using: &generator) ? text() : nil
            let name = text()
            form.append(content, name: name, fileName: fileName, contentType: fileName == nil ? nil : "a/b")
            // A quotation mark is written as %22, so the receiver cannot distinguish it from the text %22.
            expected.append(
                ReceivedPart(
                    name: name.replacingOccurrences(of: "%22", with: "\""),
                    fileName: fileName?.replacingOccurrences(of: "%22", with: "\""),
                    contentType: fileName == nil ? nil : "a/b", content: content))
        }
        #expect(try form.received() == expected)
    }

    @Test(arguments: [
        "\"", "a\"\u{301}; name=\"admin", "\"; filename=\"evil.sh", "a\"b\"c", "ü", "日本", "\u{2028}", "\u{85}",
        "a\u{0b}b", "\u{202e}gpj.exe", "\\a", "a\\\"", #"C:\dir\a.txt"#, "'", "%0D%0A", "=?utf-8?q?x?=",
        "../../etc/passwd", "", " ", "\u{feff}", "e\u{301}", "🏴‍☠️",
        String(repeating: "n", count: 10_000), String(repeating: "\"", count: 10_000),
        String(repeating: "ü", count: 5_000),
    ])
    func hostileNameIsANameAndNothingElse(_ name: String) throws {
        var form = MultipartForm()
        form.append("one", name: name)
        form.append(Data("two".utf8), name: "file", fileName: name, contentType: "a/b")
        form.append("three", name: "last")
        #expect(Request<Data>.post("http://stub/").multipart(form).defect == nil)
        let parts = try form.received()
        #expect(parts.map(\.name) == [name, "file", "last"])
        #expect(parts.map(\.fileName) == [nil, name, nil])
        #expect(parts.map { String(decoding: $0.content, as: UTF8.self) } == ["one", "two", "three"])
    }

    @Test(arguments: ["\r", "\n", "\r\n", "\0"], ["", "a", "\u{301}"])
    func lineEndsAndNULAreRefused(_ character: String, _ around: String) async throws {
        let text = "a" + around + character + around
        for index in 0..<3 {
            var form = MultipartForm()
            form.append("fine", name: "fine")
            switch index {
            case 0: form.append("x", name: text)
            case 1: form.append(Data(), name: "x", fileName: text)
            default: form.append(Data(), name: "x", contentType: text)
            }
            let request = Request<Data>.post("http://stub/").multipart(form)
            #expect(request.defect?.contains("CR, LF or NUL") == true)
            let server = StubServer()
            let error = try await Sending(request, over: server.transport).error()
            #expect(error.code == .invalidRequest)
            #expect(error.description.isOneLine && error.description.utf8.count < 400)
            #expect(server.exchanges.count == 0)
        }
    }

    @Test func nameOfAFileIsItsOwnUnlessAnotherIsGiven() throws {
        let directory = try TemporaryDirectory()
        let file = directory.file("bild \"1\" ü.JPG")
        try Data("x".utf8).write(to: file)
        var form = MultipartForm()
        form.append(file: file, name: "a")
        form.append(file: file, name: "b", fileName: "b.csv")
        form.append(file: file, name: "c", fileName: "c.csv", contentType: "x/y")
        let parts = try form.received()
        #expect(parts.map(\.fileName) == ["bild \"1\" ü.JPG", "b.csv", "c.csv"])
        #expect(parts.map(\.contentType) == ["image/jpeg", "text/csv", "x/y"])
    }

    @Test(arguments: ["", " ", "a ", "ü", "a\"b", "a\r\nb", "a;b", String(repeating: "a", count: 71)])
    func boundaryOutsideTheGrammarIsRefused(_ boundary: String) {
        let defect = Request<Data>.post("http://stub/").multipart(MultipartForm(boundary: boundary)).defect
        #expect(defect?.contains("RFC 2046") == true)
    }

    @Test(arguments: ["a", "a b", "'()+_,-./:=?", String(repeating: "a", count: 70)])
    func boundaryOfTheGrammarIsUsed(_ boundary: String) throws {
        var form = MultipartForm(boundary: boundary)
        form.append("x", name: "y")
        let request = Request<Data>.post("http://stub/").multipart(form)
        #expect(request.defect == nil)
        let contentType = try #require(request.headerFields["Content-Type"])
        #expect(try FormParser.parse(form.rendered(), contentType: contentType).map(\.name) == ["y"])
    }

    @Test func negativeLengthIsRefused() {
        var form = MultipartForm()
        form.append(byteCount: -1, name: "a") { nil }
        #expect(Request<Data>.post("http://stub/").multipart(form).defect?.contains("negative") == true)
    }

    @Test(arguments: [0, 5, 90_000], [-1, 1])
    func streamOfAnotherLengthFailsTheForm(_ byteCount: Int, _ difference: Int) throws {
        guard byteCount + difference >= 0 else { return }
        var form = MultipartForm()
        form.append(byteCount: Int64(byteCount), name: "a") { ScriptedInput(Data(count: byteCount + difference)) }
        let body = try form.prepared().get()
        let error = #expect(throws: RequestError.self) { try body.readAll() }
        #expect(error?.code == .bodyUnreadable)
    }

    @Test func formIsRepeatableAsFarAsItsPartsAre() throws {
        var form = MultipartForm()
        form.append("x", name: "x")
        form.append(byteCount: 1, name: "a") { InputStream(data: Data("1".utf8)) }
        #expect(try form.prepared().get().canRepeat)
        form.append(byteCount: 1, name: "b", canRepeat: false) { InputStream(data: Data("1".utf8)) }
        let body = try form.prepared().get()
        #expect(!body.canRepeat && !body.isUsedUp)
        _ = try body.readAll()
        #expect(body.isUsedUp)
        #expect(#expect(throws: RequestError.self) { try body.readAll() }?.code == .bodyNotReplayable)
    }
}
