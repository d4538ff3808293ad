import Foundation
import Testing

@testable import ConvoyCommand

@Suite final class ImportRunningTests: CommandTests {
    private static let session = """
        {"log": {"entries": [
          {"request": {"method": "POST", "url": "BASE/login",
            "postData": {"mimeType": "application/json", "text": "{\\"password\\": \\"old\\"}"}},
           "response": {"headers": [{"name": "Set-Cookie", "value": "sid=recorded"}],
             "content": {"mimeType": "application/json", "text": "{\\"token\\": \\"r3c0rded-t0ken\\"}"}}},
          {"request": {"method": "GET", "url": "BASE/me", "headers": [
            {"name": "Authorization", "value": "Bearer r3c0rded-t0ken"}, {"name": "Cookie", "value": "sid=recorded"}]}}
        ]}}
        """
    private static let upload = """
        {"log": {"entries": [{"request": {"method": "PUT", "url": "http://a/", "postData":
          {"mimeType": "image/png", "encoding": "base64", "text": "iVBO/w=="}}}]}}
        """

    @Test func aSessionOfABrowserRunsAgainWithNewValues() async throws {
        server.respond { request in
            request.target == "/login"
                ? .status(200, headerFields: [("Set-Cookie", "sid=new")], body: "{\"token\": \"new-t0ken\"}")
                : .status(200, body: "ok")
        }
        let output = path("session.http")
        try await convoy(
            "import", write(Self.session, to: "session.har"), "-o", output, prints: "",
            errors: [
                "secret values were left out; the file uses these variables instead: password", "2 requests imported",
            ])
        try await convoy("run", "--variable", "password=new", output)
        let requests = [try await server.takeRequest(), try await server.takeRequest()]
        #expect(requests.map(\.target) == ["/login", "/me"])
        #expect(requests[0].bodyText == "{\"password\": \"new\"}")
        #expect(requests[1].value(of: "Authorization") == "Bearer new-t0ken")
        #expect(requests[1].value(of: "Cookie") == "sid=new")
    }

    @Test func linesOnStandardInputGoToStandardOutputAsTheyAre() async throws {
        let input = Pipe()
        try input.fileHandleForWriting.write(contentsOf: Data("curl http://a/ -d '\tx\u{1B}[31m'\n".utf8))
        try input.fileHandleForWriting.close()
        try await convoy(
            "import", "-", input: input, prints: "\n\n\tx\u{1B}[31m\n", errors: "1 request imported from standard input"
        )
    }

    @Test func severalSecretsAreListedOnePerLine() async throws {
        let line = "curl http://a/ -H 'X-Api-Key: one-secret' -H 'X-Token: two-secrets'\n"
        let ending = try await convoy("import", write(line, to: "a.txt"))
        let lines = ending.errors.split(separator: "\n").map(String.init)
        let start = try #require(lines.firstIndex { $0.hasSuffix("the file uses these variables instead:") })
        #expect(lines[(start + 1)...].prefix(2) == ["convoy:   x_api_key", "convoy:   x_token"], "\(ending.errors)")
    }

    @Test func binaryBodiesAreWrittenBesideTheFile() async throws {
        let document = try write(Self.upload, to: "a.har")
        try await convoy("import", document, "-o", path("a.http"))
        #expect(try directory.names() == ["a-body-1.bin", "a.har", "a.http"])
        #expect(try data("a-body-1.bin") == Data([0x89, 0x50, 0x4E, 0xFF]))
        try write("mine", to: "a-body-1.bin")
        try await convoy(
            "import", document, "-o", path("a.http"), status: 1,
            errors: "a-body-1.bin was not written: a file of this name exists")
        #expect(try content("a-body-1.bin") == "mine")
        try await convoy("import", document, status: nil, errors: "binary bodies were not written: body-1.bin")
    }

    @Test func anUnknownDocumentIsRefused() async throws {
        try await convoy(
            "import", write("[1]", to: "x"), status: 2, prints: "",
            errors: "the document is neither a HAR nor a Postman collection")
        #expect(try await convoy("import", path("xy"), status: 2).errors.contains("cannot read"))
    }

    @Test(arguments: [true, false]) func filesWithSecretsAreForTheirOwnerAlone(keepsSecrets: Bool) async throws {
        let options = keepsSecrets ? ["--keep-secrets"] : []
        // The umask of the tests is unknown. This umask removes no permission of the owner.
        try await convoy(
            shell: "umask 022; exec \"$0\" import \"$@\"", options, write(Self.upload, to: "a.har"), "-o",
            path("a.http"))
        for name in ["a.http", "a-body-1.bin"] {
            let mode = try FileManager.default.attributesOfItem(atPath: path(name))[.posixPermissions] as? Int
            #expect(mode == (keepsSecrets ? 0o600 : 0o644), "\(name)")
        }
    }
}

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
