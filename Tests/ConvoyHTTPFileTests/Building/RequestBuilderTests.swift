import Foundation
import Synchronization
import Testing

@testable import ConvoyHTTPFile

/// Tests values of responses and rows in requests, harmful ones included.
@Suite struct RequestBuilderTests {
    private static let first = "# @name a\nGET http://example.com/\n###\n"

    /// Builds the second request of a file whose first request, `a`, has a response with this body.
    private func build(_ request: String, _ body: String) throws -> BuiltRequest {
        try builtLast(Self.first + request, answer: exchange(body))
    }

    private func failure(_ request: String, _ body: String) -> String {
        let failure = #expect(throws: Defect.self) { try build(request, body) }
        return failure?.what ?? ""
    }

    @Test(arguments: [
        ("{{a.response.body.$.id}}", "7"), ("{{a.response.body.id}}", "7"), ("{{a.response.body.$.list[1].b}}", "x"),
        ("{{a.response.body.$..b}}", "x"), ("{{a.response.body.$.list[0]}}", "[1,2]"),
        ("{{a.response.body.$.no}}", "null"), ("{{a.response.headers.x-token}}", "t1, t2"),
        ("{{a.response.body.$.o}}", "{\"z\":1,\"y\":[true]}"), ("{{a.request.headers.X}}", "y"),
    ]) func referencesTakePartsOfAnswers(reference: String, value: String) throws {
        var answer = exchange(
            #"{"id": 7, "list": [[1, 2], {"b": "x"}], "no": null, "o": {"z": 1, "y": [true]}}"#,
            fields: ["X-Token": "t1", "x-token": "t2"])
        answer.request.fields = ["x": "y"]
        let request = try builtLast(
            Self.first + "POST http://h/\nV: \(reference)\n\n\(reference)", answer: answer)
        #expect(request.bodyText == value)
        #expect(request.value(of: "V") == value)
        #expect(request.fields[0].isSecret)
    }

    @Test func completeBodiesAreInsertedUnchanged() throws {
        for body in ["a\nb", "{{$uuid}} {{a.response.body.*}}"] {
            #expect(try build("POST http://h/\n\n({{a.response.body.*}})", body).bodyText == "(\(body))")
        }
        #expect(try build("GET {{a.response.body.*}}", "https://other/x?y#z").url == "https://other/x?y#z")
    }

    @Test(arguments: [
        ("body.$.x", "{}", "the response to a has no value there"),
        (
            "body.$.x", "{\n oops",
            "the response to a is not JSON: found o instead of a name in quotation marks or }, at 2:2 of it"
        ), ("headers.X", "", "the response to a has no header field X"),
    ]) func missingValuesAreReported(part: String, body: String, what: String) {
        #expect(failure("GET http://h/{{a.response.\(part)}}", body) == "{{a.response.\(part)}}: " + what)
    }

    /// One read takes about a millisecond for each megabyte.
    @Test func aBodyIsReadOnceForAllReferences() throws {
        let count = Mutex(0)
        var answer = exchange()
        answer.responseBody = { () throws(Unreadable) in
            count.withLock { $0 += 1 }
            return Array(#"{"x": 1, "y": 2}"#.utf8)
        }
        let text = Self.first + "GET http://h/{{a.response.body.$.x}}/{{a.response.body.$.y}}"
        #expect(try builtLast(text, answer: answer).url == "http://h/1/2")
        #expect(count.withLock { $0 } == 1)
    }

    @Test func aReferenceToABodyFromAFileFails() throws {
        var answer = exchange()
        answer.request.body = [.file("b.bin")]
        let failure = #expect(throws: Defect.self) {
            try builtLast(Self.first + "GET http://h/{{a.request.body.*}}", answer: answer)
        }
        #expect(failure?.what == "{{a.request.body.*}}: the body of the request is a file")
    }

    // MARK: Injection

