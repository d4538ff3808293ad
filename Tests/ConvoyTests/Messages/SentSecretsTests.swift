import Foundation
import Testing

@testable import Convoy

@Suite struct SentSecretsTests {
    @Test(arguments: [
        ("key sk_live_1234 is wrong", "key <redacted> is wrong"), ("key sk_live_12... is", "key <redacted>... is"),
        ("ends with sk_live_1", "ends with <redacted>"), ("sk_live_9 and sk_liv", "sk_live_9 and sk_liv"),
    ])
    func secretsThatWereClippedAreHiddenToo(text: String, shown: String) {
        #expect(SentSecrets(["sk_live_1234"]).hidden(in: text) == shown)
    }

    @Test(arguments: ["%", "%2", "%2...", "\\", "\\u0", "&#x2...", "&am", "...\n", "...\"}\r\n", "%2...\n"])
    func secretsThatWereClippedInAnEscapeAreHiddenToo(rest: String) {
        #expect(SentSecrets(["abcdefgh/ij"]).hidden(in: "no: abcdefgh\(rest)").hasPrefix("no: <redacted>"))
    }

    @Test(arguments: [" more", "% more", "%2 more", "&am more", "&signature0000001=1", "\n..."])
    func aTextThatOnlyBeginsLikeASecretIsUnchanged(rest: String) {
        #expect(SentSecrets(["abcdefgh/ij"]).hidden(in: "no: abcdefgh\(rest)") == "no: abcdefgh\(rest)")
    }

    /// The text has ten `a`s where the secret has eight, and it breaks off before the end of the secret.
    @Test func aClippedSecretAfterItsOwnCharactersIsHidden() {
        #expect(SentSecrets(["aaaaaaaabcd"]).hidden(in: "aaaaaaaaaabc...") == "aa<redacted>...")
    }

    @Test(arguments: [
        "k/y+1 2&3", "k%2Fy%2B1%202%263", "k%2fy%2b1%202%263", "k%2Fy%2B1+2%263", #"k\/y+1 2&3"#, "k/y+1 2&amp;3",
        "k%252Fy%252B1%25202%25263", "k&#47;y&#x2B;1 2&#038;3", #"k\u002fy\u002B1\u00202\u00263"#, "k%2Fy+1 2&#x26;3",
        #"k\u0026#47;y+1 2\u0026amp;3"#,
    ])
    func encodedSecretsAreHidden(spelling: String) {
        for secret in ["k/y+1 2&3", "k%2Fy%2B1%202%263"] {
            #expect(SentSecrets([secret]).hidden(in: "no: \(spelling).") == "no: <redacted>.")
        }
    }

    @Test(arguments: ["%", "100%zz", "&;", "&#;", "&#x110000;", "\\", "\\u12", "\\q", "%e4%", "a\u{301}%41"])
    func aTextWithBrokenEscapesIsUnchanged(text: String) {
        #expect(SentSecrets(["s3cret"]).hidden(in: text) == text)
        #expect(SentSecrets(["s3cret"]).hidden(in: "\(text)s3cret\(text)") == "\(text)<redacted>\(text)")
    }

    @Test func secretsThatOverlapAreHiddenTogether() {
        #expect(
            SentSecrets(["abcdef", "defghi"]).hidden(in: "-abcdefghi-abcdefdefghi")
                == "-<redacted>-<redacted><redacted>")
    }

    @Test func aTextOfNestedEscapesTakesLinearTime() {
        let text = "%" + String(repeating: "25", count: 100_000)
        #expect(SentSecrets(["s3cret"]).hidden(in: text + "s3cret") == text + "<redacted>")
    }

    @Test func shortAndOrdinaryWordsAreNotHidden() {
        #expect(SentSecrets(["abc", "true", "null"]).hidden(in: "abc true null") == "abc true null")
    }

    @Test func secretsAreFoundByTheirNames() throws {
        let request = Request<Data>.get("http://stub/a?stripe_key_live=k%2F1&page=2")
            .header("Authorization", "Basic YWRhOmxvdmVsYWNl").header("Cookie", "theme=dark; sid=abcd")
            .header("X-Api-Key", "a=b c").header("X-Trace", "17")
        let found = try PreparedRequest(request.core, baseURL: nil).secrets()
        #expect(found == ["k%2F1", "k/1", "YWRhOmxvdmVsYWNl", "lovelace", "dark", "abcd", "a=b", "a", "b", "c"])
    }

    @Test(
        arguments: [
            ("http://stub/", "Bearer ab=cd", ["ab=cd", "cd"]), ("http://stub/", "Bearer abcd==", ["abcd==", "abcd"]),
            ("http://ada:love%20lace@stub/", nil, ["love lace", "love%20lace", "YWRhOmxvdmUgbGFjZQ=="]),
            ("http://t0ken@stub/", nil, ["t0ken", "dDBrZW46"]),
            ("http://t0ken:@stub/", nil, ["t0ken", "dDBrZW46"]),
            ("http://stub/", #"Digest username="ada", response="0123abcd""#, []),
        ] as [(String, String?, Set<String>)])
    func tokensAndCredentialsOfTheURLAreFound(url: String, field: String?, expected: Set<String>) throws {
        let request = Request<Data>.get(try #require(URL(string: url)))
        let core = (field.map { request.header("Authorization", $0) } ?? request).core
        #expect(try PreparedRequest(core, baseURL: nil).secrets() == expected)
    }

    @Test(
        arguments: [("ada", "love lace", ["love lace", "love%20lace", "YWRhOmxvdmUgbGFjZQ=="]), (nil, nil, [])]
            as [(String?, String?, Set<String>)])
    func credentialsOfAProxyAreFound(user: String?, password: String?, expected: Set<String>) {
        let proxy = ConnectionOptions.Proxy.server(URL(filePath: "/"), userName: user, password: password)
        #expect(proxy.secrets == expected)
        #expect(ConnectionOptions.Proxy.direct.secrets == [])
    }

    @Test(arguments: [
        (#"{"max_tokens": 131072, "token_type": "Bearer", "auth": {"type": "password"}}"#, []),
        (#"{"key": "username", "session": {"page": "https://a/b"}, "password": "abc"}"#, []),
        (
            #"{"keys": ["id-000001", {"a": "id-000002"}], "a": [{"password": "id-000003"}]}"#,
            ["id-000001", "id-000003"]
        ),
    ])
    func onlySecretsOfJSONAreHidden(json: String, secrets: [String]) {
        let found = RequestBody.data(Data(json.utf8)).secrets(.standard, contentType: "application/json")
        #expect(found.sorted() == secrets)
    }

    @Test func theSecretsOfAFormWithAFileAreHidden() {
        let part = "--b\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\ns3cret1\r\n--b\r\n"
        let file = RequestBody.file(URL(filePath: "/nowhere"), byteCount: 1)
        let body = RequestBody.joined([.data(Data(part.utf8)), file, .data(Data("\r\n--b--\r\n".utf8))])
        #expect(body.secrets(.standard, contentType: "multipart/form-data; boundary=b") == ["s3cret1"])
        #expect(file.secrets(.standard, contentType: "multipart/form-data; boundary=b") == [])
    }

    @Test func oneHundredSecretsOfABodyAreHiddenTheLongestFirst() {
        let form = (0..<1_000).map { "token=abcdef\($0)" }.joined(separator: "&")
        let secrets = RequestBody.data(Data(form.utf8)).secrets(
            .standard, contentType: "application/x-www-form-urlencoded")
        #expect(secrets.count == 100 && secrets.allSatisfy { $0.count == 9 })
    }
}
