import Foundation
import Testing

@testable import Convoy

@Suite struct SecretWordsTests {
    private let words = SecretWords(HARRecorder.secretWords)

    @Test(arguments: [
        ("access_token", true), ("X-Api-Key", true), ("apiKey", true), ("X-Amz-Security-Token", true),
        ("X-Amz-Signature", true), ("X-Amz-Credential", true), ("AWSAccessKeyId", true), ("client_secret", true),
        ("PASSWORD", true), ("sig", true), ("Key", true), ("code", true), ("code_verifier", true),
        ("JSESSIONID", true), ("PHPSESSID", true), ("Ocp-Apim-Subscription-Key", true), ("x-functions-key", true),
        ("X-Session-Id", true), ("monkey", false), ("country_code", false), ("page", false), ("", false), ("-", false),
        ("Content-Type", false), ("ETag", false), ("Idempotency-Key", false),
    ])
    func secretNamesAreFoundByTheirWords(name: String, isSecret: Bool) { #expect(words.isSecret(name) == isSecret) }

    @Test func wordsCanBeAddedAndRemoved() {
        let words = SecretWords(HARRecorder.secretWords.union(["shibboleth", "", "--"]).subtracting(["token"]))
        #expect(words.isSecret("X-Shibboleth"))
        #expect(!words.isSecret("token"))
        #expect(!words.isSecret(""))
    }

    @Test(arguments: [
        ("a=1&token=x&b=2", "a=1&token=%3Credacted%3E&b=2"),
        ("token=x&token=y", "token=%3Credacted%3E&token=%3Credacted%3E"),
        ("token", "token"), ("token=", "token="), ("", ""), ("&&", "&&"), ("%74oken=x", "%74oken=%3Credacted%3E"),
        ("api+key=x=y", "api+key=%3Credacted%3E"), ("filter%5Btoken%5D=x", "filter%5Btoken%5D=%3Credacted%3E"),
        ("%FFtoken=x", "%FFtoken=%3Credacted%3E"), ("q=token", "q=token"),
    ])
    func valuesOfAQueryAreReplaced(query: String, redacted: String) {
        #expect(words.redacted(query: query) == redacted)
    }

    @Test(arguments: [
        ("https://me:pw@h/a?sig=x#f", "https://h/a?sig=%3Credacted%3E#f"),
        ("/b?x=1&sig=x", "/b?x=1&sig=%3Credacted%3E"),
        ("https://h/token", "https://h/token"), ("", ""),
        ("https://h/#access_token=x&page=2", "https://h/#access_token=%3Credacted%3E&page=2"),
    ])
    func secretsOfAReferenceAreReplaced(reference: String, redacted: String) {
        #expect(words.redacted(reference: reference) == redacted)
    }

    @Test(arguments: [
        ("<https://h/?token=x&page=2>; rel=\"next\"", "<https://h/?token=%3Credacted%3E&page=2>; rel=\"next\""),
        ("</a?sig=x>; rel=prev, </b?sig=y>", "</a?sig=%3Credacted%3E>; rel=prev, </b?sig=%3Credacted%3E>"),
        ("no reference", "no reference"), ("<open?sig=x", "<open?sig=x"), ("><>", "><>"), ("", ""),
    ])
    func secretsOfLinksAreReplaced(value: String, redacted: String) {
        #expect(words.redacted(links: value) == redacted)
    }
}
