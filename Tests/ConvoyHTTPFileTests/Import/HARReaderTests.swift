import Convoy
import ConvoyHTTPFile
import Testing

/// Tests the import of requests from HTTP archives.
@Suite struct HARReaderTests {
    @Test func aRequestOfABrowserLosesTheBrowsersFields() throws {
        let imported = try Imported(
            har(
                """
                {"request": {"method": "POST", "url": "https://example.com/a?b=c#d", "headers": [
                  {"name": ":authority", "value": "example.com"}, {"name": "Host", "value": "example.com"},
                  {"name": "sec-fetch-mode", "value": "cors"}, {"name": "Accept-Encoding", "value": "gzip"},
                  {"name": "Content-Length", "value": "2"}, {"name": "Connection", "value": "close"},
                  {"name": "Accept", "value": "text/*"}],
                  "postData": {"mimeType": "text/plain", "text": "# x"}}}
                """))
        let text = "POST https://example.com/a?b=c\nAccept: text/*\nContent-Type: text/plain\n\n# x"
        #expect(try imported.built().map(\.text) == [text])
    }

    @Test func assetsAndOtherSchemesAreOmittedByDefault() throws {
        func entry(_ url: String, _ more: String = "") -> String {
            "{\"request\": {\"method\": \"GET\", \"url\": \"\(url)\"}\(more)}"
        }
        let document = har(
            entry("https://a.com/x.png"), entry("https://a.com/y", ", \"_resourceType\": \"font\""),
            entry("https://a.com/z", ", \"response\": {\"content\": {\"mimeType\": \"text/css\"}}"),
            entry("wss://a.com/"), entry("data:text/plain,x"), entry("https://a.com/api"), entry("https://b.org/api"))
        let imported = try Imported(document)
        #expect(try imported.built().map(\.url) == ["https://a.com/api", "https://b.org/api"])
        #expect(imported.file.notes.count == 2)
        #expect(try Imported(document) { $0.keepsAssets = true }.built().count == 5)
        #expect(try Imported(document) { $0.hosts = ["*.org"] }.built().map(\.url) == ["https://b.org/api"])
        #expect(throws: Defect.self) { try Imported(document) { $0.hosts = ["c.*"] } }
    }

    @Test func bodiesOfParametersAndBytesAreKept() throws {
        func entry(_ type: String, _ data: String) -> String {
            let data = #"{"mimeType": "\#(type)", \#(data)}"#
            return #"{"request": {"method": "POST", "url": "http://a/", "postData": \#(data)}}"#
        }
        let file = #"{"name": "c", "fileName": "d.txt", "contentType": "text/plain", "value": "e"}"#
        let imported = try Imported(
            har(
                entry("application/x-www-form-urlencoded", #""params": [{"name": "a b", "value": "c&d"}]"#),
                entry("multipart/form-data", #""params": [{"name": "a", "value": "b"}, \#(file)]"#),
                entry("text/plain", #""encoding": "base64", "text": "aGk=""#),
                entry("image/png", #""encoding": "base64", "text": "iVBO/w==""#)))
        let requests = try imported.built(files: ["body-1.bin": ""])
        #expect(requests[0].bodyText == "a%20b=c%26d")
        #expect(
            requests[1].bodyText == """
                --convoy-parts-of-a-form\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r
                --convoy-parts-of-a-form\r\nContent-Disposition: form-data; name="c"; filename="d.txt"\r
                Content-Type: text/plain\r\n\r\ne\r\n--convoy-parts-of-a-form--
                """)
        #expect(requests[2].bodyText == "hi")
        #expect(requests[3].body == [.file("body-1.bin")])
        #expect(imported.file.attachments.map(\.bytes) == [[0x89, 0x50, 0x4E, 0xFF]])
        var named = imported.file
        named.nameAttachments(after: "shop")
        #expect(named.attachments.map(\.path) == ["shop-body-1.bin"])
        #expect(HTTPFileWriter.write(named).text.contains("\n< shop-body-1.bin\n"))
    }

    // MARK: Values of earlier responses

    private static func exchange(
        _ url: String, fields: String = "", body: String = "", cookie: String = "", answer: String = ""
    ) -> String {
        let texts = [body, answer].map { #"{"mimeType": "application/json", "text": \#($0.jsonQuoted)}"# }
        return """
            {"request": {"method": "POST", "url": "\(url)", "headers": [\(fields)], "postData": \(texts[0])},
             "response": {"headers": [{"name": "Set-Cookie", "value": "\(cookie)"}], "content": \(texts[1])}}
            """
    }

    @Test func valuesOfAnswersBecomeReferences() throws {
        let imported = try Imported(
            har(
                Self.exchange(
                    "https://a.com/login", cookie: "sid=s1; Path=/",
                    answer: #"{"data": [{"access-token": "eyJhbG.c10.Zm9v", "id": 1234567890}], "ok": "success", "#
                        + #""cursor": "aB3/xY+z0=="}"#),
                Self.exchange(
                    "https://a.com/users/1234567890?ok=success&c=aB3%2FxY%2Bz0%3D%3D",
                    fields: #"{"name": "Authorization", "value": "Bearer eyJhbG.c10.Zm9v"}, "#
                        + #"{"name": "Cookie", "value": "sid=s1; b=2"}"#, body: #"{"t": "eyJhbG.c10.Zm9v"}"#)))
        #expect(
            imported.text.contains(
                "POST https://a.com/users/{{post_login.response.body.$.data[0].id}}?ok=success"
                    + "&c={{post_login.response.body.$.cursor}}"))
        #expect(imported.text.contains("Authorization: Bearer {{post_login.response.body.$.data[0].access-token}}"))
        #expect(imported.text.contains("Cookie: sid={{post_login.response.cookies.sid}}; b={{cookie_b}}"))
        #expect(imported.text.contains("{\"t\": \"{{post_login.response.body.$.data[0].access-token}}\"}"))
        let plan = imported.plan()
        #expect(plan.problems == [])
        #expect(plan.requests.map(\.needs) == [[], [0]])
    }

    /// The import creates no reference for a value that the client already sent, a date, a word, or a part of a
    /// longer word.
    @Test func knownOrCommonValuesDoNotBecomeReferences() throws {
        let imported = try Imported(
            har(
                Self.exchange(
                    "https://a.com/k3yK3yk3y1/x",
                    answer: "{\"echo\": \"k3yK3yk3y1\", \"day\": \"2024-01-02T03:04:05\", \"kind\": \"application\"}"),
                Self.exchange("https://a.com/k3yK3yk3y1/y?day=2024-01-02T03:04:05&kind=application"),
                Self.exchange("https://a.com/z", answer: "{\"id\": \"abc123def456\"}"),
                Self.exchange("https://a.com/xabc123def456x")))
        #expect(!imported.text.contains(".response."))
    }
}
