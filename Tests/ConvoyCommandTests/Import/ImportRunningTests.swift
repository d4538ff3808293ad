import ConvoyTesting
import Foundation
import Testing

@testable import ConvoyCommand

/// Runs `convoy import`, and runs the imported files with `convoy run`.
@Suite struct ImportRunningTests {
    private static func har(_ server: TestServer) -> String {
        """
        {"log": {"entries": [
          {"request": {"method": "POST", "url": "\(server.url("/login").absoluteString)",
            "postData": {"mimeType": "application/json", "text": "{\\"password\\": \\"old\\"}"}},
           "response": {"headers": [{"name": "Set-Cookie", "value": "sid=recorded"}],
             "content": {"mimeType": "application/json", "text": "{\\"token\\": \\"r3c0rded-t0ken\\"}"}}},
          {"request": {"method": "GET", "url": "\(server.url("/me").absoluteString)", "headers": [
            {"name": "Authorization", "value": "Bearer r3c0rded-t0ken"}, {"name": "Cookie", "value": "sid=recorded"}]}}
        ]}}
        """
    }

    @Test func aSessionOfABrowserRunsAgainWithNewValues() async throws {
        let (directory, server) = (try TemporaryDirectory(), try TestServer())
        server.respond { request in
            request.target == "/login"
                ? .status(200, headerFields: [("Set-Cookie", "sid=new")], body: "{\"token\": \"new-t0ken\"}")
                : .status(200, body: "ok")
        }
        let document = directory.url.appending(path: "session.har")
        let output = directory.url.appending(path: "session.http")
        try Data(Self.har(server).utf8).write(to: document)
        let imported = try await convoy("import", document.path, "-o", output.path)
        #expect(imported.status == 0)
        #expect(imported.output == "")
        #expect(
            imported.errors.contains("secret values were left out; the file uses these variables instead: password"))
        #expect(imported.errors.contains("2 requests imported"))
        let ran = try await convoy("run", "--variable", "password=new", output.path)
        #expect(ran.status == 0, "\(ran.errors)")
        let requests = [try await server.takeRequest(), try await server.takeRequest()]
        #expect(requests.map(\.target) == ["/login", "/me"])
        #expect(String(decoding: requests[0].body, as: UTF8.self) == "{\"password\": \"new\"}")
        let fields = Dictionary(requests[1].headerFields.map { ($0.name, $0.value) }) { first, _ in first }
        #expect(fields["Authorization"] == "Bearer new-t0ken")
        #expect(fields["Cookie"] == "sid=new")
    }

    @Test func linesOnStandardInputGoToStandardOutputAsTheyAre() async throws {
        let input = Pipe()
        try input.fileHandleForWriting.write(contentsOf: Data("curl http://a/ -d '\tx\u{1B}[31m'\n".utf8))
        try input.fileHandleForWriting.close()
        let ending = try await ConvoyProcess(["import", "-"], input: input).ended()
        #expect(ending.status == 0)
        #expect(ending.output.contains("\n\n\tx\u{1B}[31m\n"))
        #expect(ending.errors.contains("1 request imported from standard input"))
    }

    @Test func severalSecretsAreListedOnePerLine() async throws {
        let directory = try TemporaryDirectory()
        let document = directory.url.appending(path: "a.txt")
        try Data("curl http://a/ -H 'X-Api-Key: one-secret' -H 'X-Token: two-secrets'\n".utf8).write(to: document)
        let ending = try await convoy("import", document.path)
        #expect(ending.status == 0)
        let lines = ending.errors.split(separator: "\n").map(String.init)
        let start = try #require(lines.firstIndex { $0.hasSuffix("the file uses these variables instead:") })
        #expect(lines[(start + 1)...].prefix(2) == ["convoy:   x_api_key", "convoy:   x_token"], "\(ending.errors)")
    }

    @Test func binaryBodiesAreWrittenBesideTheFile() async throws {
        let directory = try TemporaryDirectory()
        let document = directory.url.appending(path: "a.har")
        let har = """
            {"log": {"entries": [{"request": {"method": "PUT", "url": "http://a/", "postData":
              {"mimeType": "image/png", "encoding": "base64", "text": "iVBO/w=="}}}]}}
            """
        try Data(har.utf8).write(to: document)
        let ending = try await convoy("import", document.path, "-o", directory.url.appending(path: "a.http").path)
        #expect(ending.status == 0)
        #expect(try directory.names() == ["a-body-1.bin", "a.har", "a.http"])
        let body = directory.url.appending(path: "a-body-1.bin")
        #expect(try Data(contentsOf: body) == Data([0x89, 0x50, 0x4E, 0xFF]))
        try Data("mine".utf8).write(to: body)
        let again = try await convoy("import", document.path, "-o", directory.url.appending(path: "a.http").path)
        #expect(again.status == 1)
        #expect(again.errors.contains("a-body-1.bin was not written: a file of this name exists"))
        #expect(try Data(contentsOf: body) == Data("mine".utf8))
        let told = try await convoy("import", document.path)
        #expect(told.errors.contains("binary bodies were not written: body-1.bin"))
    }

    @Test func anUnknownDocumentIsRefused() async throws {
        let directory = try TemporaryDirectory()
        let document = directory.url.appending(path: "x")
        try Data("[1]".utf8).write(to: document)
        let ending = try await convoy("import", document.path)
        #expect(ending.status == 2)
        #expect(ending.errors.contains("the document is neither a HAR nor a Postman collection"))
        #expect(ending.output == "")
        let missing = try await convoy("import", document.path + "y")
        #expect(missing.status == 2)
        #expect(missing.errors.contains("cannot read"))
    }

    @Test(arguments: [true, false]) func filesWithSecretsAreForTheirOwnerAlone(keepsSecrets: Bool) async throws {
        let directory = try TemporaryDirectory()
        let document = directory.url.appending(path: "a.har")
        let har = """
            {"log": {"entries": [{"request": {"method": "PUT", "url": "http://a/", "postData":
              {"mimeType": "image/png", "encoding": "base64", "text": "iVBO/w=="}}}]}}
            """
        try Data(har.utf8).write(to: document)
        let options = keepsSecrets ? ["--keep-secrets"] : []
        let output = directory.url.appending(path: "a.http").path
        // The umask of the tests is unknown. This umask removes no permission of the owner.
        let script = "umask 022; exec \"$0\" import \"$@\""
        let ending = try await ConvoyProcess(shell: script, options + [document.path, "-o", output]).ended()
        #expect(ending.status == 0, "\(ending.errors)")
        for name in ["a.http", "a-body-1.bin"] {
            let path = directory.url.appending(path: name).path
            let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
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
