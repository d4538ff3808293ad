import Testing

@testable import ConvoyHTTPFile

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
        let request = try #require(built(text, surroundings { $0.given = ["name": "x"] }).first)
        #expect(request.method == "PUT")
        #expect(request.url == "https://example.com/api?x=1")
        #expect(request.fields.map(\.value) == ["application/json", "*/*"])
        #expect(request.bodyText == "{\"text\":\"it's\nx\"}")
        #expect(request.output?.path == "out.json")
    }

    @Test(
        arguments: [
            ("curl https://a/", "GET", "https://a/", ""), ("curl -I https://a/", "HEAD", "https://a/", ""),
            ("curl https://a/ -d a=1 -d b=2", "POST", "https://a/", "a=1&b=2"),
            ("curl -G https://a/ -d a=1 -d b=2", "GET", "https://a/?a=1&b=2", ""),
            ("curl --url=https://a/ --json '{\"a\":1}'", "POST", "https://a/", "{\"a\":1}"),
            ("curl -XDELETE https://a/", "DELETE", "https://a/", ""),
            ("curl https://a/ \\\n  --data \"a \\\"b\\\" \\$c\"", "POST", "https://a/", "a \"b\" $c"),
        ])
    func optionsHaveTheMeaningOfCurl(command: String, method: String, url: String, body: String) throws {
        let request = try #require(built(command).first)
        #expect(request.method == method)
        #expect(request.url == url)
        #expect(request.bodyText == body)
    }

    @Test(arguments: [
        ("-d", "a=bc"), ("--data", "a=bc"), ("--data-ascii", "a=bc"), ("--data-binary", nil), ("--json", nil),
    ])
    func theFileOfDataIsReadAsByCurl(option: String, body: String?) throws {
        let files = surroundings(files: ["f.txt": "a=\r\nb\0c\n"])
        let request = try #require(built("curl https://a/ \(option) @f.txt", files).first)
        #expect(body.map { request.bodyText == $0 } ?? (request.body == [.file("f.txt")]))
    }

    @Test func userCookieAndFormBecomeFieldsAndParts() throws {
        let files = surroundings(files: ["a.txt": "x"])
        let request = try #require(
            built("curl https://a/ -u user:pw -b a=b -A me -F name=text -F 'file=@a.txt'", files).first)
        #expect(request.method == "POST")
        #expect(request.value(of: "Authorization") == "Basic dXNlcjpwdw==")
        #expect(request.value(of: "Cookie") == "a=b")
        #expect(request.value(of: "User-Agent") == "me")
        #expect(request.body.count == 3)
        #expect(request.body[1] == .file("a.txt"))
    }
}
