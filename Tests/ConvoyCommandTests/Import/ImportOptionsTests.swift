import Testing

@testable import ConvoyCommand

@Suite struct ImportOptionsTests {
    @Test func theDocumentAndTheOptionsAreParsed() throws {
        let options = try #require(
            try ImportOptions(parsing: ["-o", "a.http", "s.har", "--host", "a.*", "--host", "b", "--all"]))
        #expect(options.file == "s.har")
        #expect(options.output == "a.http")
        #expect(options.wishes.hosts == ["a.*", "b"])
        #expect(options.wishes.keepsAssets)
        #expect(!options.wishes.keepsSecrets)
        #expect(try ImportOptions(parsing: ["--help"]) == nil)
        #expect(try ImportOptions(parsing: ["-", "--keep-secrets"])?.wishes.keepsSecrets == true)
    }

    @Test(arguments: [
        ([], "a document is missing; write convoy import FILE, or - for standard input"),
        (["a", "b"], "import takes one document, not 2"),
        (["a", "--hosts", "x"], "unknown option --hosts; did you mean --host?"),
    ])
    func mistakesAreReported(arguments: [String], message: String) {
        #expect(throws: UsageError(message)) { try ImportOptions(parsing: arguments) }
    }
}
