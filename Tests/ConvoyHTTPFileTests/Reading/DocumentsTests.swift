import Testing

@testable import ConvoyHTTPFile

/// Tests the examples in the documentation of JetBrains, REST Client and httpyac.
@Suite struct DocumentsTests {
    // MARK: JetBrains' specification

    @Test func requestsAreSeparatedByThreeSigns() throws {
        let requests = try built("###\nGET http://example.com\n###\nGET http://example.com/b\n###\n")
        #expect(requests.map(\.url) == ["http://example.com", "http://example.com/b"])
    }

    @Test func commentsOfBothKindsAreIgnored() throws {
        let request = try #require(
            built("# one\n// two\nPOST http://example.com/add\n# three\nA: b\n// four\n\n  # five\nbody\n").first)
        #expect(request.fields.map(\.name) == ["A"])
        #expect(request.bodyText == "body")
    }

    @Test(arguments: [
        "http://example.com", "GET http://example.com", "GET http://example.com HTTP/1.1", "get http://example.com",
        "GET  http://example.com   HTTP/2 (Prior Knowledge)", "example.com", "GET example.com",
    ]) func methodSchemeAndVersionAreOptional(line: String) throws {
        let request = try #require(built(line).first)
        #expect(request.method == "GET")
        #expect(request.url == "http://example.com")
    }

    @Test(
        arguments: [
            ("http://example.com/\n    api\n    /get", "http://example.com/api/get"),
            ("GET http://example.com/\n    api\n    /get\nA: b", "http://example.com/api/get"),
            ("http://example.com/\n    %20api%20\n    +/get+", "http://example.com/%20api%20+/get+"),
            (
                "GET http://example.com/api/get\n  ?id=42\n  # why\n  &b=ä c",
                "http://example.com/api/get?id=42&b=%C3%A4%20c"
            ),
            (
                "GET https://example.com/comments\n?page=2\n&pageSize=10",
                "https://example.com/comments?page=2&pageSize=10"
            ),
            ("http://h/100%/%20%zz", "http://h/100%25/%20%25zz"),
            ("http://exämple.com/ä", "http://xn--exmple-cua.com/%C3%A4"),
            ("http://[::1]", "http://[::1]"), ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ])
    func targetsMayHaveSeveralLines(text: String, url: String) throws {
        #expect(try built(text).first?.url == url)
    }

    @Test(arguments: [
        ("GET /api/get\nHost: example.com", "http://example.com/api/get"),
        ("GET /api/get\nHost: example.com:8443", "https://example.com:8443/api/get"),
        ("GET /api\nhost: https://example.com/", "https://example.com/api"),
        ("@host=http://localhost\nGET /json", "http://localhost/json"),
    ]) func aPathHasTheHostOfItsField(text: String, url: String) throws {
        let request = try #require(built(text).first)
        #expect(request.url == url)
        #expect(request.value(of: "Host") == nil)
    }

    @Test func fieldsMayContinueOnIndentedLines() throws {
        let request = try #require(
            built("GET http://a/\nAccept: text/html,\n    text/plain\nFrom: user@example.com").first)
        #expect(request.value(of: "Accept") == "text/html, text/plain")
        #expect(request.value(of: "From") == "user@example.com")
    }

    private static let form = "POST https://a/login\nContent-Type: application/x-www-form-urlencoded\n\n"

    @Test(arguments: [
        ("###\nPOST http://example.com/add\n\n\nmessage-body\n\n###\n", "message-body"),
        (form + "name=foo\n&password=bar", "name=foo&password=bar"),
        (form + "key1 = a b &\nkey2 = ü &\n", "key1=a%20b&key2=%C3%BC"),
        ("POST http://a/post\ncontent-type: application/json\n{\n  \"foo\": 1\n}\n    ", "{\n  \"foo\": 1\n}"),
        ("POST http://a/\n\n<div>\\{\\{title\\}\\}</div>", "<div>{{title}}</div>"),
    ]) func theLinesOfABodyAreJoined(text: String, body: String) throws {
        #expect(try built(text).first?.bodyText == body)
    }

    @Test func aFileIsSentAsItIs() throws {
        let files = surroundings(files: ["./input.txt": "\nmessage-body\n"])
        let request = try #require(built("POST http://example.com/add\n\n< ./input.txt\n###", files).first)
        #expect(request.body == [.file("./input.txt")])
    }

    @Test func partsOfAFormHaveTheirLineEnds() throws {
        let files = surroundings(files: ["./input.txt": "x"])
        let text = """
            POST http://example.com/api/upload
            Content-Type: multipart/form-data; boundary=abcd

            --abcd
            Content-Disposition: form-data; name="text"

            Text
            --abcd
            Content-Disposition: form-data; name="file_to_send"; filename="input.txt"

            < ./input.txt
            --abcd--
            """
        let request = try #require(built(text, files).first)
        guard request.body.count == 3, case .bytes(let head) = request.body[0] else {
            return #expect(request.body == [])
        }
        #expect(
            String(decoding: head, as: UTF8.self)
                == "--abcd\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\nText\r\n--abcd\r\n"
                + "Content-Disposition: form-data; name=\"file_to_send\"; filename=\"input.txt\"\r\n\r\n")
        #expect(request.body[1...] == [.file("./input.txt"), .bytes(Array("\r\n--abcd--".utf8))])
    }

    @Test func savedResponsesInTheFileAreIgnored() throws {
        let text = "GET http://example.com\n\n<> previous-response.200.json\n"
        #expect(try built(text).first?.body == [])
        #expect(try built("GET http://a/\n###\nHTTP/1.1 200 OK\nA: b\n\nbody\n###\nGET http://b/").count == 2)
    }

    @Test func environmentVariablesMayHaveBlanksAround() throws {
        let values = surroundings { $0.given = ["host": "example.com", "element-id": "7"] }
        #expect(
            try built("GET http://{{host}}/api/get?id={{ element-id }}", values).first?.url
                == "http://example.com/api/get?id=7")
    }

    @Test func titlesNameRequests() throws {
        let file = HTTPFileReader.read(
            "### Log in\nGET http://a/\n### \nGET http://b/\n###name\n# @name c\nGET http://c/")
        #expect(file.requests.map(\.title?.text) == ["Log in", nil, "name"])
        #expect(file.requests[0].title?.position == Position(line: 1, column: 5))
        #expect(HTTPFileReader.read("### @name login\nGET http://a/").requests.first?.name?.text == "login")
        #expect(file.requests[2].name == Word(text: "c", position: Position(line: 6, column: 9)))
    }

    @Test func outputsAreRead() throws {
        let requests = try built("GET http://a/\n\n>> a.json\n###\nGET http://b/\n\n>>! out/b.json\n")
        #expect(requests.map(\.output?.path) == ["a.json", "out/b.json"])
        #expect(requests.map(\.output?.replaces) == [false, true])
    }

    // MARK: REST Client's README

    @Test func aQueryOfGraphQLIsJSON() throws {
        let text = """
            POST https://api.github.com/graphql
            X-REQUEST-TYPE: GraphQL

            query one($name: String!) {
              repository(name: $name) { name }
            }

            {
                "name": "vscode-restclient"
            }
            """
        let request = try #require(built(text).first)
        #expect(
            request.bodyText
                == #"{"query":"query one($name: String!) {\n  repository(name: $name) { name }\n}","operationName":"one","variables":{"name":"vscode-restclient"}}"#
        )
        #expect(request.fields.map(\.name) == ["Content-Type"])
        #expect(try built("GRAPHQL https://a/\n\nquery { a }").first?.bodyText == #"{"query":"query { a }"}"#)
    }

    @Test(arguments: ["Basic user:passwd", "Basic dXNlcjpwYXNzd2Q=", "Basic user passwd", "basic {{u}} {{p}}"])
    func threeWaysOfWritingAPasswordAreOne(value: String) throws {
        let values = surroundings { $0.given = ["u": "user", "p": "passwd"] }
        let request = try #require(built("GET https://a/\nAuthorization: \(value)", values).first)
        #expect(request.value(of: "Authorization") == "Basic dXNlcjpwYXNzd2Q=")
        #expect(request.fields[0].isSecret)
    }

    @Test func digestCredentialsAreKeptForAChallenge() throws {
        let request = try #require(built("GET https://a/\nAuthorization: Digest user pass word").first)
        #expect(request.fields.isEmpty)
        #expect(request.digest?.user == "user")
        #expect(request.digest?.password == "pass word")
    }

    @Test func variablesOfTheFileMeanEachOther() throws {
        let text = #"""
            @hostname = api.example.com
            @port = 8080
            @host = {{hostname}}:{{port}}
            @contentType = application/json
            @modifiedBy = {{$processEnv USERNAME}}

            ###

            @name = Strunk & White
            @lines = a\nb

            GET https://{{host}}/authors/{{%name}} HTTP/1.1

            ###

            PATCH https://{{host}}/authors/{{%name}} HTTP/1.1
            Content-Type: {{contentType}}

            {
                "modified_by": "{{modifiedBy}} {{lines}}"
            }
            """#
        let requests = try built(text, surroundings { $0.processEnvironment = ["USERNAME": "ada"] })
        #expect(
            requests.map(\.url)
                == Array(repeating: "https://api.example.com:8080/authors/Strunk%20%26%20White", count: 2))
        #expect(requests[1].value(of: "content-type") == "application/json")
        #expect(requests[1].bodyText == "{\n    \"modified_by\": \"ada a\\nb\"\n}")
    }

    @Test func settingsOfARequestAreRead() {
        let file = HTTPFileReader.read("# @note\n// @no-redirect\n#@no-cookie-jar\nGET http://a/")
        #expect(file.problems.isEmpty)
        #expect(file.requests.first?.followsRedirects == false)
        #expect(file.requests.first?.usesCookieJar == false)
    }

    // MARK: httpyac's documentation

    @Test func requestsNeedNoSeparatorBetweenHeads() throws {
        let text =
            "    GET https://httpbin.org/anything\n    GET https://httpbin.org/a\n    A: b\n    GET https://httpbin.org/c\n"
        #expect(
            try built(text).map(\.url) == [
                "https://httpbin.org/anything", "https://httpbin.org/a", "https://httpbin.org/c",
            ])
    }

    @Test func aFileWithVariablesIsFilledIn() throws {
        let files = surroundings(files: ["./body.json": "{\n \"bar\": \"{{bar}}\"\n}"])
        #expect(
            try built("@bar=bar2\nPOST http://a/post\n\n<@ ./body.json\n      ", files).first?.bodyText
                == "{\n \"bar\": \"bar2\"\n}")
    }

    @Test func namesWithDotsMeanPartsOfAnswers() throws {
        let text = """
            # @name foo
            GET http://a/json

            @slideshow={{foo.response.body.$.slideshow}}
            ###
            # @ref foo
            POST http://a/post?test={{foo.test}}&author={{slideshow.author}}
            """
        let plan = plan(text)
        #expect(plan.problems == [])
        #expect(plan.requests[1].needs == [0])
        let answer = exchange(#"{"test":1,"slideshow":{"author":"httpyac"}}"#)
        let request = try plan.requests[1].build(surroundings()) { _ in answer }
        #expect(request.url == "http://a/post?test=1&author=httpyac")
    }
}
