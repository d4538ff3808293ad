// Tests the parsing of challenges, valid and invalid.
import Foundation
import Testing

@testable import Convoy

/// Field values and the expected challenges.
///
/// A challenge is written as `scheme`, `scheme:token68` and `name=value`, joined with spaces.
struct ChallengeCase: Sendable, CustomTestStringConvertible {
    let values: [String]
    let expected: [String]

    var testDescription: String { values.joined(separator: " | ") }

    init(_ values: String..., expecting expected: [String]) {
        self.values = values
        self.expected = expected
    }

    static let wellFormed = [
        ChallengeCase("Basic realm=\"simple\"", expecting: ["basic realm=simple"]),
        ChallengeCase("BASIC REALM=simple", expecting: ["basic realm=simple"]),
        ChallengeCase("Negotiate", expecting: ["negotiate"]),
        ChallengeCase("Negotiate YII+/a==", expecting: ["negotiate:YII+/a=="]),
        // The example of RFC 9110, section 11.6.1.
        ChallengeCase(
            "Basic realm=\"simple\", Newauth realm=\"apps\", type=1, title=\"Login to \\\"apps\\\"\"",
            expecting: ["basic realm=simple", "newauth realm=apps title=Login to \"apps\" type=1"]),
        ChallengeCase(
            "Newauth realm=\"apps\", type=1 , title=x,Basic realm=\"simple\"",
            expecting: ["newauth realm=apps title=x type=1", "basic realm=simple"]),
        ChallengeCase(
            "Negotiate, NTLM TlRM=, Basic realm=x", "Digest realm=\"a, b\", nonce=c",
            expecting: ["negotiate", "ntlm:TlRM=", "basic realm=x", "digest nonce=c realm=a, b"]),
        ChallengeCase("Basic realm = \"a\" ,  charset\t=\tUTF-8", expecting: ["basic charset=UTF-8 realm=a"]),
        ChallengeCase(",, ,Basic realm=a,, ,Other", expecting: ["basic realm=a", "other"]),
        ChallengeCase("Basic realm=\"\"", expecting: ["basic realm="]),
        ChallengeCase("Basic realm=\"caf\u{E9} \u{1F511}\"", expecting: ["basic realm=caf\u{E9} \u{1F511}"]),
    ]

    static let malformed = [
        ChallengeCase("", expecting: []),
        ChallengeCase(" \t ", expecting: []),
        ChallengeCase(",,,", expecting: []),
        ChallengeCase("=", expecting: []),
        ChallengeCase("\"", expecting: []),
        ChallengeCase("\"a, Basic realm=b", expecting: []),
        ChallengeCase("realm=alone", expecting: []),
        ChallengeCase("realm=\"alone\", Basic realm=a", expecting: ["basic realm=a"]),
        ChallengeCase("Basic", expecting: ["basic"]),
        ChallengeCase("Basic realm", expecting: ["basic:realm"]),
        ChallengeCase("Basic realm=", expecting: ["basic:realm="]),
        ChallengeCase("Basic realm=,x=1", expecting: ["basic:realm= x=1"]),
        ChallengeCase("Basic realm=\"no end", expecting: ["basic"]),
        ChallengeCase("Basic realm=\"no end\\", expecting: ["basic"]),
        ChallengeCase("Basic realm=\"a\" x=\"b\"", expecting: ["basic realm=a x=b"]),
        ChallengeCase("Basic realm=a, realm=b", expecting: ["basic realm=a"]),
        ChallengeCase("Basic realm=a/b==", expecting: ["basic realm=a/b=="]),
        ChallengeCase("Basic/x realm=a, Other y=1", expecting: ["other y=1"]),
        ChallengeCase("\"a, b\", Basic realm=a", expecting: ["basic realm=a"]),
        ChallengeCase("@@@ , Basic realm=a", expecting: ["basic realm=a"]),
        ChallengeCase("\u{E9}\u{1F511}, Basic realm=a", expecting: ["basic realm=a"]),
    ]
}

extension AuthenticationChallenge {
    fileprivate var summary: String {
        ([scheme + (token68.map { ":" + $0 } ?? "")] + parameters.map { "\($0)=\($1)" }.sorted()).joined(separator: " ")
    }
}

struct AuthenticationChallengeTests {
    @Test(arguments: ChallengeCase.wellFormed + ChallengeCase.malformed)
    func challengesAreRead(test: ChallengeCase) {
        #expect(AuthenticationChallenge.all(in: test.values).map(\.summary) == test.expected)
        // Some transports join the lines of a field. Joining well-formed lines must not change the result.
        if ChallengeCase.wellFormed.contains(where: { $0.values == test.values }) {
            let joined = test.values.joined(separator: ", ")
            #expect(AuthenticationChallenge.all(in: [joined]).map(\.summary) == test.expected)
        }
    }

    @Test func parametersAloneAreRead() {
        let parameters = AuthenticationChallenge.parameters(in: "nextnonce=\"a,b\", qop=auth, nc=00000001")
        #expect(parameters == ["nextnonce": "a,b", "qop": "auth", "nc": "00000001"])
        #expect(AuthenticationChallenge.parameters(in: "\"\",=").isEmpty)
    }
}
