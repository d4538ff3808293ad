import Convoy
import Testing

@testable import ConvoyHTTPFile

/// Tests notations that other programs accept.
@Suite struct HabitsTests {
    @Test func aNameThatNothingRefersToMayBeRepeated() {
        let text = "# @name a\nGET http://h/1\n###\n# @name a\nGET http://h/2"
        #expect(plan(text).problems == [])
        for use in [
            "GET http://h/{{a.response.body.*}}", "GET http://h/{{a.id}}", "# @ref a\nGET http://h/",
            "@x = {{a.response.body.$.id}}\nGET http://h/{{x}}",
        ] {
            let problems = plan(text + "\n###\n" + use).problems
            #expect(problems.map(\.what) == ["the request in line 1 is also called ‘a’"])
            #expect(problems.first?.position == Position(line: 4, column: 9))
        }
        #expect(plan(text) { $0.names = ["a"] }.problems.map(\.what) == ["several requests are called ‘a’"])
    }

    @Test(
        arguments: [
            ("30", 30_000), ("500 ms", 500), ("2 s", 2_000), ("1m", 60_000), ("", nil), ("soon", nil), ("0", nil),
            ("-1", nil), ("5 h", nil), ("99999999999999999999", nil),
        ] as [(String, Int?)]) func aTimeoutIsReadOrReported(text: String, milliseconds: Int?)
    {
        let file = HTTPFileReader.read("# @timeout \(text)\nGET http://h/")
        #expect(file.requests[0].timeout == milliseconds.map { Duration.milliseconds($0) })
        #expect(file.problems.count == (milliseconds == nil ? 1 : 0))
    }

    @Test func cookiesOfAnswersCanBeReferredTo() throws {
        let text = "# @name login\nGET http://h/\n###\nGET http://h/\nX: {{login.response.cookies.sid}}"
        let plan = plan(text)
        #expect(plan.problems == [] && plan.requests[1].needs == [0] && !plan.requests[0].keepsBody)
        let answer = exchange(fields: [
            "Set-Cookie": "sid=1; Path=/", "set-cookie": "sid=a=b; HttpOnly", "Set-Cookie": "other=2",
        ])
        #expect(try plan.requests[1].build(surroundings()) { _ in answer }.value(of: "X") == "a=b")
        let failure = #expect(throws: Defect.self) {
            _ = try plan.requests[1].build(surroundings()) { _ in exchange() }
        }
        #expect(failure?.what == "{{login.response.cookies.sid}}: the response to login sets no cookie sid")
        #expect(ConvoyHTTPFileTests.plan("GET http://h/{{a.request.cookies.x}}").problems.count == 1)
    }

    // MARK: Bodies

    /// A body is what stands in the file.
    @Test(arguments: [
        "  a: 1\n  b: 2", "\ta", "    indented: code\n\n  x", "a  ", "a\n  b \t", "- x\n-   y\n\n  z  ",
        "\u{A0}a\u{A0}", "  {\"a\": 1}  ",
    ]) func theBlanksOfABodyAreSent(body: String) throws {
        for (start, end) in [("", ""), ("\n", "\n"), ("", "\n\n\n###\nGET http://h/"), ("# c\n\n", "\n###")] {
            let request = try #require(
                built("POST http://h/\nContent-Type: application/yaml\n\n\(start)\(body)\(end)").first)
            #expect(request.bodyText == body)
        }
        #expect(try built("POST http://h/\r\n\r\n\(body.replacing("\n", with: "\r\n"))\r\n").first?.bodyText == body)
    }

    @Test(arguments: [
        ("POST http://h/\n\nx\n@a = 1\ny", 4, "a variable"), ("POST http://h/\n\nx\n\n  @a.b=1", 5, "a variable"),
        ("POST http://h/\nA: b\n\nContent-Type: text/plain\n\nx", 4, "a header field"),
        ("GET http://h/\n\n\nAuthorization: Bearer x", 4, "a header field"),
        ("POST http://h/\n\n# c\nX-Api-Key: x", 4, "a header field"),
        ("POST http://h/\n\nx\nGET http://h/", 4, "a request"),
        ("POST http://h/\nA: b\n\na = 1\n\nDELETE {{base}}/b\n\nmore\n###\n@base = http://b", 6, "a request"),
        ("POST http://h/\n\n{}\nPOST  http://b/ HTTP/1.1", 4, "a request"),
        ("@b = 1\nPOST http://h/{{b}}\n\n{{c}}\n@c = 1", 5, "a variable"),
        ("GET http://h/\n###\nPOST http://h/\n\nx\n@d := 1", 6, "a variable"),
    ]) func aHintStandsAtTheLineThatIsSentInABody(text: String, line: Int, what: String) {
        let hints = plan(text).hints
        #expect(hints.map(\.position.line) == [line])
        #expect(hints.first?.what.hasPrefix("this line looks like \(what), but is sent in the body") == true)
    }

    @Test(arguments: [
        "name: x\nrole: y", "x\nContent-Type: y", "a @b = c", "@ = 1", "@media x", "a-b", "http://a",
        "{}\nget it from https://b/", "{}\nGET", "{}\nGet https://b/", "{}\nGET /b HTTP/1.1", "SELECT https://b/",
        "{}\n###\nGET https://b/",
    ]) func ordinaryLinesOfABodyHaveNoHint(body: String) { #expect(plan("POST http://h/\n\n" + body).hints == []) }

    @Test func aRequestLineInAPartAndInAnotherRequestGivesNoHint() {
        let part = "--b\nContent-Type: application/http\n\nGET http://b/\n--b--"
        let planned = plan("POST http://a/\nContent-Type: multipart/mixed; boundary=b\n\n" + part)
        #expect(planned.problems == [] && planned.hints == [])
        let text = "# @name a\nGET http://c/\n###\n# @name b\nPOST http://a/\n\nGET http://b/"
        #expect(plan(text) { $0.names = ["a"] }.hints == [])
        #expect(plan(text) { $0.names = ["b"] }.hints.first?.advice.hasPrefix("write ### on a line before it") == true)
    }
}
