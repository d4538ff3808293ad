import Testing

@testable import ConvoyHTTPFile

/// Tests limits on foreign collections, and the parts that the import omits.
@Suite struct ForeignCollectionTests {
    private static func imported(_ request: String, _ more: String = "") throws -> Imported {
        try Imported(collection("{\"name\": \"one\", \"request\": \(request)\(more)}"))
    }

    private static func script(_ code: String, _ listen: String = "test") -> String {
        ", \"event\": [{\"listen\": \"\(listen)\", \"script\": {\"exec\": \(code.jsonQuoted)}}]"
    }

    @Test(arguments: [
        ("$processEnv AWS_SECRET", "processEnv_AWS_SECRET"), ("$env.AWS_SECRET", "env.AWS_SECRET"),
        ("$dotenv AWS_SECRET", "dotenv_AWS_SECRET"), ("$processEnv %x", "processEnv__x"),
    ]) func noPlaceholderReadsTheEnvironment(source: String, name: String) throws {
        let imported = try Self.imported("{\"url\": \"http://a/?x={{\(source)}}\"}")
        #expect(imported.text.contains("GET http://a/?x={{\(name)}}\n"))
        #expect(imported.file.requests.first?.notes.count == 1)
        #expect(try Self.imported("{\"url\": \"http://a/{{$guid}}\"}").text.contains("GET http://a/{{$guid}}\n"))
    }

    @Test(
        arguments: [
            ("basic", "{{k}}", "", "Basic {{k}}:"), ("basic", "", "{{k}}", "Basic :{{k}}"),
            ("basic", "{{k}}", "{{p}}", "Basic {{k}} {{p}}"), ("basic", "{{k}}", "a b", nil),
            ("basic", "a:b{{k}}", "", nil), ("basic", "{{k}}", "hunter2", "Basic {{k}} {{password}}"),
            ("digest", "{{k}}", "", "Digest {{k}}:"),
        ] as [(String, String, String, String?)])
    func credentialsWithVariablesAreWrittenInPlainForm(
        type: String, user: String, password: String, field: String?
    ) throws {
        let imported = try Self.imported(
            "{\"url\": \"http://a/\", \"auth\": {\"type\": \"\(type)\", \"\(type)\": {\"username\": \"\(user)\", \"password\": \"\(password)\"}}}"
        )
        let request = try #require(imported.file.requests.first)
        #expect(request.request.field("authorization")?.value.source == field)
        #expect(request.notes.isEmpty == (field != nil))
    }

    @Test func anEmptyPasswordIsSentAsOne() throws {
        let imported = try Self.imported(
            "{\"url\": \"http://a/\", \"auth\": {\"type\": \"basic\", \"basic\": {\"username\": \"{{k}}\"}}}")
        // `c2s6` is the Base64 of `sk:`.
        #expect(try imported.built(["k": "sk"]).first?.value(of: "authorization") == "Basic c2s6")
    }

    private static let bodies = [
        "{\"mode\": \"formdata\", \"formdata\": [{\"key\": \"a\", \"value\": \"b\"}, {\"key\": \"password\", \"value\": \"hunter2\"}]}",
        "{\"mode\": \"raw\", \"raw\": \"{\\\"password\\\": \\\"hunter2\\\"}\"}",
        "{\"mode\": \"raw\", \"raw\": \" [{\\\"password\\\":hunter2}]\"}".replacing("hunter2", with: "-1234"),
        "{\"mode\": \"raw\", \"raw\": \"{\\\"a\\\": \\\"{{b}}\\\", \\\"tokens\\\": [\\\"x\\\", \\\"hunter2\\\"]}\"}",
        "{\"mode\": \"graphql\", \"graphql\": {\"query\": \"{ a }\", \"variables\": \"{\\\"password\\\": \\\"hunter2\\\"}\"}}",
        "{\"mode\": \"graphql\", \"graphql\": {\"query\": \"mutation { login(password: \\\"hunter2\\\") }\"}}",
    ]

    @Test(arguments: bodies) func secretsOfBodiesAreVariables(body: String) throws {
        let imported = try Self.imported("{\"method\": \"POST\", \"url\": \"http://a/\", \"body\": \(body)}")
        #expect(!imported.text.contains("hunter2"))
        #expect(!imported.text.contains("1234"))
        #expect(imported.file.variables.filter { !$0.isSecret }.isEmpty)
        #expect(!imported.file.variables.isEmpty)
        #expect(imported.plan().problems == [])
    }

