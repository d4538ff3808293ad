import Convoy
import Testing

@testable import ConvoyHTTPFile

/// Tests handlers of JetBrains' HTTP Client.
@Suite struct ScriptTests {
    private static let body = #"""
        {"id": 12345678901234567890, "token": "t0k", "n": 3, "data": [{"id": 7, "name": "Ada"}, {"id": 8}], "ok": true,
         "none": null, "message": "Consent is missing", "user": {"name": "Ada"}}
        """#

    private func outcome(
        _ script: String, body: String = body, status: Int = 200, type: String = "application/json; charset=utf-8",
        globals: [String: JSONValue] = [:], mostBytes: Int = 1 << 20
    ) throws -> HandlerOutcome {
        let script = try ScriptReader.read(script, at: .start)
        let answer = CheckedAnswer(
            statusCode: status, fields: ["Content-Type": type, "X-Token": "abc"], body: Array(body.utf8))
        return Script.outcome(of: [script], for: answer, globals: globals, mostBytes: mostBytes)
    }

    @Test(
        arguments: [
            ("response.body.token", "t0k"), ("response.body.id", "12345678901234567890"),
            ("response.body.data[0].id", "7"), ("response.body.data[1].id.toString()", "8"),
            ("response.body['user'].name", "Ada"), ("response.body?.user?.name", "Ada"),
            ("`Bearer ${response.body.token}`", "Bearer t0k"), ("\"Bearer \" + response.body.token", "Bearer t0k"),
            ("response.headers.valueOf(\"x-token\")", "abc"), ("response.headers['X-Token']", "abc"),
            ("response.status", "200"), ("response.contentType.mimeType", "application/json"),
            ("response.contentType.charset", "utf-8"), ("response.body.n + 1", "4"), ("response.body.n + '1'", "31"),
            ("response.body.data.length", "2"), ("response.body.nothing ?? 'x'", "x"),
            ("response.body.none || 'y'", "y"),
            ("response.body.ok ? 1 : 2", "1"), ("JSON.stringify(response.body.user)", #"{"name":"Ada"}"#),
            ("JSON.parse('{\"a\": [1]}').a[0]", "1"), ("jsonPath(response.body, '$..name')", "Ada"),
            ("parseInt('12px')", "12"), ("Number('1.50')", "1.5"), ("-response.body.n * 2 - 1", "-7"),
            ("[1, 2].join('-')", "1-2"), ("response.body.data.at(-1).id", "8"), ("7 / 2", "3.5"),
            ("'aBc'.toUpperCase().toLowerCase().trim()", "abc"), ("encodeURIComponent('a b')", "a%20b"),
            ("client.global.get(\"other\")", "of another"), ("typeof response.body.user", "object"),
            ("response.body.data.filter(function(item) { return Number(item.id) === 7; }).length", "1"),
            ("response.body.data.find(i => i.id > 7).id", "8"),
            ("response.body.data.map((d, n) => n + d.id).join()", "7,9"),
            ("response.body.data.some(d => d.name === 'Ada')", "true"),
            ("[1, 2].every(n => { return n > 1 })", "false"), ("[[1, 2], [3]].map(a => a.map(n => n * 2)).length", "2"),
        ] as [(String, String)]) func aVariableIsSet(expression: String, value: String) throws
    {
        let outcome = try outcome("client.global.set(\"x\", \(expression));", globals: ["other": .string("of another")])
        #expect(outcome.defects == [])
        #expect(outcome.globals["x"]?.text == value)
    }

    @Test(arguments: [
        "response.status === 200", "response.status == '200'", "response.status !== 201", "response.status < 300",
        "!!response.body.id", "Array.isArray(response.body.data)", "[200, 201].includes(response.status)",
        "response.status === 403 || response.status === 200", "response.body.ok === true",
        "response.body.message && response.body.message.includes('Consent')", "response.body.hasOwnProperty('token')",
        "!response.body.hasOwnProperty('tokn')", "response.contentType.mimeType.startsWith('application')",
        "response.body.token.endsWith('0k')", "response.body.id === 12345678901234567890",
        "!(response.body.id === 12345678901234567891)", "response.body.nothing === undefined",
        "response.body.none === null", "response.body.none == undefined", "response.body.none != 0",
        "Number(response.body.data[0].id) === Number('7')", "'b' > 'a' && 2 >= 2 && 1 <= 2",
        "typeof response.body.nothing === 'undefined'", "Boolean('x') && String(1) === '1'",
        "parseFloat('1.5x') == 1.5",
    ]) func anAssertionHolds(condition: String) throws {
        #expect(try outcome("client.assert(\(condition), 'no');").defects == [])
        #expect(try outcome("client.assert(!(\(condition)), 'no');").defects == ["line 1: no"])
    }

    @Test func allTestsRunAndFailuresNameThem() throws {
        let script = """

