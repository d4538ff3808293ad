import ConvoyHTTPFile
import Testing

/// Tests files with mistakes: the position and the message of each problem.
@Suite struct BrokenFilesTests {
    private typealias Broken = (text: String, line: Int, column: Int, what: String, advice: String)

    @Test(arguments: requests + values + bodies)
    func aMistakeIsReportedWithItsPosition(text: String, line: Int, column: Int, what: String, advice: String) {
        let problems = plan(text, surroundings(files: ["a.json": "{}", "v.json": "{\n {{x}}}"])).problems
        #expect(problems.map(\.what) == [what])
        #expect(problems.first?.position == Position(line: line, column: column))
        #expect(problems.first?.advice.contains(advice) == true, "\(problems)")
    }

    @Test(arguments: references) func aMistakeInAReferenceIsReported(reference: String, what: String, advice: String) {
        let text = "# @name a\nGET http://h/\n###\nGET http://h/{{\(reference)}}"
        aMistakeIsReportedWithItsPosition(text: text, line: 4, column: 14, what: what, advice: advice)
    }

    @Test func allMistakesAreReportedInTheOrderOfTheFile() {
        let all = Self.requests.filter { !$0.text.hasPrefix("@") && $0.text.hasPrefix("GE") }
        let text = all.map(\.text).joined(separator: "\n###\n")
        let problems = plan(text).problems
        #expect(problems.count >= all.count)
        #expect(problems == Problem.inOrder(problems))
        #expect(Set(all.map(\.what)).isSubset(of: problems.map(\.what)))
    }

    @Test func aHostWithoutAValueIsOneProblem() {
        let requests = ["GET {{host}}/a", "GET {{host}}/b", "POST {{host}}/c"].joined(separator: "\n###\n")
        #expect(plan(requests).problems.map(\.what) == ["the variable ‘host’ has no value, in 3 places"])
        #expect(plan(requests).problems.map(\.position) == [Position(line: 1, column: 5)])
        let paths = ["GET /a", "GET /b", "GET /c"].joined(separator: "\n###\n")
        #expect(plan(paths).problems.map(\.what) == ["the URL has no host, in 3 places"])
    }

    private static let requests: [Broken] = [
        ("GTE http://h/", 1, 1, "unknown method GTE", "did you mean GET?"),
        ("FETCH http://h/", 1, 1, "unknown method FETCH", "write one of GET, POST"),
        ("GRPC http://h/x", 1, 1, "GRPC requests are not HTTP, and are not supported", "remove this request"),
        ("GET", 1, 4, "no URL follows the method", "write GET https://example.com/path"),
        ("User-Agent: me\nGET http://h/", 1, 1, "‘User-Agent: me’ is not a request line", "write METHOD"),
        ("GET ftp://h/a", 1, 1, "‘ftp://h/a’ is not an http or https URL", "write https://"),
        ("GET http:///a", 1, 1, "the URL ‘http:///a’ has no host", "write https://"),
        ("GET /a", 1, 1, "the URL has no host", "write https://example.com/a"),
        ("OPTIONS * HTTP/1.1\nHost: h", 1, 1, "a request for the whole server, *, cannot be sent", "write a URL"),
        ("GET http://h/ HTTP/one", 1, 15, "‘HTTP/one’ is not a version of HTTP", "write HTTP/1.1"),
        ("GET http://h/\nAccept text/html", 2, 1, "a header field has no colon", "write Name: value"),
        ("GET http://h/\nA B: c", 2, 1, "‘A B’ is not a header field name", "use only letters, digits and -"),
        ("@n = X\nGET http://h/\n{{n}}: c", 3, 1, "‘{{n}}’ is not a header field name", "write the name itself"),
        ("GET http://h/\n...defaults", 2, 1, "header fields from scripts are not supported", "as Name: value"),
        ("# @name a\n# @name b\nGET http://h/", 2, 3, "the request is already called ‘a’", "remove one"),
        ("# @name\nGET http://h/", 1, 3, "no name follows @name", "# @name login"),
        ("# @timeout soon\nGET http://h/", 1, 12, "‘soon’ is not a time", "# @timeout 30"),
        ("# @nmae a\nGET http://h/", 1, 3, "unknown tag @nmae", "did you mean # @name?"),
        ("# @loop for 3\nGET http://h/", 1, 3, "@loop is not supported", "give --each FILE or --repeat N"),
        ("# @import ./a.http\nGET http://h/", 1, 3, "@import is not supported", "copy the requests"),
        ("# @disabled x > 1\nGET http://h/", 1, 3, "conditions in scripts are not supported", "# @disabled alone"),
        ("# @prompt otp The code\nGET http://h/", 1, 11, "convoy cannot ask for ‘otp’", "--variable otp=…"),
        ("import a.http\n###\nGET http://h/", 1, 1, "import is not supported", "copy the requests"),
        ("# @expect stauts 200\nGET http://h/", 1, 11, "‘stauts’ cannot be checked", "write status 2xx"),
        ("# @assert status is 200\nGET http://h/", 1, 11, "‘is 200’ is not a condition", "write status 2xx"),
        ("# @expect time < soon\nGET http://h/", 1, 11, "‘soon’ is not a time", "write 500ms"),
        ("curl -X POST", 1, 1, "the command has no URL", "write curl https://"),
        ("curl --proxy x http://h/", 1, 6, "curl's option --proxy is not supported", "remove it"),
        ("curl http://h/ -H 'A: b", 1, 19, "a quote in this word is not closed", "the same quote"),
        ("curl http://h/ http://i/", 1, 16, "the command has a second URL", "a separate command"),
        ("curl http://h/ -H", 1, 16, "the option -H has no value", "write the value"),
        ("# @depends b\nGET http://h/", 1, 12, "no request is called ‘b’", "write # @name b above"),
        ("# @ref\nGET http://h/", 1, 3, "no name follows @ref", "write # @ref login"),
        ("# @name login\n# @ref lgin\nGET http://h/", 2, 8, "no request is called ‘lgin’", "did you mean login?"),
        ("GET http://h/\nAuthorization: AWS a b", 1, 1, "AWS signatures are not supported", "send a token"),
    ]