    @Test func textBesideAPlaceholderIsNotASecret() throws {
        let raw = #"{"note": "the {{a}} \" token: 1", "password": "{{b}}", "name": "ada"}"#
        let imported = try Self.imported(
            "{\"method\": \"POST\", \"url\": \"http://a/\", \"body\": {\"mode\": \"raw\", \"raw\": \(raw.jsonQuoted)}}")
        #expect(imported.text.contains(raw))
        #expect(imported.file.variables.isEmpty)
    }

    @Test(arguments: [
        ("https://t0ken@a.com/", "https://{{user}}@a.com/"), ("https://t0ken:@a.com/", "https://{{user}}:@a.com/"),
        ("https://{{u}}:t0ken@a.com/", "https://{{u}}:{{password}}@a.com/"),
    ]) func theUserOfAURLIsAVariable(url: String, expected: String) throws {
        #expect(try Self.imported("{\"url\": \"\(url)\"}").text.contains("GET \(expected)\n"))
    }

    @Test(arguments: ["header", "query"]) func theValueOfAnAPIKeyIsASecretUnderEachName(place: String) throws {
        let imported = try Self.imported(
            "{\"url\": \"http://a/?x=1\", \"auth\": {\"type\": \"apikey\", \"apikey\": {\"key\": \"X-Shop\", \"value\": \"hunter2\", \"in\": \"\(place)\"}}}"
        )
        #expect(!imported.text.contains("hunter2"))
        #expect(imported.file.variables.map(\.name) == ["x_shop"])
    }

    @Test func secretsOfScriptsAreOmitted() throws {
        let code = """
            pm.environment.set("password","hunter2");
            pm.environment.set("page", "two");
            pm.foo("Authorization", "Bearer " + btoa('hunter2'));
            """
        for listen in ["test", "prerequest"] {
            let imported = try Self.imported("{\"url\": \"http://a/\"}", Self.script(code, listen))
            #expect(!imported.text.contains("hunter2"))
            #expect(imported.text.contains("set(\"password\",\"…\")"))
            #expect(imported.text.contains("set(\"page\", \"two\")"))
            #expect(imported.plan().problems == [])
        }
    }

    @Test func aHandlerThatNeedsAnOmittedStatementIsOmitted() throws {
        let code = "const password = 'hunter2'; client.log(password); client.log('x')"
        let imported = try Self.imported("{\"url\": \"http://a/\"}", Self.script(code))
        #expect(imported.file.requests.first?.handler == [])
        #expect(imported.file.requests.first?.notes.count == 2)
    }

    // MARK: Scripts

    /// Each nested test needs stack space, so tests that are nested too deeply are not translated.
    @Test func deepTestsAreNotTranslated() throws {
        func nested(_ depth: Int) -> String {
            String(repeating: "pm.test('a', function () { ", count: depth) + "client.log(1); "
                + String(repeating: "});", count: depth)
        }
        let imported = try Self.imported("{\"url\": \"http://a/\"}", Self.script(nested(70)))
        #expect(imported.file.requests.first?.handler == [])
        #expect(imported.file.requests.first?.notes.count == 1)
    }

    @Test func aStatementMayUseTheNamesOfKeptOnes() throws {
        let code = "const a = 1; client.log(a); foo(a); const b = a; client.log(b)"
        let handler = try Self.imported("{\"url\": \"http://a/\"}", Self.script(code)).file.requests.first?.handler
        #expect(handler == ["const a = 1;", "client.log(a);", "const b = a;", "client.log(b)"])
    }

    @Test(.timeLimit(.minutes(2))) func manyStatementsAreEachReadOnce() throws {
        let code = String(repeating: "client.log('abcdef');\n", count: 2_000)
        let imported = try Self.imported("{\"url\": \"http://a/\"}", Self.script(code))
        #expect(imported.file.requests.first?.handler.count == 2_000)
    }

    // MARK: Forms

    @Test func noPartContainsTheBoundary() throws {
        let texts = ["--convoy-parts-of-a-form--", "convoy-parts-of-a-form-2", "convoy-parts-of-a-form-31"]
        let fields = texts.map { "{\"key\": \"a\", \"value\": \"\($0)\"}" }.joined(separator: ", ")
        let imported = try Self.imported(
            "{\"method\": \"POST\", \"url\": \"http://a/\", \"body\": {\"mode\": \"formdata\", \"formdata\": [\(fields)]}}"
        )
        let request = try #require(try imported.built().first)
        #expect(request.value(of: "content-type") == "multipart/form-data; boundary=convoy-parts-of-a-form-4")
        #expect(request.bodyText.ranges(of: "--convoy-parts-of-a-form-4").count == 4)
    }
}
