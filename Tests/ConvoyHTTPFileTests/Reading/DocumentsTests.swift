import Testing

@testable import ConvoyHTTPFile

/// Tests the examples in the documentation of JetBrains, REST Client and httpyac.
@Suite struct DocumentsTests {
    @Test(arguments: heads + bodies + clients) func theRequestsOfAFileAreThoseOfItsDocument(
        text: String, requests: [String]
    ) throws {
        let files = ["./input.txt": "\nmessage-body\n", "./body.json": "{\n \"bar\": \"{{bar}}\"\n}"]
        let values = surroundings(
            { $0.given = ["hostname": "example.com", "element-id": "7", "u": "user", "p": "passwd"] }, files: files)
        #expect(try built(text, values).map(\.text) == requests)
    }

    @Test(arguments: [
        "http://example.com", "GET http://example.com", "GET http://example.com HTTP/1.1", "get http://example.com",
        "GET  http://example.com   HTTP/2 (Prior Knowledge)", "example.com", "GET example.com",
    ]) func methodSchemeAndVersionAreOptional(line: String) throws {
        #expect(try built(line).map(\.text) == ["GET http://example.com"])
    }

    private static let heads: [(String, [String])] = [
        // JetBrains' specification.
        (
            "###\nGET http://example.com\n###\nGET http://example.com/b\n###\n",
            ["GET http://example.com", "GET http://example.com/b"]
        ),
        (
            "# one\n// two\nPOST http://example.com/add\n# three\nA: b\n// four\n\n  # five\nbody\n",
            ["POST http://example.com/add\nA: b\n\nbody"]
        ),
        (
            "/* of one line */\n/*\n * GET http://h/no\n */\nGET http://h/1\n/* a\n   b */\nA: b\n\n"
                + "/* POST http://h/no */\n###\nPOST http://h/2\n\n{\"a\": \"/* kept */\"}",
            ["GET http://h/1\nA: b", "POST http://h/2\n\n{\"a\": \"/* kept */\"}"]
        ), ("http://example.com/\n    api\n    /get", ["GET http://example.com/api/get"]),
        ("GET http://example.com/\n    api\n    /get\nA: b", ["GET http://example.com/api/get\nA: b"]),
        ("http://example.com/\n    %20api%20\n    +/get+", ["GET http://example.com/%20api%20+/get+"]),
        (
            "GET http://example.com/api/get\n  ?id=42\n  # why\n  &b=ä c",
            ["GET http://example.com/api/get?id=42&b=%C3%A4%20c"]
        ), ("GET https://h/comments\n?page=2\n&pageSize=10", ["GET https://h/comments?page=2&pageSize=10"]),
        ("http://h/100%/%20%zz", ["GET http://h/100%25/%20%25zz"]),
        ("http://exämple.com/ä", ["GET http://xn--exmple-cua.com/%C3%A4"]), ("http://[::1]", ["GET http://[::1]"]),
        ("http://127.0.0.1:8080", ["GET http://127.0.0.1:8080"]),
        ("GET /api/get\nHost: example.com", ["GET http://example.com/api/get"]),
        ("GET /api/get\nHost: example.com:8443", ["GET https://example.com:8443/api/get"]),
        ("GET /api\nhost: https://example.com/", ["GET https://example.com/api"]),
        ("@host=http://localhost\nGET /json", ["GET http://localhost/json"]),
        (
            "GET http://a/\nAccept: text/html,\n    text/plain\nFrom: user@example.com",
            ["GET http://a/\nAccept: text/html, text/plain\nFrom: user@example.com"]
        ),
        ("GET http://{{hostname}}/api/get?id={{ element-id }}", ["GET http://example.com/api/get?id=7"]),
        ("GET http://example.com\n\n<> previous-response.200.json\n", ["GET http://example.com"]),
        ("GET http://a/\n###\nHTTP/1.1 200 OK\nA: b\n\nbody\n###\nGET http://b/", ["GET http://a/", "GET http://b/"]),
    ]

    private static let form = "POST https://a/\nContent-Type: application/x-www-form-urlencoded\n\n"