    private static let values: [Broken] = [
        (
            "@name = Ada\nPOST http://h/\n\n{\n  \"a\": {{name}}\n}", 5, 8,
            "the value of {{name}} stands outside of quotes, and is not JSON", "write \"{{name}}\" for a text"
        ),
        ("GET http://h/{{x}}", 1, 14, "the variable ‘x’ has no value", "write @x = …, or give --variable x=…"),
        ("@name = 1\nGET http://h/{{nmae}}", 2, 14, "the variable ‘nmae’ has no value", "did you mean name?"),
        ("GET http://h/{{x", 1, 14, "{{ is not closed on its line", "write }}"),
        ("GET http://h/{{}}", 1, 14, "{{ }} is empty", "write the name"),
        ("GET http://h/{{a(1)}}", 1, 14, "‘a(1)’ is not a variable name, and scripts are not supported", "@x = …"),
        ("@a = {{b}}\n@b = {{a}}\nGET http://h/{{a}}", 1, 1, "@a contains itself: @a → @b → @a", "write the value"),
        ("@a = {{a}}2\nGET http://h/{{a}}", 1, 6, "the variable ‘a’ has no value", "write @a = …"),
        (
            "POST http://h/\n\nline\n  {{ .Values.x }}\nline", 4, 3,
            "‘.Values.x’ is not a variable name, and scripts are not supported", "write \\{\\{ for the two braces"
        ),
        ("@a b = 1\nGET http://h/", 1, 1, "‘a b’ is not a variable name", "@name = value"),
        ("@a\nGET http://h/", 1, 1, "a variable has no value", "write @name = value"),
        ("GET http://h/{{$gid}}", 1, 14, "unknown variable $gid", "did you mean {{$guid}}?"),
        ("GET http://h/{{$timestamp 1 x}}", 1, 14, "‘x’ is not a unit of time", "write one of y Q M"),
        ("GET http://h/{{$timestamp soon}}", 1, 14, "‘soon’ is not a time to add or subtract", "-1 d"),
        ("GET http://h/{{$datetime}}", 1, 14, "$datetime needs a format", "iso8601"),
        ("GET http://h/{{$datetime 'YYYY}}", 1, 14, "the format of $datetime is not closed", "write ' after it"),
        ("GET http://h/{{$randomInt 9 1}}", 1, 14, "a random number needs two bounds, the lower one first", "0 1000"),
        ("GET http://h/{{$processEnv NOPE}}", 1, 14, "the environment has no variable NOPE", "export NOPE=…"),
        ("GET http://h/{{$dotenv NOPE}}", 1, 14, "the file .env has no variable NOPE", "write NOPE=…"),
        ("GET http://h/{{$processEnv}}", 1, 14, "$processEnv needs the name of one variable", "{{$processEnv NAME}}"),
        ("GET http://h/{{$aadToken}}", 1, 14, "$aadToken needs a person to log in", "--variable"),
        ("GET http://h/{{$input Name?}}", 1, 14, "$input needs input from a terminal", "--variable x=…"),
        ("GET http://h/{{$shared}}", 1, 14, "$shared needs a name", "{{$shared name}}"),
    ]

