import Foundation
import Testing

@testable import ConvoyHTTPFile

/// Tests what the import does with every kind of document: it refuses hostile ones, names requests and hides secrets.
@Suite struct ImportedFileTests {
    @Test(arguments: [
        ("", "the document is empty"), ("  \n", "the document is empty"), ("hello", "begins with curl"),
        ("GET https://a.com/", "an .http file already"), ("{", "not JSON"), ("[]", "neither a HAR"),
        ("{}", "neither a HAR"), ("{\"log\": 1}", "no list of entries"),
        ("{\"log\": {\"entries\": {}}}", "no list of entries"), ("{\"log\": {\"entries\": []}}", "no request"),
        ("{\"item\": {}}", "not a list of requests"), ("{\"item\": []}", "no request"),
        ("{\"requests\": [], \"order\": []}", "version 1"), ("curl", "begins with curl"), ("curl -X", "no request"),
        ("curl 'https://a.com", "no request"),
    ]) func anUnknownDocumentIsRefused(document: String, words: String) {
        let error = #expect(throws: Defect.self) { try Imported(document) }
        #expect(error?.message.contains(words) == true, "\(error?.message ?? "")")
    }

    @Test func bytesThatAreNotTextAreRefused() {
        for bytes: [UInt8] in [
            [0xFF, 0xFE, 0x63], Array("curl http://a/\0".utf8), Array("{\"log\": \"".utf8) + [0xC3, 0x28],
        ] { #expect(throws: Defect.self) { try Imported(bytes) } }
    }

    @Test func deepDocumentsAreRefusedWithoutRecursion() throws {
        func folders(_ count: Int) -> String { String(repeating: "{\"item\":[", count: count) }
        #expect(throws: Defect.self) { try Imported(folders(100_000)) }
        let document = folders(60) + "{\"request\": \"http://a/\"}" + String(repeating: "]}", count: 60)
        #expect(try Imported(document).file.requests.count == 1)
    }

    private static let archive = har(
        """
        {"_resourceType": "xhr", "request": {"method": "POST", "url": "http://a/b", "headers": [{"name": "A", "value": "b"}],
          "cookies": [{"name": "c", "value": "d"}], "postData": {"mimeType": "multipart/form-data", "params": [
          {"name": "e", "value": "f", "fileName": "g", "contentType": "h"}]}},
          "response": {"headers": [{"name": "Set-Cookie", "value": "i=j"}], "content": {"text": "{}", "encoding": "base64"}}}
        """)
    private static let postman = collection(
        """
        {"name": "n", "auth": {"type": "bearer", "bearer": [{"key": "token", "value": "v"}]}, "item": [{"name": "o", "event": [
          {"listen": "test", "script": {"exec": ["pm.test('x', () => {})", "tests['a'] = b"]}}],
          "request": {"method": "PUT", "url": {"raw": "http://a/:b", "query": [{"key": "c", "value": "d"}],
          "variable": [{"key": "b", "value": "e"}]}, "header": [{"key": "H", "value": "I"}],
          "body": {"mode": "formdata", "formdata": [{"key": "j", "type": "file", "src": ["k"]}]}}}]}
        """)

    /// Replaces each value by a random one.
    ///
    /// Reading ends, and the reader accepts the written file.
    @Test(arguments: [archive, postman]) func membersOfTheWrongKindAreOmitted(document: String) throws {
        var generator = SeededGenerator(seed: 7)
        let values = document.ranges(of: #/"[^"]*"|\[|\{/#)
        let others = ["1", "null", "true", "[]", "{}", "[[]]", "\"\"", "\"\\u0000\"", "\"{{\"", "\"\\r\\n\"", "-1e999"]
        for range in values {
            let other = others.randomElement(using: &generator) ?? "1"
            // Replaces a complete value, including the values inside it.
            let text = String(document[..<range.lowerBound]) + other + String(document[range.upperBound...])
            guard let imported = try? Imported(text) else { continue }
            #expect(HTTPFileReader.read(imported.text).problems.filter { $0.kind == .mistake } == [])
        }
    }

    @Test func damagedLinesOfCurlAreReadToTheirEnd() {
        let command = "curl ^\"http://a/^\" -H 'A: b' --data-raw $'\\ud83d\\x4' -F a=@b -u c:d \\\n --next \"e\"\"f\""
        for length in 0...command.count {
            for rest in ["", "\\", "'", "^", "\n\n", "$'\\u", "\u{301}"] {
                _ = try? Imported(String(command.prefix(length)) + rest)
            }
        }
    }

    // MARK: Names

    /// A search from the start for each name would take minutes.
    @Test(.timeLimit(.minutes(1))) func equalNamesAreNumbered() {
        var names = UniqueNames(taken: ["a_2"])
        #expect((0..<3).map { _ in names.take("a") } == ["a", "a_3", "a_4"])
        #expect(names.take("a_3") == "a_3_2")
        for _ in 0..<200_000 { _ = names.take("b") }
        #expect(names.take("b") == "b_200001")
    }

    @Test(arguments: [("0.5", "500 ms"), ("2.7", "2700 ms"), ("3", "3"), ("0.001", "1 ms")])
    func aTimeoutIsReadBack(seconds: String, written: String) throws {
        let text = try Imported("curl -m \(seconds) http://a/").text
        #expect(text.contains("# @timeout \(written)\n"))
        let file = HTTPFileReader.read(text)
        #expect(file.problems == [])
        #expect(file.requests.first?.timeout == .milliseconds(Int64((Double(seconds) ?? 0) * 1_000)))
    }

    // MARK: Secrets

    private static let secrets = """
        curl https://u:hunter2@a.com/x -H 'Authorization: Bearer tok.en.1'
        curl 'https://a.com/y?api_key=k3y&page=2' -H 'Authorization: Bearer tok.en.1' -H 'X-Api-Key: other'
        curl https://a.com/z -b 'sid=abc; theme=dark' --json '{"password": "p\\"w", "name": "ada"}'
        curl https://a.com/f -d 'client_secret=cs&grant_type=password' -u 'ada:lovelace'
        """

    @Test func eachSecretIsAVariableAndEqualOnesAreOne() throws {
        let imported = try Imported(Self.secrets)
        for secret in ["hunter2", "tok.en.1", "k3y", "other", "abc", "p\\\"w", "=cs", "lovelace"] {
            #expect(!imported.text.contains(secret), "\(secret)")
        }
        #expect(
            imported.file.variables.map(\.name) == [
                "token", "password", "x_api_key", "api_key", "cookie", "password_2", "basic", "client_secret",
            ])
        #expect(imported.text.contains("@x_api_key = {{$processEnv X_API_KEY}}\n"))
        #expect(imported.text.contains("\"name\": \"ada\""))
        #expect(imported.text.contains("grant_type=password"))
        #expect(imported.plan().problems == [])
    }

    @Test func secretsAreKeptWithTheOption() throws {
        let imported = try Imported(Self.secrets) { $0.keepsSecrets = true }
        let requests = try built(imported.text)
        #expect(requests[0].url == "https://u:hunter2@a.com/x")
        #expect(requests[1].url == "https://a.com/y?api_key=k3y&page=2")
        #expect(requests[2].value(of: "cookie") == "sid=abc; theme=dark")
        #expect(requests[2].bodyText == #"{"password": "p\"w", "name": "ada"}"#)
        #expect(requests[3].value(of: "authorization") == "Basic YWRhOmxvdmVsYWNl")
    }
}
