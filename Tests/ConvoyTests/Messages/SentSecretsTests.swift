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

    /// The text has ten `a`s where the secret has eight, and it breaks off before the end of the secret.
    @Test func aClippedSecretAfterItsOwnCharactersIsHidden() {
        #expect(SentSecrets(["aaaaaaaabcd"]).hidden(in: "aaaaaaaaaabc...") == "aa<redacted>...")
    }

    @Test(arguments: [
        "k/y+1 2&3", "k%2Fy%2B1%202%263", "k%2fy%2b1%202%263", "k%2Fy%2B1+2%263", #"k\/y+1 2&3"#, "k/y+1 2&amp;3",
    ])
    func encodedSecretsAreHidden(spelling: String) {
        for secret in ["k/y+1 2&3", "k%2Fy%2B1%202%263"] {
            #expect(SentSecrets([secret]).hidden(in: "no: \(spelling).") == "no: <redacted>.")
        }
    }

    @Test func shortAndOrdinaryWordsAreNotHidden() {
        #expect(SentSecrets(["abc", "true", "null"]).hidden(in: "abc true null") == "abc true null")
    }

    @Test func secretsAreFoundByTheirNames() throws {
        let request = Request<Data>.get("http://stub/a?stripe_key_live=k%2F1&page=2")
            .header("Authorization", "Basic YWRhOmxvdmVsYWNl").header("Cookie", "theme=dark; sid=abcd")
            .header("X-Api-Key", "a=b c").header("X-Trace", "17")
        let found = try PreparedRequest(request.core, baseURL: nil).secrets()
        #expect(found == ["k%2F1", "k/1", "YWRhOmxvdmVsYWNl", "lovelace", "dark", "abcd", "a", "b", "c"])
    }
}
