import Testing

@testable import ConvoyHTTPFile

/// Tests names of requests, variables and attachments.
@Suite struct ImportedNamesTests {
    /// A search from the start for each name would take minutes.
    @Test(.timeLimit(.minutes(1))) func equalNamesAreNumbered() {
        var names = UniqueNames(taken: ["a_2"])
        #expect((0..<3).map { _ in names.take("a") } == ["a", "a_3", "a_4"])
        #expect(names.take("a_3") == "a_3_2")
        for _ in 0..<200_000 { _ = names.take("b") }
        #expect(names.take("b") == "b_200001")
    }

    private static func entry(_ host: String) -> String {
        """
        {"request": {"method": "PUT", "url": "http://\(host)/", "postData":
          {"mimeType": "image/png", "encoding": "base64", "text": "iVBO/w=="}}}
        """
    }

    @Test func attachmentsAreNamedAfterTheirFile() throws {
        var file = try Imported(har(Self.entry("a"), Self.entry("b"))) { $0.hosts = ["b"] }.file
        #expect(file.attachments.map(\.path) == ["body-2.bin"])
        file.nameAttachments(after: "shop")
        #expect(file.attachments.map(\.path) == ["shop-body-2.bin"])
        #expect(HTTPFileWriter.write(file).text.contains("\n< shop-body-2.bin\n"))
    }

    @Test(arguments: [("0.5", "500 ms"), ("2.7", "2700 ms"), ("3", "3"), ("0.001", "1 ms")])
    func aTimeoutIsReadBack(seconds: String, written: String) throws {
        let text = try Imported("curl -m \(seconds) http://a/").text
        #expect(text.contains("# @timeout \(written)\n"))
        let file = HTTPFileReader.read(text)
        #expect(file.problems == [])
        #expect(file.requests.first?.timeout == .milliseconds(Int64((Double(seconds) ?? 0) * 1_000)))
    }
}