            client.test("Status is 200", function() {
                client.assert(response.status === 200, "Response status is not 200");
            });
            client.test("Type", function () {
                const type = response.contentType.mimeType
                client.assert(type === "text/plain", `Expected 'text/plain' but received '${type}'`);
                client.assert(false);
            });
            client.test('Arrow', () => client.assert(response.body.n === 4))
            client.test('Deep', () => { client.assert(response.body.a.b) });
            client.log("n:", response.body.n);
            """
        let outcome = try outcome(script)
        #expect(
            outcome.defects == [
                "test ‘Type’: line 7: Expected 'text/plain' but received 'application/json'",
                "test ‘Arrow’: line 10: ‘response.body.n === 4’ is not true",
                "test ‘Deep’: line 11: a missing value has no ‘b’",
            ])
        #expect(outcome.logs == ["n: 3"])
    }

    @Test(
        arguments: [
            ("if (response.status === 200) { S('a', 1) } else S('a', 2)", "a=1"),
            ("if (response.status === 404) { S('b', 1); } else if (response.body.ok) { S('b', 3) }", "b=3"),
            ("S('a', 1); client.global.clear('a'); S('b', 2)", "b=2"), ("S('a', 1); client.global.clearAll()", ""),
            ("for (const item of response.body.data) { S('last', item.id) }", "last=8"),
        ] as [(String, String)]) func statementsAreRunInTheirOrder(script: String, globals: String) throws
    {
        let outcome = try outcome(script.replacing("S(", with: "client.global.set("))
        #expect(outcome.globals.map { "\($0.key)=\($0.value.text)" }.joined() == globals)
        #expect(outcome.defects == [])
    }

    @Test func somethingIsDoneForEachElement() throws {
        let script = """
            response.body.data.forEach(function(item, index) { client.log(index, item.name || "none"); });
            for (const item of response.body.data) {}
            response.body.data.filter(d => d.id > 7).forEach(n => client.log(n.id))
            client.log(typeof item, typeof REST_CLI !== 'undefined')
            """
        let outcome = try outcome(script)
        #expect(outcome.logs == ["0 Ada", "1 none", "8", "undefined false"])
        #expect(outcome.defects == [])
        #expect(try self.outcome("response.body.user.forEach(u => client.log(u))").defects.count == 1)
    }

    @Test func loopsInLoopsComeToAnEnd() throws {
        let body = "[" + String(repeating: "0,", count: 2_000) + "0]"
        let script =
            "client.log(response.body.some(a => response.body.some(b => response.body.some(c => c)))); client.log(1)"
        let outcome = try outcome(script, body: body)
        #expect(outcome.defects == ["line 1: its loops have more than 1000000 steps"] && outcome.logs == [])
    }

    /// A few lines could otherwise use up the memory of the machine.
    @Test(arguments: [
        (first: "'a'", next: "A + A"), ("[0]", "[A, A]"), ("[0, 0, 0]", "A.map(x => A)"), ("'a'", "`${A}${A}`"),
        ("'a'", "[A, A].join('')"), ("'a'", "JSON.stringify([A, A])"), ("0", "[A]"),
    ]) func whatDoublesComesToAnEnd(first: String, next: String) throws {
        var lines = ["const s0 = \(first);"]
        for index in 1...600 {
            lines.append("const s\(index) = \(next.replacingOccurrences(of: "A", with: "s\(index - 1)"));")
        }
        lines.append("client.log(typeof s600)")
        let outcome = try outcome(lines.joined(separator: "\n"))
        #expect(outcome.defects.count == 1 && outcome.logs == [])
        #expect(outcome.defects.first?.contains("its texts and lists have more than 1 MiB") == true)
    }

    /// A text is limited before it is made.
    @Test(arguments: [
        "client.log(response.body.a.join(s7))", "client.log(`${s7}${s7}${s7}${s7}`)",
        "response.body.a.forEach(x => client.log(s7))",
    ]) func aLargeTextIsNotMade(line: String) throws {
        let lines = (1...7).map { "const s\($0) = s\($0 - 1) + s\($0 - 1)" }
        let script = (["const s0 = response.body.s"] + lines + [line, "client.log('end')"]).joined(separator: "\n")
        let body = #"{"a": [1, 2, 3, 4, 5], "s": "\#(String(repeating: "s", count: 1 << 11))"}"#
        let outcome = try outcome(script, body: body)
        #expect(outcome.defects == ["line 9: its texts and lists have more than 1 MiB in all, or 500 levels"])
        #expect(!outcome.logs.contains("end"))
    }

    @Test func aMissingValueIsNotSet() throws {
        let outcome = try outcome("client.global.set('a', response.body.x.y)\nclient.global.set('b', 1)")
        #expect(outcome.globals == [:])
        #expect(outcome.defects == ["line 1: a missing value has no ‘y’"])
        let missing = try self.outcome("client.global.set('a', response.body.x)")
        #expect(missing.defects == ["line 1: the response has no value for a"])
    }

    @Test func aBodyOfAnotherTypeIsText() throws {
        let outcome = try outcome("client.global.set('a', response.body.length)", body: "{\"a\":1}", type: "text/plain")
        #expect(outcome.globals["a"] == .number("7"))
    }

    @Test(
        arguments: [
            ("response.body.reduce(function(a) {})", 1, 15, "‘reduce’"), ("for (let i = 0;;) {}", 1, 12, "‘=’"),
            ("while (true) {}", 1, 1, "‘while’"), ("client.test('a', x => {})", 1, 25, "cannot have parameters"),
            ("client.log([1].map(a => { const b = a; return b }))", 1, 27, "‘const’"),
            ("client.log([1].forEach(a => {}))", 1, 15, "‘.’"),
            ("\n  eval('1')", 2, 3, "‘eval’"), ("client.exit()", 1, 8, "‘exit’"),
            ("client.global.set(name, 1)", 1, 19, "must be a string"), ("x = 1", 1, 1, "‘x’"),
            ("client.log(/a/)", 1, 12, "‘/’"), ("client.log('a", 1, 12, "a string is not closed"),
            ("client.log(`${`a`}`)", 1, 15, "a string inside a template string"), ("client.log(1", 1, 13, "‘the end’"),
            ("/* a", 1, 1, "a comment is not closed"), ("/*/ a", 1, 1, "a comment is not closed"),
            ("client.log('\\u0041')", 1, 14, "an escape with digits"),
            ("client.log(1e5)", 1, 12, "not a supported number"), ("response.cookies", 1, 10, "‘cookies’"),
            ("client.global.set('a b', 1)", 1, 19, "not a variable name"), ("client.log(#)", 1, 12, "‘#’"),
            ("client.log(JSON.\"parse\"('1'))", 1, 17, "a string"),
        ] as [(String, Int, Int, String)]) func unsupportedSyntaxIsReportedAtItsPosition(
            script: String, line: Int, column: Int, what: String
        ) throws
    {
        let problem = #expect(throws: Problem.self) { try ScriptReader.read(script, at: .start) }
        #expect(problem?.position == Position(line: line, column: column))
        #expect(problem?.what.contains(what) == true, "\(problem?.what ?? "")")
        #expect(problem?.kind == .script)
    }

    @Test func tooDeepNestingIsRefused() {
        for (open, close) in [("(", ")"), ("[", "]"), ("!", ""), ("`${(", ")}`")] {
            let script =
                "client.log(\(String(repeating: open, count: 5_000))1\(String(repeating: close, count: 5_000)))"
            #expect(throws: Problem.self) { try ScriptReader.read(script, at: .start) }
        }
        let blocks = String(repeating: "if (1) { ", count: 10_000) + String(repeating: "}", count: 10_000)
        #expect(throws: Problem.self) { try ScriptReader.read(blocks, at: .start) }
    }

    /// Each operator, member and call adds a level to the tree of its statement.
    @Test(arguments: [("1", "+1"), ("response.body", ".a"), ("response.body", "[0]"), ("response.body", ".trim()")])
    func tooManyLinksAreRefused(_ start: String, _ link: String) throws {
        func read(_ count: Int) throws {
            let statement = "client.log(\(start)\(String(repeating: link, count: count)));"
            _ = try ScriptReader.read("client.log(1+1); \(statement) \(statement)", at: .start)
        }
        try read(1_000)
        #expect(throws: Problem.self) { try read(1_001) }
    }

    @Test func everyBeginningOfAScriptIsReadOrRefused() throws {
        let script =
            "client.test('a', () => { const b = `x${response.body.c[0]}`; client.assert(b == 1 ? 2 : 3, 'm') })"
        for count in 0..<script.count { _ = try? ScriptReader.read(String(script.prefix(count)), at: .start) }
        #expect(try ScriptReader.read(script, at: .start).statements.count == 1)
    }
}
