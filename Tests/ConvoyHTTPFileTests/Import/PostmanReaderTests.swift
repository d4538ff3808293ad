import Convoy
import Testing

@testable import ConvoyHTTPFile

/// Tests the import of requests from Postman collections.
@Suite struct PostmanReaderTests {
    private static func item(_ request: String, _ more: String = "") -> String {
        "{\"name\": \"one\", \"request\": \(request)\(more)}"
    }

    private static func built(_ request: String, _ more: String = "") throws -> BuiltRequest {
        try #require(try Imported(collection(item(request, more))).built(files: ["a/b.png": "", "c": ""]).first)
    }

    @Test func foldersPassOnTheirCredentialsAndNames() throws {
        let imported = try Imported(
            collection(
                """
                {"name": "Users", "auth": {"type": "bearer", "bearer": [{"key": "token", "value": "{{t}}"}]}, "item": [
                  {"name": "List all", "request": {"method": "GET", "url": "https://a.com/users"}},
                  {"name": "List all", "request": {"auth": {"type": "noauth"}, "url": "https://a.com/open"}},
                  {"name": "v2.0", "request": {"auth": {"type": "basic", "basic": {"username": "u", "password": "p"}},
                    "url": "https://a.com/basic"}}]},
                {"name": "Key", "request": {"url": "https://a.com/key?x=1", "auth": {"type": "apikey", "apikey": [
                  {"key": "key", "value": "api_key"}, {"key": "value", "value": "k"}, {"key": "in", "value": "query"}]}}}
                """, ", \"auth\": {\"type\": \"digest\", \"digest\": {\"username\": \"d\", \"password\": \"e\"}}"))
        let requests = try imported.built(["t": "T"])
        #expect(imported.file.requests.map(\.request.name?.text) == ["list_all", "list_all_2", "v2_0", "key"])
        #expect(imported.text.contains("### Users / List all\n# @name list_all\n"))
        #expect(requests[0].value(of: "authorization") == "Bearer T")
        #expect(requests[1].fields.isEmpty)
        // The password is a variable, and the test uses its name as its value.
        #expect(requests[2].value(of: "authorization") == "Basic dTpwYXNzd29yZA==")
        #expect(requests[3].url == "https://a.com/key?x=1&api_key=api_key")
        #expect(requests[3].digest == nil)
    }

    @Test(
        arguments: [
            ("\"https://a.com/{{x}}/b\"", "https://a.com/x/b"), ("{\"raw\": \"a.com/b\"}", "http://a.com/b"),
            (
                "{\"raw\": \"https://a.com/:id/:no?a=1\", \"variable\": [{\"key\": \"id\", \"value\": \"7\"}, {\"key\": \"no\", \"value\": \"\"}]}",
                "https://a.com/7/no?a=1"
            ),
            (
                "{\"raw\": \"https://a.com/?a=1&b=2\", \"query\": [{\"key\": \"a\", \"value\": \"1\"}, {\"key\": \"b\", \"value\": \"2\", \"disabled\": true}, {\"key\": \"c\", \"value\": null}]}",
                "https://a.com/?a=1&c"
            ),
            (
                "{\"protocol\": \"https\", \"host\": [\"a\", \"com\"], \"port\": \"8443\", \"path\": [\"b\", \":c\"]}",
                "https://a.com:8443/b/c"
            ),
            ("\"https://a.com/{{my name}}\"", "https://a.com/my_name"),
        ])
    func urlsAreReadInEachForm(url: String, expected: String) throws {
        #expect(try Self.built("{\"url\": \(url)}").url == expected)
    }

