import ConvoyHTTPFile
import Testing

/// Tests the import of curl command lines.
@Suite struct CurlReaderTests {
    @Test func aFileOfCommandsIsAFileOfRequests() throws {
        let imported = try Imported(
            """
            # log in
            $ curl -k -X POST https://a.com/login \\
                -H 'Content-Type: application/json' -d '{"a": {"b": "{{c}}"}}' | jq .
            curl https://a.com/x --next https://a.com/y -m 2.5
            something else
            curl -sS --data-urlencode 'q=a b&c' -G "https://a.com/search" ;
            curl -T d/f.bin https://a.com/up/ -u 'ada:secret'
            curl --url=https://a.com/json -d '{"plain": true}'
            """)
        let requests = try imported.built(files: ["d/f.bin": ""])
        #expect(
            requests.map { "\($0.method) \($0.url)" } == [
                "POST https://a.com/login", "GET https://a.com/x", "GET https://a.com/y",
                "GET https://a.com/search?q=a%20b%26c", "PUT https://a.com/up/f.bin", "POST https://a.com/json",
            ])
        #expect(requests[0].bodyText == "{\"a\": {\"b\": \"{{c}}\"}}")
        #expect(requests[4].body == [.file("d/f.bin")])
        #expect(imported.file.bodyFiles == ["d/f.bin"])
        #expect(requests[5].bodyText == "{\"plain\": true}")
        #expect(requests[5].value(of: "content-type") == "application/x-www-form-urlencoded")
        #expect(imported.file.requests[0].notes == ["omitted: curl's option -k is not supported"])
        #expect(imported.file.requests[2].request.timeout == .milliseconds(2_500))
        #expect(imported.file.notes == ["omitted: 1 line that is not a curl command"])
        #expect(!imported.text.contains("secret"))
    }

    @Test(arguments: [
        // Chrome, "Copy as cURL (bash)".
        "curl 'https://a.com/x' \\\n  -H 'content-type: application/json' \\\n  --data-raw $'{\"t\":\"it\\'s \\u0021 \\ud83d\\ude00\\n%41\\\\\\\\\"}' \\\n  --compressed",
        // Chrome, "Copy as cURL (cmd)".
        "curl ^\"https://a.com/x^\" ^\n  -H ^\"content-type: application/json^\" ^\n  --data-raw ^\"^{^\\^\"t^\\^\":^\\^\"it's ^! 😀^\n\n%^41^\\^\\^\\^\\^\\^\"^}^\" ^\n  --compressed",
    ]) func aCommandCopiedFromChromeIsOneRequest(command: String) throws {
        let body = "{\"t\":\"it's ! 😀\n%41\\\\\"}"
        let text = "POST https://a.com/x\ncontent-type: application/json\n\n" + body
        #expect(try Imported(command).built().map(\.text) == [text])
    }

    /// What curl 7.88 sends for the arguments after the URL: method, fields, body.
    @Test(arguments: [
        ("", "GET", "", ""), ("-I", "HEAD", "", ""), ("-A me", "GET", "user-agent=me", ""),
        ("-d a=1 -d b=2", "POST", "", "a=1&b=2"),
        ("-XPUT", "PUT", "", ""), ("--data \"a \\\"b\\\" \\$c\"", "POST", "", "a \"b\" $c"),
        ("-u user:pw", "GET", "authorization=Basic dXNlcjpwdw==", ""),
        ("-d ''", "POST", "content-type=application/x-www-form-urlencoded", ""), ("-d '' -d x", "POST", "", "&x"),
        ("--json '{' --json '}'", "POST", "content-type=application/json", "{}"),
        ("-d '&' -X DELETE -H 'X: 1'", "DELETE", "x=1", "&"), ("-d '>'", "POST", "", ">"),
        (#"-d '{"op":"^"}' -H 'X: a'"#, "POST", "x=a", #"{"op":"^"}"#), (#"-H 'X: ^"a"'"#, "GET", #"x=^"a""#, ""),
        (#"-H "X: a\$b" -d """#, "POST", "x=a$b", ""), (#"-H "X: 1" -d """#, "POST", "x=1", ""),
        ("-b a=1 -b b=2", "GET", "cookie=a=1; b=2", ""), ("-H 'X;'", "GET", "x=", ""),
        (#"-d'{"name":""}'"#, "POST", "", #"{"name":""}"#), (#"--data=$'{"a":""}'"#, "POST", "", #"{"a":""}"#),
        (#"-d $'\041\303\251\1018\0\E'"#, "POST", "", "!éA8\0\u{1B}"), (#"-d $'\351\7'"#, "POST", "", "é\u{7}"),
        ("--data-urlencode 'a@b=c d'", "POST", "", "a@b=c%20d"),
        ("-H 'X:' -H 'X: 1'", "GET", "x=1", ""), ("-A '' -H 'User-Agent: x'", "GET", "user-agent=x", ""),
        ("-d a -H 'Content-Type:'", "POST", "content-type=nil", "a"), ("-A ''", "GET", "user-agent=nil", ""),
    ]) func aCommandIsSentAsByCurl(arguments: String, method: String, field: String, body: String) throws {
        let request = try #require(
            Imported("curl https://a.com/x " + arguments) { $0.keepsSecrets = true }.built().first)
        #expect(request.method == method && request.url == "https://a.com/x")
        #expect(request.bodyText == body)
        let pair = field.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        if pair.count == 2 { #expect(request.value(of: pair[0]) == (pair[1] == "nil" ? nil : pair[1])) }
    }

    @Test(arguments: [
        (#"curl.exe https://a.com/x -d "&""#, "&"), (#"curl -X POST ^"https://a.com/x^" -d ^"^&^""#, "&"),
        // Firefox, "Copy as cURL (Windows)".
        (#"curl "https://a.com/x" --compressed -X POST --data-raw "{""a"":""b c""}""#, #"{"a":"b c"}"#),
    ]) func aQuotedTextOfWindowsIsData(command: String, body: String) throws {
        let request = try #require(try Imported(command).built().first)
        #expect(request.method == "POST" && request.bodyText == body)
    }

    /// A part's name or value cannot begin another part.
    @Test func partsOfAFormAreThoseOfCurl() throws {
        let command = #"""
            curl https://a.com/ -F 'a=v;type=text/html' -F 'f=@d/f.txt;type=text/csv;filename=g' -F 't=<t.txt' \
                --form-string 'l=@x;type=y' -F $'n"\r\nX-I: 1=--convoy-parts-of-a-form' \
                -F 'convoy-parts-of-a-form-2=convoy-parts-of-a-form-31'
            """#
        let request = try #require(try Imported(command).built(files: ["d/f.txt": "F", "t.txt": "T"]).first)
        let boundary = "convoy-parts-of-a-form-4"
        #expect(request.value(of: "content-type") == "multipart/form-data; boundary=\(boundary)")
        let head = { (rest: String) in "--\(boundary)\r\nContent-Disposition: form-data; name=\(rest)" }
        let body =
            head("\"a\"\r\nContent-Type: text/html\r\n\r\nv\r\n")
            + head("\"f\"; filename=\"g\"\r\nContent-Type: text/csv\r\n\r\n<d/f.txt>\r\n")
            + head("\"t\"\r\n\r\n<t.txt>\r\n") + head("\"l\"\r\n\r\n@x;type=y\r\n")
            + head("\"n%22%0D%0AX-I: 1\"\r\n\r\n--convoy-parts-of-a-form\r\n")
            + head("\"convoy-parts-of-a-form-2\"\r\n\r\nconvoy-parts-of-a-form-31\r\n") + "--\(boundary)--"
        #expect(request.text.hasPrefix("POST ") && request.text.hasSuffix("\n\n" + body))
    }

    /// curl drops the line ends and NUL bytes of a file after `-d`, which a file of requests cannot express.
    @Test(arguments: [
        ("-d @f", true), ("--data @f", true), ("--data-ascii @f", true), ("--data-binary @f", false),
        ("--json @f", false), ("-T f", false), ("-d f", false),
    ]) func aBodyThatCurlChangesHasANote(arguments: String, hasNote: Bool) throws {
        let imported = try Imported("curl https://a.com/x " + arguments)
        let request = try #require(imported.file.requests.first)
        #expect(!request.request.isDisabled)
        #expect(request.notes.map { $0.contains("without line ends") } == (hasNote ? [true] : []))
        #expect(request.notes.allSatisfy { !$0.hasPrefix("omitted") })
        #expect(try imported.built(files: ["f": ""]).count == 1)
    }

    /// A command whose body is lost would be sent with another meaning.
    @Test(arguments: ["--data-urlencode n@file", "-F name", "-G -d @file"])
    func aCommandWhoseBodyIsLostIsDisabled(arguments: String) throws {
        let imported = try Imported("curl https://a.com/pay -X POST " + arguments)
        #expect(imported.file.requests.map(\.request.isDisabled) == [true])
        #expect(imported.file.requests.first?.notes.isEmpty == false)
    }
}
