import Convoy
import Testing

@testable import ConvoyHTTPFile

/// Tests that a value stays a value in a body.
@Suite struct BodyTextTests {
    private let columns = surroundings { $0.columns = ["v", "w"] }

    private func body(_ text: String, _ row: [String: String]) throws -> String {
        try builtLast("POST http://h/\n" + text, columns, row: row).bodyText
    }

    private static let hostile = #"x", "role": "admin", "y": ""#
    private static let escaped = #"x\", \"role\": \"admin\", \"y\": \""#

    @Test(arguments: [
        "Content-Type: application/json", "content-type: APPLICATION/JSON; charset=utf-8",
        "Content-Type: application/vnd.api+json", "Content-Type: application/problem+json; a=b",
        "Content-Type: text/json", "Content-Type: application/x-amz-json-1.1", "Content-Type: application/x-ndjson",
        "Content-Type: {{type}}", "", "Content-Type: application/json-patch+json",
    ]) func aValueInQuotesAddsNoMember(field: String) throws {
        let head = field.isEmpty ? "" : field + "\n"
        let text = "@type = application/json\nPOST http://h/\n\(head)\n{\"name\": \"{{v}}\", \"role\": \"user\"}"
        let sent = try builtLast(text, columns, row: ["v": Self.hostile]).bodyText
        #expect(sent == "{\"name\": \"\(Self.escaped)\", \"role\": \"user\"}" + (field.hasSuffix("ndjson") ? "\n" : ""))
    }

