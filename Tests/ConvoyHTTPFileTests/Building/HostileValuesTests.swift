import Testing

@testable import ConvoyHTTPFile

/// Files and answers that mean harm, or none and have it.
@Suite struct HostileValuesTests {
    private func build(_ request: String, _ body: String) throws -> BuiltRequest {
        let plan = plan("# @name a\nGET http://example.com/\n###\n" + request)
        if let problem = plan.problems.first { throw problem }
        let answer = exchange(body)
        return try #require(plan.requests.last).build(surroundings()) { $0 == "a" ? answer : nil }
    }

    @Test(arguments: [
        ("GET https://{{a.response.body.*}}.example.com/x", "evil.com/\u{301}"),
        ("GET https://{{a.response.body.*}}.example.com/x", "evil.com:1"),
        ("GET https://example.com{{a.response.body.*}}", ".evil.com"),
        ("GET https://example.com{{a.response.body.*}}", ":8443"),
        ("GET https://example.com{{a.response.body.*}}/x", "@evil.com"),
        ("GET {{a.response.body.*}}\nAuthorization: Bearer t", "https://evil.com/next"),
        (
            "POST http://h/\nContent-Type: multipart/form-data; boundary=b\n\n--b\n\n{{a.response.body.*}}{{a.response.body.*}}\n--b--",
            "-\n-"
        ),
        (
            "POST http://h/\nContent-Type: multipart/form-data; boundary=b\n\n--b\n"
                + "Content-Disposition: form-data; name=\"x\"; filename=\"{{a.response.body.*}}\"\n\nx\n--b--",
            "x\"\r\nContent-Type: text/html"
        ),
        ("GET http://h/\n>> {{a.response.body.*}}", "x/\u{301}"),
    ])
    func aValueOfAnAnswerLeadsNowhereElse(request: String, value: String) throws {
        // Two halves of a boundary: only together do they make one.
        let value = value == "-\n-" ? "\n--b" : value
        #expect(throws: BuildFailure.self) { try build(request, value) }
    }

    @Test(arguments: [
        ("GET https://{{a.response.body.*}}.example.com/x", "eu-1", "https://eu-1.example.com/x"),
        ("GET https://example.com{{a.response.body.*}}", "/orders/1", "https://example.com/orders/1"),
        ("GET https://{{a.response.body.*}}/x", "other.example:8080", "https://other.example:8080/x"),
        ("GET {{a.response.body.*}}\nAuthorization: Bearer t", "http://example.com/next", "http://example.com/next"),
        ("GET https://h/?q=1{{a.response.body.*}}", "#\u{301}", "https://h/?q=1%23%CC%81"),
    ])
    func aValueThatBelongsThereIsTaken(request: String, value: String, url: String) throws {
        #expect(try build(request, value).url == url)
    }

    @Test func aValueIsOneValueOfAForm() throws {
        let request =
            "POST http://h/\nContent-Type: application/x-www-form-urlencoded\n\nname={{a.response.body.*}}&role=user"
        #expect(try build(request, "x&role=admin").bodyText == "name=x%26role%3Dadmin&role=user")
    }

    /// Each twice the one before; each without a value; each made of all.
    @Test(arguments: ["x", "{{missing}}", "{{v40}}"])
    func variablesOfVariablesComeToAnEnd(first: String) {
        let lines = (1...40).map { "@v\($0) = {{v\($0 - 1)}}{{v\($0 - 1)}}" }
        let problems = plan("@v0 = \(first)\n" + lines.joined(separator: "\n") + "\nGET http://h/{{v40}}").problems
        #expect(!problems.isEmpty)
        #expect(problems.count < 1_000)
    }

    @Test func anEnvironmentThatIsMadeOfItselfComesToAnEnd() {
        let environment = surroundings {
            $0.environments.add(Array(#"{"$shared":{"a":"{{a}}{{a}}"}}"#.utf8), file: "e", isSecret: false)
        }
        let problems = plan("GET http://h/{{a}}", environment).problems
        #expect(problems.count == 1)
        #expect(problems.first.map { "\($0)".contains("made of itself") } == true)
    }

    @Test func numbersAndNamesOfAnySizeAreRead() {
        #expect(!plan("GET http://h/{{$timestamp -9223372036854775808 d}}").problems.isEmpty)
        #expect(!plan("GET http://h/{{$\(String(repeating: "a", count: 100_000))}}").problems.isEmpty)
        #expect(plan("GET http://h/\n" + String(repeating: "\n", count: 200_000)).problems.isEmpty)
    }

    @Test func aPathThatMultipliesComesToAnEnd() throws {
        let nested = String(repeating: "[", count: 127) + String(repeating: "]", count: 127)
        let json = try #require(JSONValue(json: Array(nested.utf8)))
        #expect(try JSONPath("$..*..*..*..*..*..*.x").nodes(in: json, atMost: 1).isEmpty)
    }

    @Test func aPasswordBeforeAHostIsNotShown() throws {
        let request = try #require(plan("GET https://ada:s3cret@h/x").requests.first)
        #expect(request.shownTarget == "https://***@h/x")
        #expect(!request.label.contains("s3cret"))
    }

    @Test func aVariableInACheckIsRefused() {
        #expect(plan("GET http://h/\n# @expect body.$.id == {{x}}").problems.count == 1)
    }
}
