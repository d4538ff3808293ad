import Testing

@testable import ConvoyHTTPFile

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
            curl -T f.bin https://a.com/up -u 'ada:secret'
            curl https://a.com/json -d '{"plain": true}'
            """)
        let requests = try imported.built(files: ["f.bin": ""])
        #expect(
            requests.map { "\($0.method) \($0.url)" } == [
                "POST https://a.com/login", "GET https://a.com/x", "GET https://a.com/y",
                "GET https://a.com/search?q=a%20b%26c", "PUT https://a.com/up", "POST https://a.com/json",
            ])
        #expect(requests[0].bodyText == "{\"a\": {\"b\": \"{{c}}\"}}")
        #expect(requests[4].body == [.file("f.bin")])
        #expect(requests[5].bodyText == "{\"plain\": true}")
        #expect(requests[5].value(of: "content-type") == "application/x-www-form-urlencoded")
        #expect(imported.file.requests[0].notes == ["omitted: curl's option -k is not supported"])
        #expect(imported.file.requests[2].request.timeout == .milliseconds(2_500))
        #expect(imported.file.notes == ["omitted: 1 line that is not a curl command"])
        #expect(!imported.text.contains("secret"))
    }

    @Test(
        arguments: [
            // Chrome, "Copy as cURL (bash)".
            "curl 'https://a.com/x' \\\n  -H 'content-type: application/json' \\\n  --data-raw $'{\"t\":\"it\\'s \\u0021 \\ud83d\\ude00\\n%41\\\\\\\\\"}' \\\n  --compressed",
            // Chrome, "Copy as cURL (cmd)".
            "curl ^\"https://a.com/x^\" ^\n  -H ^\"content-type: application/json^\" ^\n  --data-raw ^\"^{^\\^\"t^\\^\":^\\^\"it's ^! 😀^\n\n%^41^\\^\\^\\^\\^\\^\"^}^\" ^\n  --compressed",
        ])
    func aCommandCopiedFromChromeIsOneRequest(command: String) throws {
        let request = try #require(try Imported(command).built().first)
        #expect(request.method == "POST")
        #expect(request.url == "https://a.com/x")
        #expect(request.value(of: "content-type") == "application/json")
        #expect(request.bodyText == "{\"t\":\"it's ! 😀\n%41\\\\\"}")
    }

    @Test func aWindowsCommandCopiedFromFirefoxIsOneRequest() throws {
        let command = #"curl "https://a.com/x" --compressed -X PUT -H "Accept: */*" --data-raw "{""a"":""b c""}""#
        let request = try #require(try Imported(command).built().first)
        #expect(request.method == "PUT")
        #expect(request.bodyText == #"{"a":"b c"}"#)
    }
}
