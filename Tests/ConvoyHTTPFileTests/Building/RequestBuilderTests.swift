import Foundation
import Synchronization
import Testing

@testable import ConvoyHTTPFile

/// Tests values of responses in requests, and that they cannot inject anything.
@Suite struct RequestBuilderTests {
    /// Builds the second request of a file whose first request, `a`, has a response with this body.
    private func build(
        _ request: String, _ body: String, fields: [(name: String, value: String)] = []
    ) throws -> BuiltRequest {
        let plan = plan("# @name a\nGET http://h/\n###\n" + request)
        if let problem = plan.problems.first { throw problem }
        let answer = exchange(body, fields: fields)
        return try #require(plan.requests.last).build(surroundings()) { $0 == "a" ? answer : nil }
    }

    private func failure(_ request: String, _ body: String) throws -> String {
        do {
            let built = try build(request, body)
            Issue.record("it was built: \(built)")
            return ""
        } catch let failure as BuildFailure { return failure.what }
    }

    @Test(arguments: [
        ("{{a.response.body.$.id}}", "7"), ("{{a.response.body.id}}", "7"), ("{{a.response.body.$.list[1].b}}", "x"),
        ("{{a.response.body.$..b}}", "x"), ("{{a.response.body.$.list[0]}}", "[1,2]"),
        ("{{a.response.body.$.no}}", "null"), ("{{a.response.headers.x-token}}", "t1, t2"),
        ("{{a.response.body.$.o}}", "{\"z\":1,\"y\":[true]}"), ("{{a.request.headers.X}}", "y"),
    ]) func referencesTakePartsOfAnswers(reference: String, value: String) throws {
        var answer = exchange(
            #"{"id": 7, "list": [[1, 2], {"b": "x"}], "no": null, "o": {"z": 1, "y": [true]}}"#,
            fields: [("X-Token", "t1"), ("x-token", "t2")])
        answer.request.fields = [.init(name: "x", value: "y", isSecret: false)]
        let plan = plan("# @name a\nGET http://h/\n###\nPOST http://h/\nV: \(reference)\n\n\(reference)")
        let request = try plan.requests[1].build(surroundings()) { [answer] _ in answer }
        #expect(request.bodyText == value)
        #expect(request.value(of: "V") == value)
        #expect(request.fields[0].isSecret)
    }

    @Test func completeBodiesAreInsertedUnchanged() throws {
        #expect(try build("POST http://h/\n\n({{a.response.body.*}})", "a\nb").bodyText == "(a\nb)")
        #expect(try build("GET {{a.response.body.*}}", "https://other/x?y#z").url == "https://other/x?y#z")
    }

