import Testing

@testable import ConvoyHTTPFile

/// Tests how the import replaces secrets of requests.
@Suite struct SecretTests {
    private static let document = """
        curl https://u:hunter2@a.com/x -H 'Authorization: Bearer tok.en.1'
        curl 'https://a.com/y?api_key=k3y&page=2' -H 'Authorization: Bearer tok.en.1' -H 'X-Api-Key: other'
        curl https://a.com/z -b 'sid=abc; theme=dark' --json '{"password": "p\\"w", "name": "ada"}'
        curl https://a.com/f -d 'client_secret=cs&grant_type=password' -u 'ada:lovelace'
        """

    @Test func eachSecretIsAVariableAndEqualOnesAreOne() throws {
        let imported = try Imported(Self.document)
        for secret in ["hunter2", "tok.en.1", "k3y", "other", "abc", "p\\\"w", "=cs", "lovelace"] {
            #expect(!imported.text.contains(secret), "\(secret)")
        }
        #expect(
            imported.file.variables.map(\.name) == [
                "token", "password", "x_api_key", "api_key", "cookie", "password_2", "basic", "client_secret",
            ])
        #expect(imported.text.contains("@x_api_key = {{$processEnv X_API_KEY}}\n"))
        #expect(imported.text.contains("\"name\": \"ada\""))
        #expect(imported.text.contains("grant_type=password"))
        #expect(imported.plan().problems == [])
    }

    @Test func secretsAreKeptWithTheOption() throws {
        let imported = try Imported(Self.document) { $0.keepsSecrets = true }
        let requests = try built(imported.text)
        #expect(requests[0].url == "https://u:hunter2@a.com/x")
        #expect(requests[1].url == "https://a.com/y?api_key=k3y&page=2")
        #expect(requests[2].value(of: "cookie") == "sid=abc; theme=dark")
        #expect(requests[2].bodyText == #"{"password": "p\"w", "name": "ada"}"#)
        #expect(requests[3].value(of: "authorization") == "Basic YWRhOmxvdmVsYWNl")
    }

    /// A variable with a given value does not need the environment.
    @Test func aGivenVariableReplacesTheEnvironment() throws {
        let text = "@t = {{$processEnv CONVOY_NO_SUCH}}\nGET http://a/?t={{t}}"
        #expect(try built(text, surroundings { $0.given = ["t": "x"] }).map(\.url) == ["http://a/?t=x"])
        #expect(plan(text).problems.count == 1)
    }
}
