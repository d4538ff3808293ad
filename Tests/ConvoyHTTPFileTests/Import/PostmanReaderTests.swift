import Convoy
import Testing

@testable import ConvoyHTTPFile

/// Tests the import of Postman collections: what it reads, and what it omits or hides.
@Suite struct PostmanReaderTests {
    /// A collection with one request; in `request`, `'` is a quotation mark.
    private static func imported(
        _ request: String = "{'url': 'http://a/'}", scripts: [String] = [], _ listen: String = "test"
    ) throws -> Imported {
        let events = scripts.map { script in
            let lines = script.split(separator: "\n").map { String($0).jsonQuoted }
            let exec = lines.count == 1 ? lines[0] : "[\(lines.joined(separator: ","))]"
            return "{\"listen\": \"\(listen)\", \"script\": {\"exec\": \(exec)}}"
        }.joined(separator: ",")
        let request = request.replacing("'", with: "\"")
        return try Imported(collection("{\"name\": \"one\", \"request\": \(request), \"event\": [\(events)]}"))
    }

    private static func built(_ request: String) throws -> BuiltRequest {
        try #require(try imported(request).built(files: ["a/b.png": "", "c": "", "./file": ""]).first)
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

    @Test(arguments: [
        ("'https://a.com/{{x}}/b'", "https://a.com/x/b"), ("{'raw': 'a.com/b'}", "http://a.com/b"),
        (
            "{'raw': 'https://a.com/:id/:no?a=1', "
                + "'variable': [{'key': 'id', 'value': '7'}, {'key': 'no', 'value': ''}]}", "https://a.com/7/no?a=1"
        ),
        (
            "{'raw': 'https://a.com/?a=1&b=2', 'query': [{'key': 'a', 'value': '1'}, "
                + "{'key': 'b', 'value': '2', 'disabled': true}, {'key': 'c', 'value': null}]}", "https://a.com/?a=1&c"
        ),
        ("{'protocol': 'https', 'host': ['a', 'com'], 'port': '8', 'path': ['b', ':c']}", "https://a.com:8/b/c"),
        ("'https://a.com/{{my name}}'", "https://a.com/my_name"),
    ]) func urlsAreReadInEachForm(url: String, expected: String) throws {
        #expect(try Self.built("{'url': \(url)}").url == expected)
    }

    @Test(arguments: [
        (
            #"{'mode': 'raw', 'raw': '{\'a\':\r\n1}', 'options': {'raw': {'language': 'json'}}}"#,
            "application/json", "{\"a\":\n1}"
        ), ("{'mode': 'raw', 'raw': 'a'}", "text/plain", "a"),
        (
            "{'mode': 'urlencoded', 'urlencoded': [{'key': 'a b', 'value': '{{v}}&'}, "
                + "{'key': 'c', 'value': 'd', 'disabled': true}]}", "application/x-www-form-urlencoded",
            "a%20b=v%26"
        ),
        (
            #"{'mode': 'graphql', 'graphql': {'query': 'query q { a }\n', 'variables': '{\'b\': 1}'}}"#,
            "application/json", "{\"query\":\"query q { a }\",\"operationName\":\"q\",\"variables\":{\"b\":1}}"
        ), ("{'mode': 'raw', 'raw': 'a', 'disabled': true}", "", ""),
        ("{'mode': 'file', 'file': {'src': 'c'}}", "", "<c>"),
        (
            "{'mode': 'formdata', 'formdata': [{'key': 't', 'value': 'x'}, "
                + "{'key': 'f', 'type': 'file', 'src': ['a/b.png', '']}, {'key': 'g', 'type': 'file', 'src': ''}]}",
            "multipart/form-data; boundary=convoy-parts-of-a-form",
            "\(part)\"t\"\r\n\r\nx\r\n\(part)\"f\"; filename=\"b.png\"\r\n\r\n<a/b.png>\r\n"
                + "\(part)\"g\"; filename=\"file\"\r\n\r\n<./file>\r\n--convoy-parts-of-a-form--"
        ),
    ]) func bodiesAreReadInEachMode(body: String, type: String, expected: String) throws {
        let request = try Self.built("{'method': 'POST', 'url': 'http://a/', 'body': \(body)}")
        #expect(request.value(of: "content-type") ?? "" == type)
        #expect(request.text.hasSuffix(expected.isEmpty ? "http://a/" : "\n\n" + expected))
    }

    private static let part = "--convoy-parts-of-a-form\r\nContent-Disposition: form-data; name="

    @Test func variablesOfTheCollectionAreKeptAndSecretsAreNot() throws {
        let document = collection(
            #"{"request": {"url": "{{base}}/a", "header": "X-K: {{api_key}}\nX-No: {{nothing}}"}}"#,
            ", \"variable\": [{\"key\": \"base\", \"value\": \"https://a.com\"}, {\"key\": \"api_key\", \"value\": \"s3cret\"}, {\"key\": \"nothing\", \"value\": \"\"}]"
        )
        let imported = try Imported(document)
        #expect(imported.text.contains("@base = https://a.com\n"))
        #expect(imported.text.contains("@api_key = {{$processEnv API_KEY}}\n"))
        #expect(!imported.text.contains("s3cret"))
        #expect(imported.file.unsetVariables == ["nothing"])
        #expect(try Imported(document) { $0.keepsSecrets = true }.text.contains("@api_key = s3cret\n"))
    }

    @Test(arguments: [
        ("$processEnv AWS_SECRET", "processEnv_AWS_SECRET"), ("$env.AWS_SECRET", "env.AWS_SECRET"),
        ("$dotenv AWS_SECRET", "dotenv_AWS_SECRET"), ("$processEnv %x", "processEnv__x"),
    ]) func noPlaceholderReadsTheEnvironment(source: String, name: String) throws {
        let imported = try Self.imported("{'url': 'http://a/?x={{\(source)}}'}")
        #expect(imported.text.contains("GET http://a/?x={{\(name)}}\n"))
        #expect(imported.file.requests.first?.notes.count == 1)
        #expect(try Self.imported("{'url': 'http://a/{{$guid}}'}").text.contains("GET http://a/{{$guid}}\n"))
    }

    @Test(arguments: [
        ("basic", "{{k}}", "", "Basic {{k}}:"), ("basic", "", "{{k}}", "Basic :{{k}}"),
        ("basic", "{{k}}", "{{p}}", "Basic {{k}} {{p}}"), ("basic", "{{k}}", "a b", ""),
        ("basic", "a:b{{k}}", "", ""), ("basic", "{{k}}", "hunter2", "Basic {{k}} {{password}}"),
        ("digest", "{{k}}", "", "Digest {{k}}:"),
    ]) func credentialsWithVariablesArePlain(type: String, user: String, password: String, field: String) throws {
        let auth = "{'type': '\(type)', '\(type)': {'username': '\(user)', 'password': '\(password)'}}"
        let imported = try Self.imported("{'url': 'http://a/', 'auth': \(auth)}")
        let request = try #require(imported.file.requests.first)
        #expect(request.request.field("authorization")?.value.source ?? "" == field)
        #expect(request.notes.isEmpty == !field.isEmpty)
        guard field == "Basic {{k}}:" else { return }
        // `c2s6` is the Base64 of `sk:`.
        #expect(try imported.built(["k": "sk"]).first?.value(of: "authorization") == "Basic c2s6")
    }

    @Test(arguments: [
        "{'mode': 'formdata', 'formdata': [{'key': 'a', 'value': 'b'}, {'key': 'password', 'value': 'hunter2'}]}",
        #"{'mode': 'raw', 'raw': '{\'password\': \'hunter2\'}'}"#,
        #"{'mode': 'raw', 'raw': ' [{\'password\':-1234}]'}"#,
        #"{'mode': 'raw', 'raw': '{\'a\': \'{{b}}\', \'tokens\': [\'x\', \'hunter2\']}'}"#,
        #"{'mode': 'graphql', 'graphql': {'query': '{ a }', 'variables': '{\'password\': \'hunter2\'}'}}"#,
        #"{'mode': 'graphql', 'graphql': {'query': 'mutation { login(password: \'hunter2\') }'}}"#,
    ]) func secretsOfBodiesAreVariables(body: String) throws {
        let imported = try Self.imported("{'method': 'POST', 'url': 'http://a/', 'body': \(body)}")
        #expect(!imported.text.contains("hunter2") && !imported.text.contains("1234"))
        #expect(!imported.file.variables.isEmpty && imported.file.variables.allSatisfy(\.isSecret))
        #expect(imported.plan().problems == [])
    }

    @Test func textBesideAPlaceholderIsNotASecret() throws {
        let raw = #"{"note": "the {{a}} \" token: 1", "password": "{{b}}", "name": "ada"}"#
        let imported = try Self.imported(
            "{'method': 'POST', 'url': 'http://a/', 'body': {'mode': 'raw', 'raw': \(raw.jsonQuoted)}}")
        #expect(imported.text.contains(raw))
        #expect(imported.file.variables.isEmpty)
    }

    @Test(arguments: [
        ("https://t0ken@a.com/", "https://{{user}}@a.com/"), ("https://t0ken:@a.com/", "https://{{user}}:@a.com/"),
        ("https://{{u}}:t0ken@a.com/", "https://{{u}}:{{password}}@a.com/"),
    ]) func theUserOfAURLIsAVariable(url: String, expected: String) throws {
        #expect(try Self.imported("{'url': '\(url)'}").text.contains("GET \(expected)\n"))
    }

    @Test(arguments: ["header", "query"]) func theValueOfAnAPIKeyIsASecretUnderEachName(place: String) throws {
        let key = "{'key': 'X-Shop', 'value': 'hunter2', 'in': '\(place)'}"
        let imported = try Self.imported("{'url': 'http://a/?x=1', 'auth': {'type': 'apikey', 'apikey': \(key)}}")
        #expect(!imported.text.contains("hunter2"))
        #expect(imported.file.variables.map(\.name) == ["x_shop"])
    }

    // MARK: Scripts

    @Test func secretsOfScriptsAreOmitted() throws {
        let code = """
            pm.environment.set("password","hunter2");
            pm.environment.set("page", "two");
            pm.foo("Authorization", "Bearer " + btoa('hunter2'));
            """
        for listen in ["test", "prerequest"] {
            let imported = try Self.imported(scripts: [code], listen)
            #expect(!imported.text.contains("hunter2"))
            #expect(imported.text.contains("set(\"password\",\"…\")"))
            #expect(imported.text.contains("set(\"page\", \"two\")"))
            #expect(imported.plan().problems == [])
            guard listen == "prerequest" else { continue }
            #expect(imported.file.requests.first?.handler == [])
            #expect(imported.text.contains("# omitted from its pre-request script: pm.environment.set(\"page\", "))
        }
    }

    @Test func statementsBecomeAHandler() throws {
        let script = """
            // a note
            pm.test("Status code is 200", function () {
                pm.response.to.have.status(200);
                pm.expect(pm.response.responseTime).to.be.below(200);
            });
            var jsonData = JSON.parse(responseBody);
            pm.environment.set("token", jsonData.data.token);
            tests['has id'] = jsonData.id !== undefined
            const x = require('crypto')
            pm.expect(jsonData.name).to.not.eql('x');
            """
        let imported = try Self.imported(scripts: [script])
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
        let left = ["pm.expect(pm.response.responseTime).to.be.below(200);", "const x = require('crypto')"]
        #expect(imported.file.requests.first?.notes == left.map { "omitted from its script: " + $0 })
        #expect(imported.plan().problems == [])
    }

    /// Each nested test needs stack space, so tests that are nested too deeply are not translated.
    private static let nested =
        String(repeating: "pm.test('a', function () { ", count: 70) + String(repeating: "});", count: 70)

    @Test(arguments: [
        (
            ["const a = pm.response.json().a", "pm.environment.set('a', a)", "const b = require('b')"],
            "const a = response.body.a\nclient.global.set('a', a)", 1
        ),
        (
            ["const a = 1; client.log(a); foo(a); const b = a; client.log(b)"],
            "const a = 1;\nclient.log(a);\nconst b = a;\nclient.log(b)", 1
        ), (["const password = 'hunter2'; client.log(password); client.log('x')"], "", 2), ([nested], "", 1),
    ]) func statementsAreKeptWithWhatTheyNeed(scripts: [String], handler: String, notes: Int) throws {
        let request = try #require(Self.imported(scripts: scripts).file.requests.first)
        #expect(request.handler.joined(separator: "\n") == handler)
        #expect(request.notes.count == notes)
    }

    @Test(.timeLimit(.minutes(2))) func manyStatementsAreEachReadOnce() throws {
        let imported = try Self.imported(scripts: [String(repeating: "client.log('abcdef');\n", count: 2_000)])
        #expect(imported.file.requests.first?.handler.count == 2_000)
    }

    /// A login that used a variable that its own test sets would wait for itself.
    @Test func aVariableThatIsSetTooLateIsAnotherOne() throws {
        let items = [("me?t={{t}}", ""), ("register?t={{t}}", "u"), ("login?u={{u}}", "t")].map { url, name in
            let script = name.isEmpty ? "" : "pm.environment.set('\(name)', pm.response.json().\(name))"
            let event = #"{"listen": "test", "script": {"exec": \#(script.jsonQuoted)}}"#
            return #"{"request": {"url": "http://a/\#(url)"}, "event": [\#(event)]}"#
        }
        let imported = try Imported(collection(items.joined(separator: ",")))
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