    private static let bodies: [(String, [String])] = [
        ("###\nPOST http://a/\n\n\nmessage-body\n\n###\n", ["POST http://a/\n\nmessage-body"]),
        (form + "name=foo\n&password=bar", [form + "name=foo&password=bar"]),
        (form + "key1 = a b &\nkey2 = ü &\n", [form + "key1=a%20b&key2=%C3%BC"]),
        (
            "POST http://a/post\ncontent-type: application/json\n{\n  \"foo\": 1\n}\n    ",
            ["POST http://a/post\ncontent-type: application/json\n\n{\n  \"foo\": 1\n}"]
        ), ("POST http://a/\n\n<div>\\{\\{title\\}\\}</div>", ["POST http://a/\n\n<div>{{title}}</div>"]),
        (
            "POST http://h/\n\n{\"a\": 1}\n\n> {% client.log(1) %}\n\n### next\nGET http://h/",
            ["POST http://h/\n\n{\"a\": 1}", "GET http://h/"]
        ), ("POST http://example.com/add\n\n< ./input.txt\n###", ["POST http://example.com/add\n\n<./input.txt>"]),
    ]

    private static let clients: [(String, [String])] = [
        // REST Client's README.
        (
            "POST https://h/\nX-REQUEST-TYPE: GraphQL\n\nquery one($n: String!) {\n  a(n: $n)\n}\n\n{\n  \"n\": \"b\"\n}",
            [
                "POST https://h/\nContent-Type: application/json\n\n"
                    + #"{"query":"query one($n: String!) {\n  a(n: $n)\n}","operationName":"one","variables":{"n":"b"}}"#
            ]
        ),
        (
            "GRAPHQL https://a/\n\nquery { a }",
            ["POST https://a/\nContent-Type: application/json\n\n{\"query\":\"query { a }\"}"]
        ),
        // A fragment before a query is part of it.
        (
            "GRAPHQL http://h/\n\nfragment F on User { name }\n\n{\n  user { ...F }\n}\n\n{\n  \"id\": 1\n}",
            [
                "POST http://h/\nContent-Type: application/json\n\n"
                    + #"{"query":"fragment F on User { name }\n\n{\n  user { ...F }\n}","variables":{"id":1}}"#
            ]
        ),
        // httpyac's documentation.
        (
            "    GET https://h/anything\n    GET https://h/a\n    A: b\n    GET https://h/c\n",
            ["GET https://h/anything", "GET https://h/a\nA: b", "GET https://h/c"]
        ),
        ("@bar=bar2\nPOST http://a/post\n\n<@ ./body.json\n      ", ["POST http://a/post\n\n{\n \"bar\": \"bar2\"\n}"]),
    ]

    @Test(arguments: ["Basic user:passwd", "Basic dXNlcjpwYXNzd2Q=", "Basic user passwd", "basic {{u}} {{p}}"])
    func threeWaysOfWritingAPasswordAreOne(value: String) throws {
        let values = surroundings { $0.given = ["u": "user", "p": "passwd"] }
        let request = try builtLast("GET https://a/\nAuthorization: \(value)", values)
        #expect(request.fields.map(\.value) == ["Basic dXNlcjpwYXNzd2Q="] && request.fields[0].isSecret)
    }

    @Test func digestCredentialsAreKeptForAChallenge() throws {
        let request = try builtLast("GET https://a/\nAuthorization: Digest user pass word")
        #expect(request.fields.isEmpty && request.digest?.user == "user" && request.digest?.password == "pass word")
    }

    @Test(
        arguments: [
            ("### Log in", nil, "Log in", 5), ("### ", nil, nil, 0), ("###name", nil, "name", 4),
            ("### @name login", "login", nil, 11), ("# @name login", "login", nil, 9),
            ("# @name = login", "login", nil, 11), ("# @name Get all users", nil, "Get all users", 9),
            ("# @name =  Get all", nil, "Get all", 12), ("#@name login", "login", nil, 8),
            ("// @note\n// @name login", "login", nil, 10),
        ] as [(String, String?, String?, Int)])
    func aRequestHasANameOrATitle(line: String, name: String?, title: String?, column: Int) {
        let file = HTTPFileReader.read(line + "\nGET http://a/")
        #expect(file.problems == [] && file.requests.count == 1)
        #expect(file.requests.first?.name?.text == name && file.requests.first?.title?.text == title)
        #expect((file.requests.first?.name ?? file.requests.first?.title)?.position.column ?? 0 == column)
    }

    @Test func variablesOfTheFileMeanEachOther() throws {
        let text = #"""
            @host = {{$processEnv NAME}}:{{port}}
            @port = 8080
            @name = Strunk & White
            @lines = a\nb

            PATCH https://{{host}}/authors/{{%name}} HTTP/1.1

            {{lines}}
            """#
        #expect(
            try builtLast(text, surroundings { $0.processEnvironment = ["NAME": "example.com"] }).text
                == "PATCH https://example.com:8080/authors/Strunk%20%26%20White\n\na\nb")
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
