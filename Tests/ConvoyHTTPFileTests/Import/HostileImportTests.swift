import Foundation
import Testing

@testable import ConvoyHTTPFile

/// Tests hostile documents: the import reads each one, or rejects it with a reason.
@Suite struct HostileImportTests {
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

    @Test func deepDocumentsAreRefusedWithoutRecursion() {
        let deep = String(repeating: "{\"item\":[", count: 100_000)
        #expect(throws: Defect.self) { try Imported(deep) }
        let folders =
            String(repeating: "{\"item\":[", count: 60) + "{\"request\": \"http://a/\"}"
            + String(repeating: "]}", count: 60)
        #expect((try? Imported(folders))?.file.requests.count == 1)
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
}
