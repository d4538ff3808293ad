// Tests the parsing of challenges, valid and invalid.
import Foundation
import Testing

@testable import Convoy

extension AuthenticationChallenge {
    fileprivate var summary: String {
        ([scheme] + parameters.map { "\($0)=\($1)" }.sorted()).joined(separator: " ")
    }
}

struct AuthenticationChallengeTests {
    /// Field values and the expected challenges.
    ///
    /// A challenge is written as `scheme` and `name=value`, joined with spaces; a token68 is skipped.
    @Test(
        arguments: [
            (["Basic realm=\"simple\""], ["basic realm=simple"]), (["BASIC REALM=simple"], ["basic realm=simple"]),
            (["Negotiate"], ["negotiate"]), (["Negotiate YII+/a=="], ["negotiate"]),
            // The example of RFC 9110, section 11.6.1.
            (
                ["Basic realm=\"simple\", Newauth realm=\"apps\", type=1, title=\"Login to \\\"apps\\\"\""],
                ["basic realm=simple", "newauth realm=apps title=Login to \"apps\" type=1"]
            ),
            (
                ["Newauth realm=\"apps\", type=1 , title=x,Basic realm=\"simple\""],
                ["newauth realm=apps title=x type=1", "basic realm=simple"]
            ),
            (
                ["Negotiate, NTLM TlRM=, Basic realm=x", "Digest realm=\"a, b\", nonce=c"],
                ["negotiate", "ntlm", "basic realm=x", "digest nonce=c realm=a, b"]
            ),
            (["Basic realm = \"a\" ,  charset\t=\tUTF-8"], ["basic charset=UTF-8 realm=a"]),
            ([",, ,Basic realm=a,, ,Other"], ["basic realm=a", "other"]), (["Basic realm=\"\""], ["basic realm="]),
            (["Basic realm=\"caf\u{E9} \u{1F511}\""], ["basic realm=caf\u{E9} \u{1F511}"]),
        ] as [([String], [String])])
    func wellFormedChallengesAreRead(values: [String], expected: [String]) {
        #expect(AuthenticationChallenge.all(in: values).map(\.summary) == expected)
        // Some transports join the lines of a field.
        #expect(AuthenticationChallenge.all(in: [values.joined(separator: ", ")]).map(\.summary) == expected)
    }

    @Test(
        arguments: [
            ("", []), (" \t ", []), (",,,", []), ("=", []), ("\"", []), ("\"a, Basic realm=b", []), ("realm=alone", []),
            ("realm=\"alone\", Basic realm=a", ["basic realm=a"]), ("Basic", ["basic"]),
            ("Basic realm", ["basic"]), ("Basic realm=", ["basic"]),
            ("Basic realm=,x=1", ["basic x=1"]), ("Basic realm=\"no end", ["basic"]),
            ("Basic realm=\"no end\\", ["basic"]), ("Basic realm=\"a\" x=\"b\"", ["basic realm=a x=b"]),
            ("Basic realm=a, realm=b", ["basic realm=a"]), ("Basic realm=a/b==", ["basic realm=a/b=="]),
            ("Basic/x realm=a, Other y=1", ["other y=1"]), ("\"a, b\", Basic realm=a", ["basic realm=a"]),
            ("@@@ , Basic realm=a", ["basic realm=a"]), ("\u{E9}\u{1F511}, Basic realm=a", ["basic realm=a"]),
        ] as [(String, [String])])
    func malformedChallengesAreRead(value: String, expected: [String]) {
        #expect(AuthenticationChallenge.all(in: [value]).map(\.summary) == expected)
    }

    @Test func parametersAloneAreRead() {
        let parameters = AuthenticationChallenge.parameters(in: "nextnonce=\"a,b\", qop=auth, nc=00000001")
        #expect(parameters == ["nextnonce": "a,b", "qop": "auth", "nc": "00000001"])
        #expect(AuthenticationChallenge.parameters(in: "\"\",=").isEmpty)
    }
}