    @Test(arguments: [
        "5\" pipe", "a\\", "a\\\"", "line\nend\r\n\t", "\u{1}\u{0}", "ünïcödé 😀", "\u{301}x", "{{$uuid}}", "",
        "'</script>",
    ]) func aValueInQuotesIsTheSameAtTheServer(value: String) throws {
        let head = "Content-Type: application/json\n\n"
        let text = try body(head + #"{"a": "<{{v}}>", "b": ["{{v}}", "C:\{{w}}"]}"#, ["v": value, "w": "n\""])
        let json = try #require(JSONValue(json: text.utf8))
        #expect(json["a"]?.text.utf8.elementsEqual("<\(value)>".utf8) == true)
        guard case .array(let list)? = json["b"] else { return #expect(Bool(false)) }
        #expect(list[0].text.utf8.elementsEqual(value.utf8))
        #expect(list[1] == "C:\\n\"")
    }

    /// Every source of a value is escaped: a row, a response, a handler, the file, environments and `--variable`.
    @Test(arguments: [
        "v", "a.response.body.$.x", "a.response.headers.X", "set", "inFile", "throughFile", "inEnvironment",
        "$shared both", "given", "$processEnv P", "$dotenv D", "prompted",
    ]) func aValueOfAnySourceIsEscaped(source: String) throws {
        let value = Self.hostile
        let quoted = value.jsonQuoted
        let surroundings = surroundings {
            $0.columns = ["v"]
            $0.given = ["given": value, "prompted": value]
            ($0.processEnvironment, $0.dotEnvironment, $0.environmentName) = (["P": value], ["D": value], "e")
            let json = "{\"e\": {\"inEnvironment\": \(quoted)}, \"$shared\": {\"both\": \(quoted)}}"
            $0.environments.add(Array(json.utf8), file: "e.json", isSecret: true)
        }
        let text = """
            @inFile = \(value)
            @throughFile = {{a.response.body.$.x}}
            # @name a
            GET http://h/
            > {%
                client.global.set("set", response.body.x);
            %}
            ###
            # @prompt prompted
            POST http://h/
            Content-Type: application/json

            {"name": "{{\(source)}}"}
            """
        var answer = exchange("{\"x\": \(quoted)}", fields: ["X": value])
        answer.globals = ["set": .string(value)]
        let request = try builtLast(text, surroundings, row: ["v": value], answer: answer)
        #expect(request.bodyText == "{\"name\": \"\(Self.escaped)\"}")
    }

    @Test(arguments: [
        ("{{v}}", "5"), ("{{v}}", "-2.50e3"), ("{{v}}", "true"), ("{{v}}", "null"), ("{{v}}", #""a \" b""#),
        ("{{v}}", #"{"b": [1, "}"]}"#), ("{{v}}", " [1] "), ("-{{v}}", "5"), ("1{{v}}.5", "0"),
    ]) func jsonOutsideOfQuotesIsUnchanged(template: String, value: String) throws {
        let head = "Content-Type: application/json\n\n"
        #expect(
            try body(head + "{\"a\": \(template)}", ["v": value])
                == "{\"a\": \(template.replacing("{{v}}", with: value))}")
    }

    @Test(arguments: [
        "x", "", "1, \"role\": 2", "1}", "\"a\", \"b\"", "{\"a\": 1", "01", "True", "[1],[2]", "\"", "1 // x",
    ]) func otherTextOutsideOfQuotesIsRefused(value: String) throws {
        for head in [
            "", "Content-Type: application/json\n", "Content-Type: a/b+json\n", "Content-Type: application/x-ndjson\n",
        ] {
            let failure = #expect(throws: Defect.self) { try body(head + "\n{\"a\": {{v}}}", ["v": value]) }
            #expect(failure?.what == "the value of {{v}} stands outside of quotes, and is not JSON")
            #expect(failure?.advice == "write \"{{v}}\" for a text, or {{&v}} to insert it unchanged")
        }
        let text = "Content-Type: application/json\n\n{\"a\": {{&v}}}"
        #expect(try body(text, ["v": value]) == "{\"a\": \(value)}")
    }

    @Test func valuesWithinAValueAreEscapedToo() throws {
        let text = """
            @user = {"name": "{{v}}", "role": "user"}
            POST http://h/
            Content-Type: application/json

            """
        let built = { (body: String) in
            try builtLast(text + "\n" + body, columns, row: ["v": Self.hostile]).bodyText
        }
        let user = "{\"name\": \"\(Self.escaped)\", \"role\": \"user\"}"
        #expect(try built("{{user}}") == user)
        #expect(try built("{\"user\": {{user}}}") == "{\"user\": \(user)}")
        #expect(try built("{\"user\": {{user}}, \"n\": {{v}}}".replacing("{{v}}", with: "1")).contains(user))
    }

    /// A value has a body of its own, so nothing surrounds it.
    @Test(arguments: [
        "application/json", "text/xml", "application/x-ndjson", "text/plain", "application/x-www-form-urlencoded",
    ]) func aBodyOfOneValueIsTheValue(type: String) throws {
        for value in ["{\"a\":\n1}\n{}", "<a b='c'>&amp;</a>", "not json", ""] {
            let end = type.contains("ndjson") ? "\n" : ""
            if !type.contains("form") {
                #expect(try body("Content-Type: \(type)\n\n{{v}}", ["v": value]) == value + end)
            }
        }
        #expect(try body("Content-Type: \(type)\n\n{{v}}", ["v": "a=1&b=2"]).hasPrefix("a=1&b=2"))
    }

    @Test(arguments: [
        ("<a>{{v}}</a>", "x</a><b>&", "<a>x&lt;/a&gt;&lt;b&gt;&amp;</a>"),
        ("<a b=\"{{v}}\"/>", "x\" c=\"y\n", "<a b=\"x&quot; c=&quot;y&#10;\"/>"),
        ("<a b='{{v}}'/>", "x' c='y\t", "<a b='x&apos; c=&apos;y&#9;'/>"),
        ("<a b=\">\">{{v}}</a>", "\n<", "<a b=\">\">\n&lt;</a>"),
        ("<a><!-- {{v}} --></a>", "--><b/>", "<a><!-- --&gt;&lt;b/&gt; --></a>"),
        ("<a><![CDATA[{{v}}]]></a>", "x<y&z", "<a><![CDATA[x<y&z]]></a>"),
        ("<a><![CDATA[{{v}}>]]></a>", "x]]", "<a><![CDATA[]]>x]]<![CDATA[>]]></a>"),
        ("<a><![CDATA[1]]>{{v}}</a>", "<", "<a><![CDATA[1]]>&lt;</a>"),
        ("<?xml version=\"1.0\"?><a>{{v}}</a>", "\r\"", "<?xml version=\"1.0\"?><a>&#13;&quot;</a>"),
        ("<a>{{&v}}</a>", "<b/>", "<a><b/></a>"),
    ]) func aValueAddsNoElement(template: String, value: String, expected: String) throws {
        for head in ["", "Content-Type: text/xml\n", "Content-Type: application/soap+xml; charset=utf-8\n"] {
            #expect(try body(head + "\n" + template, ["v": value]) == expected)
        }
    }

    @Test(arguments: [
        ("name={{v}}&role=user", "x&role=admin", "name=x%26role%3Dadmin&role=user"),
        ("a={{v}}", "1+1=2 %", "a=1%2B1%3D2%20%25"), ("{{v}}=1&b=2", "a=b&c", "a%3Db%26c=1&b=2"),
        ("a={{&v}}&b=2", "1&c=3", "a=1&c=3&b=2"), ("a={{%v}}&b=2", "&", "a=%26&b=2"),
        ("a={{given}}&b=2", "", "a=p%26q%3Dr&b=2"), ("a={{inFile}}&b=2", "", "a=p%26q%3Dr&b=2"),
        ("a=1&\nb={{v}}", "ü\n", "a=1&b=%C3%BC%0A"),
    ]) func aValueAddsNoFieldOfAForm(template: String, value: String, expected: String) throws {
        let surroundings = surroundings {
            $0.columns = ["v"]
            $0.given = ["given": "p&q=r"]
        }
        for type in ["application/x-www-form-urlencoded", "application/x-www-form-urlencoded; charset=UTF-8"] {
            let text = "@inFile = p&q=r\nPOST http://h/\nContent-Type: \(type)\n\n" + template
            #expect(try builtLast(text, surroundings, row: ["v": value]).bodyText == expected)
        }
    }

    @Test func valuesInPartsFollowTheTypesOfTheParts() throws {
        let text = """
            Content-Type: multipart/form-data; boundary=abcd

            --abcd
            Content-Disposition: form-data; name="{{v}}"; filename="{{v}}.txt"

            {{v}}
            --abcd
            Content-Disposition: form-data; name="json"
            Content-Type: application/json; charset=utf-8

            {"a": "{{v}}", "b": {{w}}}
            --abcd
            Content-Disposition: form-data; name="plain"

            "{{v}}"
            --abcd--
            """
        let value = "x\"\r\ny"
        let sent = try body(text, ["v": value, "w": "7"])
        #expect(sent.contains("name=\"x%22%0D%0Ay\"; filename=\"x%22%0D%0Ay.txt\"\r\n\r\n\(value)\r\n--abcd\r\n"))
        #expect(sent.contains(#"{"a": "x\"\r\ny", "b": 7}"#))
        #expect(sent.contains("\r\n\r\n\"\(value)\"\r\n--abcd--"))
    }

    @Test(arguments: ["a; name=role", "a\"", "a\r\nX: 1", ";\u{301}"])
    func aValueAddsNoParameterToTheHeadOfAPart(value: String) throws {
        let sent = { (parameter: String) in
            let head = "Content-Type: multipart/form-data; boundary=b\n\n--b\nContent-Disposition: form-data; "
            return try body("\(head)\(parameter)\n\nx\n--b--", ["v": value])
        }
        let failure = #expect(throws: Defect.self) { try sent("name={{v}}") }
        #expect(failure?.what == "the value of {{v}} contains a quote, a semicolon or a line end")
        #expect(failure?.advice == "write it in quotes, or {{&v}} to insert it unchanged")
        #expect(try sent("name=\"{{v}}\"").contains("name=\"\(value.inQuotes)\"\r\n"))
        #expect(try sent("name={{&v}}").contains("name=\(value)\r\n"))
    }

    /// The line between the parts may contain variables of the file and of environments.
    @Test(arguments: ["{{b}}", "{{&b}}", "{{c}}-{{given}}", "a-{{given}}", "{{c}}-{{inEnvironment}}"])
    func theBoundaryMayBeAVariable(boundary: String) throws {
        let surroundings = surroundings {
            ($0.columns, $0.given, $0.environmentName) = (["v"], ["given": "1"], "e")
            $0.environments.add(Array("{\"e\": {\"inEnvironment\": \"1\"}}".utf8), file: "e.json", isSecret: true)
        }
        let text = """
            @c = a
            @b = {{c}}-1
            POST http://h/
            Content-Type: multipart/form-data; boundary=\(boundary)

            --\(boundary)
            Content-Type: application/json

            {"a": "{{v}}"}
            --\(boundary)

            {{v}}
            --\(boundary)--
            """
        let parts = "--a-1\nContent-Type: application/json\n\n{\"a\": \"x\\\"\"}\n--a-1\n\nx\"\n--a-1--"
        #expect(try builtLast(text, surroundings, row: ["v": "x\""]).bodyText == parts)
        for value in ["--a-1", "x\n--a-1--\n"] {
            let failure = #expect(throws: Defect.self) { try builtLast(text, surroundings, row: ["v": value]) }
            #expect(failure?.what == "a value contains the boundary of the parts")
        }
    }

    /// A value cannot be or complete a line between the parts, except one of the file after `--`.
    @Test(arguments: [
        "{{v}}", "--{{w}}", "--ab{{w}}", "--{{x}}", "{{given}}", "{{long}}", "--{{b}}{{w}}", "{{half}}{{half}}",
    ]) func aValueIsNoLineBetweenParts(line: String) throws {
        let surroundings = surroundings {
            $0.columns = ["v", "w", "x"]
            $0.given = ["given": "--abcd", "long": "y\n--abcd--", "half": "cd\n--ab"]
        }
        let row = ["v": "--abcd", "w": line == "--{{w}}" ? "abcd" : line.hasPrefix("--ab") ? "cd" : "", "x": "abcd--"]
        let head = "Content-Type: multipart/form-data; boundary=abcd\nContent-Type: text/plain\n\n--abcd\n\n"
        let text = "@b = abcd\nPOST http://h/\n\(head)\(line)\n--abcd--"
        let failure = #expect(throws: (any Error).self) { try builtLast(text, surroundings, row: row) }
        let what = (failure as? Defect)?.what ?? (failure as? Problem)?.what
        #expect(what == "a value contains the boundary of the parts")
    }

    @Test(arguments: [
        ("query { a(b: \"{{v}}\") }", "x\") { c }", #"query { a(b: "x\") { c }") }"#),
        ("query { a(b: {{v}}) }", "7", "query { a(b: 7) }"),
        ("query { a(b: {{v}}) }", "ADMIN", "query { a(b: ADMIN) }"),
        ("query { a(b: {{v}}) }", "[\"x\"]", "query { a(b: [\"x\"]) }"),
        ("query { a(b: \"\"\"{{v}}\"\"\") }", "x \"y\" z", "query { a(b: \"\"\"x \"y\" z\"\"\") }"),
        ("query { a # don't \"\n b(c: \"{{v}}\") }", "\"", "query { a # don't \"\n b(c: \"\\\"\") }"),
        ("query { a(b: {{v}}) }", "1) { c } d(e: 2", nil), ("query { a(b: {{v}}) }", "", nil),
        ("query { a(b: \"\"\"{{v}}\"\"\") }", "x\"\"\"", nil), ("query { a(b: \"\"\"{{v}}\"\"\") }", "x\\", nil),
    ]) func aValueStaysAValueInAQueryOrIsRefused(template: String, value: String, expected: String?) throws {
        let sent = Result { try builtLast("GRAPHQL http://h/\n\n" + template, columns, row: ["v": value]).bodyText }
        guard let expected else {
            #expect(throws: Defect.self) { try sent.get() }
            return
        }
        #expect(JSONValue(json: try sent.get().utf8)?["query"] == JSONValue.string(expected))
    }

    @Test func variablesOfAQueryAreJSON() throws {
        let text = "GRAPHQL http://h/\n\nquery q($a: String) { b(c: $a) }\n\n{\"a\": \"{{v}}\"}"
        let built = try builtLast(text, columns, row: ["v": Self.hostile])
        #expect(JSONValue(json: built.bodyText.utf8)?["variables"]?["a"] == JSONValue.string(Self.hostile))
    }

    @Test(arguments: [
        (
            "application/x-ndjson", "{\"index\": {}}\n{\"a\": {{v}}, \"b\": \"{{w}}\"}",
            "{\"index\": {}}\n{\"a\": {\"c\":1}, \"b\": \"x\\ny\"}\n"
        ), ("{{form}}", "a={{w}}&b=c d", "a=x%0Ay&b=c d"), ("text/plain", "{\"a\": {{v}}", "{\"a\": {\"c\":\n1}"),
        ("text/csv", "\"{{w}}\"", "\"x\ny\""), ("application/octet-stream", "<{{w}}>", "<x\ny>"),
        ("text/markdown", "\"{{w}}\"", "\"x\ny\""),
    ]) func aValueIsInsertedAsItsTypeNeeds(type: String, template: String, expected: String) throws {
        let text = "@form = application/x-www-form-urlencoded\nPOST http://h/\nContent-Type: \(type)\n\n" + template
        #expect(try builtLast(text, columns, row: ["v": "{\"c\":\n1}", "w": "x\ny"]).bodyText == expected)
    }

    @Test func placesAreFollowedAcrossFiles() throws {
        let surroundings = surroundings({ $0.columns = ["v"] }, files: ["b.json": "", "c.json": "{\"x\": \"{{v}}\"}"])
        let text = "POST http://h/\nContent-Type: application/json\n\n[\"{{v}}\", \"\n< b.json\n{{v}}\"]"
        #expect(
            try builtLast(text, surroundings, row: ["v": "\""]).body
                == [.bytes(Array("[\"\\\"\", \"\n".utf8)), .file("b.json"), .bytes(Array("\n\\\"\"]".utf8))])
        let file = "POST http://h/\nContent-Type: application/json\n\n<@ c.json"
        #expect(try builtLast(file, surroundings, row: ["v": "\""]).bodyText == "{\"x\": \"\\\"\"}")
    }

    @Test func theDataOfCurlIsEscapedAsJSON() throws {
        let built = try builtLast(#"curl http://h/ -d '{"name": "{{v}}"}'"#, columns, row: ["v": Self.hostile])
        #expect(built.bodyText == "{\"name\": \"\(Self.escaped)\"}")
    }
}