    @Test(
        arguments: [
            (
                "{\"mode\": \"raw\", \"raw\": \"{\\\"a\\\":\\r\\n1}\", \"options\": {\"raw\": {\"language\": \"json\"}}}",
                "application/json", "{\"a\":\n1}"
            ), ("{\"mode\": \"raw\", \"raw\": \"a\"}", "text/plain", "a"),
            (
                "{\"mode\": \"urlencoded\", \"urlencoded\": [{\"key\": \"a b\", \"value\": \"{{v}}&\"}, {\"key\": \"c\", \"value\": \"d\", \"disabled\": true}]}",
                "application/x-www-form-urlencoded", "a%20b=v%26"
            ),
            (
                "{\"mode\": \"graphql\", \"graphql\": {\"query\": \"query q { a }\\n\", \"variables\": \"{\\\"b\\\": 1}\"}}",
                "application/json", "{\"query\":\"query q { a }\",\"operationName\":\"q\",\"variables\":{\"b\":1}}"
            ),
            ("{\"mode\": \"raw\", \"raw\": \"a\", \"disabled\": true}", nil, ""),
        ] as [(String, String?, String)])
    func bodiesAreReadInEachMode(body: String, type: String?, expected: String) throws {
        let request = try Self.built("{\"method\": \"POST\", \"url\": \"http://a/\", \"body\": \(body)}")
        #expect(request.value(of: "content-type") == type)
        #expect(request.bodyText == expected)
    }

    @Test func filesOfFormsAreReferredTo() throws {
        let form = try Self.built(
            """
            {"method": "POST", "url": "http://a/", "header": [{"key": "Content-Type", "value": "multipart/form-data"}],
              "body": {"mode": "formdata", "formdata": [{"key": "t", "value": "x"}, {"key": "f", "type": "file", "src": ["a/b.png", ""]}]}}
            """)
        #expect(form.body.count == 3)
        #expect(form.body[1] == .file("a/b.png"))
        let nameless = try Imported(
            collection(
                Self.item(
                    """
                    {"method": "POST", "url": "http://a/", "body": {"mode": "formdata", "formdata": [
                      {"key": "f", "type": "file", "src": ""}]}}
                    """)))
        #expect(nameless.file.bodyFiles == ["./file"])
        let file = try Self.built(
            "{\"method\": \"PUT\", \"url\": \"http://a/\", \"body\": {\"mode\": \"file\", \"file\": {\"src\": \"c\"}}}")
        #expect(file.body == [.file("c")])
    }

    @Test func variablesOfTheCollectionAreKeptAndSecretsAreNot() throws {
        let document = collection(
            Self.item("{\"url\": \"{{base}}/a\", \"header\": \"X-K: {{api_key}}\\nX-No: {{nothing}}\"}"),
            ", \"variable\": [{\"key\": \"base\", \"value\": \"https://a.com\"}, {\"key\": \"api_key\", \"value\": \"s3cret\"}, {\"key\": \"nothing\", \"value\": \"\"}]"
        )
        let imported = try Imported(document)
        #expect(imported.text.contains("@base = https://a.com\n"))
        #expect(imported.text.contains("@api_key = {{$processEnv API_KEY}}\n"))
        #expect(!imported.text.contains("s3cret"))
        #expect(imported.file.unsetVariables == ["nothing"])
        #expect(try Imported(document) { $0.keepsSecrets = true }.text.contains("@api_key = s3cret\n"))
    }

    // MARK: Scripts

    private static func script(_ lines: [String], _ listen: String = "test") throws -> Imported {
        let exec = lines.map { $0.jsonQuoted }.joined(separator: ",")
        return try Imported(
            collection(
                item(
                    "{\"url\": \"http://a/\"}",
                    ", \"event\": [{\"listen\": \"\(listen)\", \"script\": {\"exec\": [\(exec)]}}]")))
    }

