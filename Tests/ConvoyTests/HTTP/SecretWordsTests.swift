import Convoy
import Foundation
import Testing

@Suite struct SecretWordsTests {
    private let words = SecretWords(SecretWords.standardWords)

    @Test(arguments: [
        ("access_token", true), ("X-Api-Key", true), ("apiKey", true), ("X-Amz-Security-Token", true),
        ("X-Amz-Signature", true), ("X-Amz-Credential", true), ("AWSAccessKeyId", true), ("client_secret", true),
        ("PASSWORD", true), ("sig", true), ("Key", true), ("code", true), ("code_verifier", true),
        ("JSESSIONID", true), ("PHPSESSID", true), ("Ocp-Apim-Subscription-Key", true), ("x-functions-key", true),
        ("X-Session-Id", true), ("monkey", false), ("country_code", false), ("page", false), ("", false), ("-", false),
        ("Content-Type", false), ("ETag", false), ("Idempotency-Key", false),
        // Each word of a name counts.
        ("stripe_key_live", true), ("STRIPE_KEY_LIVE", true), ("X-Stripe-Key-Live", true), ("stripeKeyLive", true),
        ("stripe key live", true), ("db_pass", true), ("X-Auth-Info", true), ("aws_creds", true), ("key_2", true),
        ("keyboard", false), ("keyword", false), ("author", false), ("design", false), ("passage", false),
        ("key_id", false), ("sort_key", false), ("Surrogate-Key", false), ("Sec-WebSocket-Key", false),
        ("startkey", false), ("key-marker", false), ("WWW-Authenticate", false), ("zip_code", false),
        // Long words count anywhere: too much is hidden rather than too little.
        ("page_token_count", true), ("signature_version", true),
    ])
    func secretNamesAreFoundByTheirWords(name: String, isSecret: Bool) { #expect(words.isSecret(name) == isSecret) }

    @Test func wordsCanBeAddedAndRemoved() {
        let words = SecretWords(SecretWords.standardWords.union(["shibboleth", "", "--"]).subtracting(["token"]))
        #expect(words.isSecret("X-Shibboleth"))
        #expect(!words.isSecret("token"))
        #expect(!words.isSecret(""))
        let others = SecretWords(SecretWords.standardWords.union(["uid"]).subtracting(["key"]))
        #expect(others.isSecret("user_uid") && !others.isSecret("fluid"))
        #expect(!others.isSecret("stripe_key_live") && !others.isSecret("stripekey"))
    }

    @Test(arguments: [
        ("returns a token", true), ("all tests pass", false), ("has a key", false), ("key", true),
    ])
    func shortWordsOfASentenceAreNoSecrets(sentence: String, isSecret: Bool) {
        #expect(words.isSecret(sentence: sentence) == isSecret)
    }

    @Test(arguments: [
        ("a=1&token=x&b=2", "a=1&token=%3Credacted%3E&b=2"),
        ("token=x&token=y", "token=%3Credacted%3E&token=%3Credacted%3E"), ("token", "token"), ("token=", "token="),
        ("", ""), ("&&", "&&"), ("%74oken=x", "%74oken=%3Credacted%3E"), ("api+key=x=y", "api+key=%3Credacted%3E"),
        ("filter%5Btoken%5D=x", "filter%5Btoken%5D=%3Credacted%3E"), ("%FFtoken=x", "%FFtoken=%3Credacted%3E"),
        ("q=token", "q=token"), ("stripe_key_live=x&keyboard=y", "stripe_key_live=%3Credacted%3E&keyboard=y"),
    ])
    func valuesOfAQueryAreReplaced(query: String, redacted: String) {
        #expect(words.redacted(query: query) == redacted)
    }

    @Test(arguments: [
        ("https://me:pw@h/a?sig=x#f", "https://h/a?sig=%3Credacted%3E#f"),
        ("/b?x=1&sig=x", "/b?x=1&sig=%3Credacted%3E"), ("https://h/token", "https://h/token"), ("", ""),
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