    private static let references: [(reference: String, what: String, advice: String)] = [
        ("a.response", "‘a.response’ does not name a part of the request or response", "{{a.response.body.*}}"),
        ("a.response.body", "‘a.response.body’ does not name a value in the body", "{{a.response.body.*}}"),
        ("a.response.headers.A B", "‘A B’ is not a header field name", "headers.Content-Type"),
        ("a.response.body.$[x]", "‘$[x]’ is not a JSONPath: ‘x’ is neither a number nor a name in quotes", "write [0]"),
        ("a.response.body.$[?@.b]", "‘$[?@.b]’ is not a JSONPath: filters are not supported", "$.items[0]"),
        ("a.response.body.//x", "XPath is not supported", "request JSON from the server"),
        ("a", "‘a’ is a request, not a value", "{{a.response"),
        ("login.response.body.*", "no request is called ‘login’", "write # @name login above"),
    ]

    private static let parts = "POST http://h/\nContent-Type: multipart/form-data"

    private static let bodies: [Broken] = [
        ("POST http://h/\n\n< b.json", 3, 3, "the file ‘b.json’ cannot be read: No such file or directory", "relative"),
        ("POST http://h/\n\n<@ v.json", 2, 2, "the variable ‘x’ has no value", "write @x = …"),
        ("POST http://h/\n\n<@utf7 a.json", 3, 1, "‘utf7’ is not a supported encoding", "utf8, latin1"),
        (
            "# @name a\nGET http://h/\n###\nPOST http://h/\n\n< {{a.response.body.*}}", 6, 3,
            "a file name cannot come from a response or a row", "write the name"
        ),
        (parts + "\n\nx", 2, 1, "a body in parts has no boundary", "boundary=abcd"),
        (parts + "; boundary=b\n\nx", 2, 1, "no part begins with --b", "write --b on a line"),
        (parts + "; boundary=b\n\n--b\n\nx", 2, 1, "the parts do not end with --b--", "write --b-- after"),
        ("HEAD http://h/\n\nx", 1, 1, "a HEAD request has no body", "remove the body"),
        ("GRAPHQL http://h/", 1, 1, "the body contains no query", "after a blank line"),
        (
            "GRAPHQL http://h/\n\nquery { a }\n\n{ b: 1 }", 1, 1,
            "the variables of the query are not JSON: found b instead of a name in quotation marks or }",
            "write {\"name\""
        ), ("GET http://h/\n\n>> ", 3, 1, "no file follows >>", ">>! answer.json"),
        ("GET http://h/\n\n>> a\n>> b", 4, 1, "the response already goes to a file", "remove one"),
        ("GET http://h/\n\n>> ../a", 3, 4, "‘../a’ leads out of the output directory", "write a name inside"),
        ("GET http://h/\n\n>>! /a", 3, 5, "‘/a’ is a path from the root, outside of the output directory", "inside"),
        ("GET http://h/\n\n>> a/", 3, 4, "‘a/’ is a directory", "write a name inside"),
        ("GET http://h/\n\n> {% x %}", 3, 6, "‘x’ is not supported", "--skip-scripts"),
        ("GET http://h/\n\n> {%\n  client.log(1);\n  response.body.map(2);\n%}", 5, 21, "‘2’ is not supported", "give"),
        ("GET http://h/\n\n> ./check.js", 3, 1, "this script is not supported", "# @expect for a check"),
        ("< {%\n x\n%}\nGET http://h/", 1, 1, "this script is not supported", "--skip-scripts"),
        ("{{\n exports.a = 1;\n}}\nGET http://h/", 1, 1, "this script is not supported", "--skip-scripts"),
        ("GET http://h/\n?? color == red", 2, 4, "‘color’ cannot be checked", "write status 2xx"),
        ("GET http://h/\n?? body.$.id == {{x}}", 2, 4, "checks cannot use variables", "write the value itself"),
    ]
}
