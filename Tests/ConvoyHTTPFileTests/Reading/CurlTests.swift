import ConvoyHTTPFile
import Testing

/// Tests curl commands that are pasted into a file.
@Suite struct CurlTests {
    @Test func aCommandOfABrowserIsARequest() throws {
        let text = """
            ###
            # @name pasted
            curl 'https://example.com/api?x=1' \\
              -X 'PUT' \\
              -H 'content-type: application/json' \\
              -H "Accept: */*" \\
              --data-raw $'{"text":"it\\'s\\n{{name}}"}' --compressed -sSL

            >> out.json
            """
        let request = try builtLast(text, surroundings { $0.given = ["name": "x"] })
        let fields = "content-type: application/json\nAccept: */*"
        #expect(request.text == "PUT https://example.com/api?x=1\n\(fields)\n\n{\"text\":\"it's\nx\"}")
        #expect(request.output?.path == "out.json")
    }

    @Test(arguments: [
        ("-d", "a=bc"), ("--data", "a=bc"), ("--data-ascii", "a=bc"), ("--data-binary", nil), ("--json", nil),
    ]) func theFileOfDataIsReadAsByCurl(option: String, body: String?) throws {
        let files = surroundings(files: ["f.txt": "a=\r\nb\0c\n"])
        let text = try builtLast("curl https://a/ \(option) @f.txt", files).text
        #expect(text.hasSuffix("\n\n" + (body ?? "<f.txt>")))
    }

    private static let value = "1&b=2; c\""
    private static let encoded = "1%26b%3D2%3B%20c%22"

    @Test(arguments: [
        ("-d 'q={{x}}'", "q=\(encoded)"), ("--data-urlencode 'q={{x}}'", "q=\(encoded)"),
        ("--data-urlencode '{{x}}'", encoded), ("--data-urlencode 'q=a b{{x}}&'", "q=a%20b\(encoded)%26"),
        ("--data-urlencode 'n@m={{x}}'", "n@m=\(encoded)"), ("--data-urlencode '={{x}}'", encoded),
        ("-H 'Content-Type: text/plain' --data-urlencode 'q={{x}}'", "q=\(encoded)"),
        ("--data-urlencode 'q={{%x}}'", "q=\(encoded)"), ("--data-urlencode 'q={{&x}}'", "q=\(value)"),
        ("--data-urlencode $'q=a\\r\\n'", "q=a%0D%0A"),
    ]) func aValueIsOneValueOfTheData(options: String, body: String) throws {
        for values in [surroundings { $0.columns = ["x"] }, surroundings { $0.given = ["x": Self.value] }] {
            let request = { (options: String) in
                try builtLast("curl https://a/ " + options, values, row: ["x": Self.value])
            }
            #expect(try request(options).bodyText == body)
            guard options.hasPrefix("--data-urlencode"), !options.contains("{{&") else { continue }
            #expect(try request("-G " + options).url == "https://a/?" + body)
        }
    }

    /// Without an expected text, the value is refused.
    @Test(arguments: [
        ("-F 'a=b;filename={{x}}'", value, #"; name="a"; filename="1&b=2; c%22""#),
        ("-F 'a=b;filename=\"{{x}}.txt\"'", value, #"; name="a"; filename="1&b=2; c%22.txt""#),
        ("-F 'a=b;type={{x}}'", "text/html", "Content-Type: text/html"), ("-F 'a=b;type={{x}}'", value, nil),
        ("-F 'a={{x}};type=a/b'", value, "Content-Type: a/b"), ("-F 'a={{x}}'", value, "\r\n\r\n\(value)\r\n"),
        ("-b 'a={{x}}'", "1; b=2", nil), ("-b 'a={{&x}}'", "1; b=2", "\nCookie: a=1; b=2"),
        ("-b 'a={{x}}'", "1", "\nCookie: a=1"), ("-b 'a={{x}}' -b c=d", "1;\u{301}", nil),
        ("-H 'Cookie: {{x}}'", "1; b=2", "\nCookie: 1; b=2"), ("-u '{{x}}:pw'", "a:b", nil),
        ("-u '{{x}}:pw'", "a b", nil), ("--digest -u '{{x}}:pw'", "a:b", nil),
        ("-u 'user:{{x}}'", "p:q r", "\nAuthorization: Basic dXNlcjpwOnEgcg=="),
        ("-u '{{x}}'", "a:b", "\nAuthorization: Basic YTpi"),
    ]) func aValueIsOneValueOfItsOption(options: String, value: String, text: String?) throws {
        let values = surroundings { $0.given = ["x": value] }
        guard let text else {
            #expect(throws: Problem.self) { try built("curl https://a/ \(options)", values) }
            return
        }
        let sent = try #require(built("curl https://a/ \(options)", values).first).text
        #expect(text.hasPrefix("\n") ? sent == "GET https://a/" + text : sent.contains(text))
        #expect(sent.ranges(of: "Content-Disposition").count == (options.hasPrefix("-F") ? 1 : 0))
    }

    /// A field by `-H` replaces that of another option, wherever it stands.
    @Test(arguments: [
        ("--json '{}'", "Content-Type", "x/y"), ("--json '{}'", "Accept", "x/y"),
        ("-u a:b", "Authorization", "Bearer x"), ("--oauth2-bearer t", "Authorization", "Bearer x"),
        ("-b a=1", "Cookie", "c=2"), ("-A a", "User-Agent", "b"), ("-e https://b/", "Referer", "https://c/"),
        ("-r 0-1", "Range", "bytes=2-3"),
    ]) func aFieldReplacesThatOfAnotherOption(option: String, name: String, value: String) throws {
        let field = "-H '\(name): \(value)'"
        for options in ["\(option) \(field)", "\(field) \(option)"] {
            let request = try #require(built("curl https://a/ " + options, surroundings()).first)
            #expect(request.fields.values(of: name) == [value], "\(options)")
        }
    }

    @Test func aFileOfAFormThatAVariableNamesHasThisName() throws {
        let files = surroundings({ $0.given = ["x": "a.txt"] }, files: ["d/a.txt": "x"])
        #expect(try builtLast("curl https://a/ -F 'file=@d/{{x}}'", files).text.contains(#"filename="a.txt""#))
    }
}