    @Test func statementsBecomeAHandler() throws {
        let imported = try Self.script([
            "// a note", "pm.test(\"Status code is 200\", function () {", "    pm.response.to.have.status(200);",
            "    pm.expect(pm.response.responseTime).to.be.below(200);", "});",
            "var jsonData = JSON.parse(responseBody);", "pm.environment.set(\"token\", jsonData.data.token);",
            "tests['has id'] = jsonData.id !== undefined", "const x = require('crypto')",
            "pm.expect(jsonData.name).to.not.eql('x');",
        ])
        let handler = try #require(imported.file.requests.first).handler.joined(separator: "\n")
        #expect(
            handler == """
                client.test("Status code is 200", function() {
                    client.assert(response.status === 200);
                });
                var jsonData = response.body;
                client.global.set("token", jsonData.data.token);
                client.test('has id', function() { client.assert(jsonData.id !== undefined); });
                client.assert(!(jsonData.name === 'x'));
                """)
        #expect(
            imported.file.requests.first?.notes
                == [
                    "omitted from its script: const x = require('crypto')",
                    "omitted from its script: pm.expect(pm.response.responseTime).to.be.below(200);",
                ].reversed())
        #expect(imported.plan().problems == [])
    }

    @Test func severalScriptsBecomeOneHandler() throws {
        let events = ["const a = pm.response.json().a", "pm.environment.set('a', a)", "const b = require('b')"].map {
            "{\"listen\": \"test\", \"script\": {\"exec\": \($0.jsonQuoted)}}"
        }
        let imported = try Imported(
            collection(Self.item("{\"url\": \"http://a/\"}", ", \"event\": [\(events.joined(separator: ","))]")))
        let request = try #require(imported.file.requests.first)
        #expect(request.handler == ["const a = response.body.a", "client.global.set('a', a)"])
        #expect(request.notes == ["omitted from its script: const b = require('b')"])
    }

    @Test func aScriptBeforeARequestIsACommentOnly() throws {
        let imported = try Self.script(["pm.environment.set('x', Date.now())"], "prerequest")
        #expect(imported.text.contains("# omitted from its pre-request script: pm.environment.set('x', Date.now())\n"))
        #expect(imported.file.requests.first?.handler == [])
    }

    /// A login that used a variable that its own test sets would wait for itself.
    @Test func aVariableThatIsSetTooLateIsAnotherOne() throws {
        func item(_ name: String, _ url: String, _ script: String = "") -> String {
            "{\"name\": \"\(name)\", \"request\": {\"url\": \"\(url)\"}, \"event\": [{\"listen\": \"test\", \"script\": {\"exec\": \(script.jsonQuoted)}}]}"
        }
        let imported = try Imported(
            collection(
                [
                    item("me", "http://a/me?t={{t}}"),
                    item("register", "http://a/register?t={{t}}", "pm.environment.set('u', pm.response.json().u)"),
                    item("login", "http://a/login?u={{u}}", "pm.environment.set('t', pm.response.json().t)"),
                ].joined(separator: ",")))
        let plan = imported.plan()
        #expect(plan.problems == [])
        #expect(imported.file.unsetVariables == ["t_before"])
        #expect(imported.text.contains("http://a/register?t={{t_before}}"))
        #expect(imported.text.contains("http://a/me?t={{t}}"))
    }

    /// Every request uses two variables of the previous request, and sets its own variables too late.
    ///
    /// A search of the complete file for each variable would take minutes.
    @Test(.timeLimit(.minutes(2))) func manyVariablesThatAreSetTooLateAreFound() {
        let count = LongRuns.count(4_000, long: 20_000)
        var file = ImportedFile()
        for index in 0..<count {
            var request = ImportedRequest(FileRequest(position: .start))
            request.request.target = Template("http://a/")
            for name in ["shared", "v\(index - 1)", "v\(index)"] {
                request.request.target.append(Template(placeholder: name))
            }
            request.handler = ["client.global.set(\"v\(index)\", 1);", "client.global.set(\"shared\", 1);"]
            file.requests.append(request)
        }
        file.requests[0].request.target.append(Template(placeholder: "v\(count - 1)"))
        file.breakCycles()
        let targets = file.requests.map(\.request.target.source)
        #expect(targets[0] == "http://a/{{shared_before}}{{v-1}}{{v0}}{{v\(count - 1)_before}}")
        #expect(targets[1] == "http://a/{{shared}}{{v0}}{{v1}}")
        #expect(targets.last == "http://a/{{shared}}{{v\(count - 2)}}{{v\(count - 1)}}")
    }
}