    @Test(arguments: ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\0b"]) func valuesAddNoHeaderFields(value: String) {
        for field in ["X: {{a.response.body.*}}", "Authorization: Bearer {{a.response.body.*}}"] {
            #expect(
                failure("GET http://h/\n" + field, value)
                    == "the value of {{a.response.body.*}} contains a line end or a NUL character, which a header field "
                    + "cannot have")
        }
    }

    @Test(arguments: [
        "evil.com/", "evil.com#", "user@evil.com", "evil.com?", "evil.com\\", "evil.com/\u{301}", "evil.com:1",
    ]) func valuesLeadToNoOtherHost(value: String) {
        let message = "{{a.response.body.*}} would change the host: its value is more than a name"
        #expect(failure("GET https://{{a.response.body.*}}.example.com/x", value) == message)
        #expect(failure("GET https://example.com{{a.response.body.*}}", value) == message)
    }

    @Test(arguments: [
        ("GET https://example.com{{a.response.body.*}}", ".evil.com"),
        ("GET https://example.com{{a.response.body.*}}", ":8443"),
        ("GET https://example.com{{a.response.body.*}}/x", "@evil.com"),
        ("GET {{a.response.body.*}}\nAuthorization: Bearer t", "https://evil.com/next"),
        ("GET http://h/\nCookie: a={{a.response.body.*}}", "1; b=2"),
        ("GET http://h/\nAuthorization: Basic {{a.response.body.*}}:pw", "a:b"),
        ("GET http://h/\nAuthorization: Digest {{a.response.body.*}} pw", "a b"),
    ]) func aValueOfAnAnswerLeadsNowhereElse(request: String, value: String) throws {
        #expect(throws: Defect.self) { try build(request, value) }
    }

    private static let url = "{{a.response.body.*}}"

    @Test(arguments: [
        ("https://\(url).example.com/x", "eu-1", "https://eu-1.example.com/x"),
        ("https://example.com\(url)", "/orders/1", "https://example.com/orders/1"),
        ("https://\(url)/x", "other.example:8080", "https://other.example:8080/x"),
        ("\(url)\nAuthorization: Bearer t", "http://example.com/next", "http://example.com/next"),
        ("https://h/?q=1\(url)", "#\u{301}", "https://h/?q=1%23%CC%81"),
        ("http://h/\(url)/end", "x HTTP/1.1\r\nX-Evil: 1", "http://h/x%20HTTP%2F1.1%0D%0AX-Evil%3A%201/end"),
        ("http://h/\(url)/end", "ü\"<>\\^`{|}", "http://h/%C3%BC%22%3C%3E%5C%5E%60%7B%7C%7D/end"),
        ("http://h/\(url)/end", "../admin", "http://h/..%2Fadmin/end"),
        ("http://h/\(url)/end", "x?y=z", "http://h/x%3Fy%3Dz/end"), ("http://h/\(url)", "a%2Fb", "http://h/a%252Fb"),
        ("http://h/x?q=\(url)&r=1", "a&b=c+d e", "http://h/x?q=a%26b%3Dc%2Bd%20e&r=1"),
        ("http://h/{{%a.response.body.*}}", "a/b", "http://h/a%2Fb"),
        ("http://h/{{&a.response.body.*}}", "a/b?c=d&e", "http://h/a/b?c=d&e"),
        ("http://h/x?{{& a.response.body.*}}", "page=2&size=5", "http://h/x?page=2&size=5"),
        ("http://h\(url)", "/a/../b?c=d", "http://h/b?c=d"), ("http://h/\(url)/end", "x#y", "http://h/x%23y/end"),
        ("http://h/{{&a.response.body.*}}/end", "x#y", "http://h/x%23y/end"),
    ]) func aValueIsOnePartOfAPathOrAQuery(target: String, value: String, url: String) throws {
        #expect(try build("GET \(target)", value).url == url)
    }

    @Test func aRowValueIsEscapedInAPathAndAQuery() throws {
        let columns = surroundings { $0.columns = ["id"] }
        let sent = try builtLast("POST http://h/{{id}}?q={{id}}\n\nx={{id}}", columns, row: ["id": "a/b&c=d"])
        #expect(sent.url == "http://h/a%2Fb%26c%3Dd?q=a%2Fb%26c%3Dd")
    }

    @Test(arguments: [
        ("http://h/api/\(url)", ".."), ("http://h/api/\(url)/x", "."), ("http://h/api/.\(url)/x", "."),
        ("http://h/api/%2e\(url)/x", "."),
    ]) func aValueMakesNoOtherDirectory(target: String, value: String) throws {
        let error = #expect(throws: Defect.self) { try build("GET \(target)", value) }
        #expect(error?.message.contains("{{&…}}") == true)
    }

    @Test(arguments: ["../x", "/etc/passwd", "a/b", "..", ".ssh", "a\\b", "x/\u{301}"])
    func valuesLeadOutOfNoDirectory(value: String) {
        let message = failure("GET http://h/\n\n>> out/{{a.response.body.*}}", value)
        #expect(message.hasPrefix("the value of {{a.response.body.*}} "))
        #expect(message.hasSuffix(", so it cannot be part of a file name"))
    }

    @Test func valuesMayBePartsOfNamesOfFiles() throws {
        #expect(try build("GET http://h/\n\n>>! out/{{a.response.body.*}}.json", "42").output?.path == "out/42.json")
        let output = "GET http://h/\n\n>> {{a.response.body.*}}"
        #expect(failure(output, "") == "the output ‘{{a.response.body.*}}’ is not a file name")
        #expect(failure(output, "a\nb").contains("contains a control character"))
    }

    // MARK: Servers that a response names

    private static let named = [
        ("GET http://\(url)/x\n", "evil.example"), ("GET http://\(url).example.com/x\n", "eu-1"),
        ("GET \(url)/x\n", "http://evil.example"), ("GET /x\nHost: \(url)\n", "evil.example"),
        ("GET http://example.com/x\nHost: \(url)\n", "evil.example"), ("GET http://{{h}}/x\n", "evil.example"),
        ("GET {{h}}://example.com/x\n", "https"), ("GET http://example.com:{{h}}1/x\n", "8"),
    ]
    private static let secrets = [
        "Authorization: Bearer t", "X-Api-Key: t", "Cookie: a=b", "X-Auth: t", "X-Stripe-Key-Test: t",
        "X-Sign: {{signing_key}}", "X-A: {{$processEnv T}}", "X-A: {{password}}", "X-A: {{b.response.body.*}}",
        "\n{\"a\": \"{{$processEnv T}}\"}",
    ]

    private func send(_ request: String, _ secret: String, _ value: String) throws -> BuiltRequest {
        let surroundings = surroundings { $0.processEnvironment = ["T": "t0k"] }
        let text =
            "@h = {{a.response.body.*}}\n@password = p\n@signing_key = s\n# @name a\nGET http://example.com/\n###\n"
            + "# @name b\nGET http://other.example/\n###\n# @name c\n" + request + secret
        let plan = plan(text, surroundings)
        if let problem = plan.problems.first { throw problem }
        let answers = ["a": exchange(value), "b": exchange("x", from: "other.example")]
        return try #require(plan.requests.last).build(surroundings) { answers[$0] }
    }

    @Test(arguments: named.indices, secrets.indices)
    func aServerThatAnAnswerNamesGetsNoSecret(name: Int, secret: Int) throws {
        let (request, value) = Self.named[name]
        let error = #expect(throws: Defect.self) { try send(request, Self.secrets[secret], value) }
        #expect(error?.message.contains("t0k") == false)
        #expect(try send(request, "Accept: text/plain", value).isLedAway)
    }

    /// A key of a row or of a cache is not a credential.
    @Test(arguments: [
        "Idempotency-Key: 1", "Surrogate-Key: a b", "X: {{sort_key}}", "X: {{key_id}}{{primary_key}}{{my_sort_key}}",
    ]) func aServerThatAnAnswerNamesGetsOrdinaryKeys(_ field: String) throws {
        let columns = surroundings { $0.columns = ["key_id", "primary_key", "sort_key"] }
        let text = "@my_sort_key = s\n\(Self.first)GET http://\(Self.url)/x\n" + field
        let row = ["key_id": "1", "primary_key": "2", "sort_key": "3"]
        #expect(try builtLast(text, columns, row: row, answer: exchange("evil.example")).isLedAway)
    }

    @Test func aUserInTheURLIsASecretToo() throws {
        #expect(throws: Defect.self) { try send("GET http://ada:pw@\(Self.url)/x\n", "", "evil.example") }
    }

    @Test func aValueMayReturnToTheServerItCameFrom() throws {
        for (request, value) in [
            ("GET http://\(Self.url)/x\n", "example.com"), ("GET http://\(Self.url).com/x\n", "example"),
            ("GET /x\nHost: \(Self.url)\n", "example.com"), ("GET http://example.com/\(Self.url)\n", "evil.example"),
        ] {
            for secret in Self.secrets where !secret.contains("{{b.") {
                let built = try send(request, secret, value)
                #expect(!built.isLedAway)
            }
        }
    }

    /// A value of a response must not choose a server if a value had chosen the server of that response.
    @Test func aServerThatWasNamedNamesNoOther() throws {
        let text = Self.first + "GET {{a.response.body.*}}\nAuthorization: Bearer t"
        var answer = exchange("http://evil.example/next", from: "evil.example")
        #expect(try builtLast(text, answer: answer).url == "http://evil.example/next")
        answer.request.isLedAway = true
        #expect(throws: Defect.self) { try builtLast(text, answer: answer) }
    }

    /// Each variable contains the previous one twice.
    ///
    /// The first has a text, no value, or the last variable.
    @Test(arguments: ["x", "{{missing}}", "{{v40}}"]) func variablesOfVariablesComeToAnEnd(first: String) {
        let lines = (1...40).map { "@v\($0) = {{v\($0 - 1)}}{{v\($0 - 1)}}" }
        let problems = plan("@v0 = \(first)\n" + lines.joined(separator: "\n") + "\nGET http://h/{{v40}}").problems
        #expect(!problems.isEmpty)
        #expect(problems.count < 1_000)
    }

    @Test func anEnvironmentThatContainsItselfIsReported() {
        let environment = surroundings {
            $0.environments.add(Array(#"{"$shared":{"a":"{{a}}{{a}}"}}"#.utf8), file: "e", isSecret: false)
        }
        let problems = plan("GET http://h/{{a}}", environment).problems
        #expect(problems.count == 1)
        #expect(problems.first.map { "\($0)".contains("contains itself") } == true)
    }

    @Test func numbersAndNamesOfAnySizeAreRead() {
        #expect(!plan("GET http://h/{{$timestamp -9223372036854775808 d}}").problems.isEmpty)
        #expect(!plan("GET http://h/{{$\(String(repeating: "a", count: 100_000))}}").problems.isEmpty)
        #expect(plan("GET http://h/\n" + String(repeating: "\n", count: 200_000)).problems.isEmpty)
    }

    @Test func aPathWithManyMatchesIsLimited() throws {
        let nested = String(repeating: "[", count: 127) + String(repeating: "]", count: 127)
        let json = try #require(JSONValue(json: Array(nested.utf8)))
        #expect(try JSONPath("$..*..*..*..*..*..*.x").nodes(in: json, atMost: 1).isEmpty)
    }

    /// A server sees bytes: a combining mark after a question mark or an at sign hides neither.
    @Test(arguments: [
        ("https://h/x?\u{301}token=abc", "https://h/x?\u{301}token=***"),
        ("https://h/x?a=1&\u{301}token=abc&b", "https://h/x?a=1&\u{301}token=***&b"),
        ("https://h/x?=token=abc", "https://h/x?token=***"),
        ("https://ada:s3cret@h/@\u{301}x?a=b@c", "https://***@h/@\u{301}x?a=b@c"),
        ("https://h/@x?a=b", "https://h/@x?a=b"), ("https://ada:s3cret@h/x", "https://***@h/x"),
    ]) func secretsOfAURLAreNotShown(_ url: String, _ shown: String) throws {
        let request = plan("GET " + url).requests.first
        #expect(request?.shownTarget == shown)
        #expect(request?.label == "GET \(shown)")
    }
}