    @Test func missingValuesAreReported() throws {
        #expect(
            try failure("GET http://h/{{a.response.body.$.x}}", "{}")
                == "{{a.response.body.$.x}}: the response to a has no value there")
        #expect(
            try failure("GET http://h/{{a.response.body.$.x}}", "{\n oops").contains(
                "is not JSON: found o instead of a name in quotation marks or }, at 2:2"))
        #expect(
            try failure("GET http://h/{{a.response.headers.X}}", "")
                == "{{a.response.headers.X}}: the response to a has no header field X")
    }

    /// A body is read once for all references to it.
    ///
    /// One read takes about a millisecond for each megabyte.
    @Test func aBodyIsReadOnceForAllReferences() throws {
        let plan = plan("# @name a\nGET http://h/\n###\nGET http://h/{{a.response.body.$.x}}/{{a.response.body.$.y}}")
        let count = Mutex(0)
        let url = try #require(URL(string: "http://h/"))
        let answer = Exchange(request: BuiltRequest(method: "GET", url: url), responseFields: []) {
            () throws(Unreadable) in
            count.withLock { $0 += 1 }
            return Array(#"{"x": 1, "y": 2}"#.utf8)
        }
        let request = try #require(plan.requests.last)
        #expect(try request.build(surroundings()) { _ in answer }.url == "http://h/1/2")
        #expect(count.withLock { $0 } == 1)
    }

    @Test func aReferenceToABodyFromAFileFails() throws {
        var answer = exchange("")
        answer.request.body = [.file("b.bin")]
        let plan = plan("# @name a\nGET http://h/\n###\nGET http://h/{{a.request.body.*}}")
        let request = try #require(plan.requests.last)
        do {
            _ = try request.build(surroundings()) { _ in answer }
            Issue.record("it was built")
        } catch { #expect(error.what == "{{a.request.body.*}}: the body of the request is a file") }
    }

    // MARK: Injection

    @Test(arguments: ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\0b"]) func valuesAddNoHeaderFields(value: String) throws {
        let message = try failure("GET http://h/\nX: {{a.response.body.*}}", value)
        #expect(
            message
                == "the value of {{a.response.body.*}} contains a line end or a NUL character, which a header field cannot have"
        )
        #expect(try failure("GET http://h/\nAuthorization: Bearer {{a.response.body.*}}", value) == message)
    }

    @Test(arguments: ["x HTTP/1.1\r\nX-Evil: 1", "x\ny", "ü y", "\"<>\\^`{|}"]) func valuesStayWithinTheURL(
        value: String
    ) throws {
        let url = try build("GET http://h/{{a.response.body.*}}/end", value).url
        #expect(url.hasPrefix("http://h/"))
        #expect(url.hasSuffix("/end"))
        #expect(url.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && !"\"<>\\^`{|}".utf8.contains($0) })
    }

    @Test(arguments: ["evil.com/", "evil.com#", "user@evil.com", "evil.com?", "evil.com\\"])
    func valuesLeadToNoOtherHost(value: String) throws {
        let message = "{{a.response.body.*}} would change the host: its value is more than a name"
        #expect(try failure("GET https://{{a.response.body.*}}.example.com/x", value) == message)
        #expect(try failure("GET https://example.com{{a.response.body.*}}", value) == message)
    }

    @Test(arguments: ["../x", "/etc/passwd", "a/b", "..", ".ssh", "a\\b"]) func valuesLeadOutOfNoDirectory(
        value: String
    ) throws {
        let message = try failure("GET http://h/\n\n>> out/{{a.response.body.*}}", value)
        #expect(message.hasPrefix("the value of {{a.response.body.*}} "))
        #expect(message.hasSuffix(", so it cannot be part of a file name"))
    }

    @Test func valuesMayBePartsOfNamesOfFiles() throws {
        #expect(try build("GET http://h/\n\n>>! out/{{a.response.body.*}}.json", "42").output?.path == "out/42.json")
        #expect(
            try failure("GET http://h/\n\n>> {{a.response.body.*}}", "")
                == "the output ‘{{a.response.body.*}}’ is not a file name")
        #expect(
            try failure("GET http://h/\n\n>> {{a.response.body.*}}", "a\nb").contains("contains a control character"))
    }

    @Test func valuesEndNoPartOfAForm() throws {
        let text = """
            POST http://h/
            Content-Type: multipart/form-data; boundary=abcd

            --abcd
            Content-Disposition: form-data; name="x"

            {{a.response.body.*}}
            --abcd--
            """
        #expect(try failure(text, "x\r\n--abcd\r\n") == "a value contains the boundary of the parts")
        #expect(try build(text, "--abc").bodyText.contains("\r\n\r\n--abc\r\n--abcd--"))
    }

    @Test func placeholdersInValuesAreNotReplaced() throws {
        #expect(
            try build("POST http://h/\n\n{{a.response.body.*}}", "{{$uuid}} {{a.response.body.*}}").bodyText
                == "{{$uuid}} {{a.response.body.*}}")
    }

    @Test func valuesAreTextInAQuery() throws {
        let request = try build("GRAPHQL http://h/\n\nquery { a(b: \"{{a.response.body.*}}\") }", "x\"}")
        #expect(request.bodyText == #"{"query":"query { a(b: \"x\\\"}\") }"}"#)
    }
}
