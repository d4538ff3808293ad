// Tests Basic and Digest with sequential requests.
import Foundation
import Testing

@testable import Convoy

struct PasswordAuthenticatorTests {
    private let basic = PasswordAuthenticator.basicField
    private let authenticator: PasswordAuthenticator

    init() throws { authenticator = try PasswordAuthenticator.mufasa() }

    @Test func basicIsSentWhenAskedForAndBelowThatPathFromThenOn() async throws {
        func sent(_ url: String) async throws -> [String?] {
            try await exchange(.made(url), through: authenticator) {
                $0.authorization == nil ? .challenge("Basic realm=\"r\"") : .ok
            }.sent
        }
        #expect(try await sent("http://example.org/a/b") == [nil, basic])
        #expect(try await sent("http://example.org/a/c?d") == [basic])
        #expect(try await sent("http://example.org/a/c/d") == [basic])
        // Other directories, ports and schemes are outside the protection space (RFC 7617, section 2.2).
        #expect(try await sent("http://example.org/b") == [nil, basic])
        #expect(try await sent("http://example.org/a") == [basic])
        #expect(try await sent("http://example.org:8080/a/b") == [nil, basic])
        #expect(try await sent("https://example.org/a/b") == [nil, basic])
    }

    @Test func refusedBasicIsNotSentAgainUnasked() async throws {
        for _ in 0..<2 {
            let result = try await exchange(.made(), through: authenticator) { _ in .challenge("Basic realm=r") }
            #expect(result.sent == [nil, basic])
        }
        let server = DigestServer()
        #expect(try await exchange(.made(), through: authenticator, with: server.answer).status == 200)
    }

    /// Digest credentials for another realm of the origin are only a guess.
    @Test func basicIsAnsweredAfterDigestOfAnotherRealm() async throws {
        let server = DigestServer()
        let digest = try await exchange(.made("http://example.org/d/x"), through: authenticator, with: server.answer)
        #expect(digest.status == 200)
        let another: (PreparedRequest) -> MadeAnswer = { [basic] in
            $0.authorization == basic ? .ok : .challenge("Basic realm=\"another\"")
        }
        let result = try await exchange(.made("http://example.org/b/y"), through: authenticator, with: another)
        #expect(result.status == 200 && result.sent.count == 2 && result.sent.last == basic)
        // The realm is known now.
        let next = try await exchange(.made("http://example.org/b/z"), through: authenticator, with: another)
        #expect(next.sent == [basic])
    }

    /// Basic credentials that were sent unasked may be meant for another scheme.
    ///
    /// The same ones are not sent twice.
    @Test func digestIsAnsweredAfterBasicThatWasAGuess() async throws {
        _ = try await exchange(.made(), through: authenticator) {
            $0.authorization == nil ? .challenge("Basic realm=r") : .ok
        }
        let server = DigestServer()
        let result = try await exchange(.made(), through: authenticator, with: server.answer)
        #expect(result.status == 200 && result.sent.first == basic && result.sent.count == 2)
    }

    @Test(arguments: [
        ("", 1), (",", 1), ("Basic", 2), ("Basic realm=\"r", 2), ("basic realm=r", 2), ("Negotiate", 1),
        ("Negotiate abc==", 1), ("NTLM", 1), ("Bearer realm=r", 1), ("Digest", 1), ("Digest realm=r", 1),
        ("Digest realm=r, nonce=n", 2), ("Digest realm=r, nonce=n, qop=auth", 2),
        ("Digest realm=r, nonce=n, qop=auth-int", 1), ("Digest realm=r, nonce=n, algorithm=X", 1),
        ("Digest realm=r, nonce=n, algorithm=X, Basic realm=r", 2), ("Negotiate, Basic realm=r", 2),
        ("Digest realm=r, nonce=n, qop=auth, stale=true", 2),
        ("Digest nonce=n", 1), ("Digest realm=r, nonce=n, algorithm=MD5-sess", 1),
        ("Digest realm=r, nonce=n, qop=\"auth-int, x\"", 1), ("Digest realm=\"a\u{1}b\", nonce=n", 1),
        ("Digest realm=r, nonce=\"a\\\r\nb\"", 1),
    ])
    func refusalIsDeliveredAfterOneTry(challenge: String, attempts: Int) async throws {
        let result = try await exchange(.made(), through: authenticator) { _ in .challenge(challenge) }
        #expect(result.sent.count == attempts)
        #expect(result.status == 401)
        #expect(result.sent.first == .some(nil))
    }

    @Test func garbageEndsAfterAtMostThreeAttempts() async throws {
        var random = SeededGenerator(seed: 401)
        for _ in 0..<1_000 {
            var adapted: [PreparedRequest] = []
            let result = try await exchange(.made(), through: authenticator) { request in
                adapted.append(request)
                let pieces = FieldReader.challenges.pieces
                return .challenge(pieces.sample(0...14, &random).joined(), pieces.sample(0...14, &random).joined())
            }
            #expect(result.status == 401)
            #expect(result.sent.count <= 3)
            // No challenge makes the authenticator build a request that `check()` rejects.
            for request in adapted {
                #expect(throws: Never.self) {
                    var request = request
                    try request.check()
                }
            }
        }
    }

    @Test func onlyAllowedSchemesAreUsed() async throws {
        let both = MadeAnswer.challenge("Basic realm=r", "Digest realm=r, nonce=n")
        let server: (PreparedRequest) -> MadeAnswer = { $0.authorization == nil ? both : .ok }
        let digest = try await exchange(.made(), through: PasswordAuthenticator.mufasa(.digest), with: server)
        #expect(digest.sent.last??.hasPrefix("Digest ") == true)
        let weaker = try await exchange(.made(), through: PasswordAuthenticator.mufasa(.basic), with: server)
        #expect(weaker.sent == [nil, basic])
        let strongest = try await exchange(.made(), through: authenticator, with: server)
        #expect(strongest.sent.last??.hasPrefix("Digest ") == true)
        let onlyBasic = try await exchange(.made(), through: PasswordAuthenticator.mufasa(.digest)) { _ in
            .challenge("Basic realm=r")
        }
        #expect(onlyBasic.sent == [nil])
    }

    @Test func theCallersOwnAuthorizationIsNotChanged() async throws {
        let request = try PreparedRequest.made(fields: ["authorization": "mine"])
        for authenticator in [try PasswordAuthenticator.mufasa(), try PasswordAuthenticator.mufasa(.preemptiveBasic)] {
            let result = try await exchange(request, through: authenticator) { _ in .challenge("Basic realm=r") }
            #expect(result.sent == ["mine"])
        }
    }

    @Test func requestThatWasTurnedToAnotherOriginGetsNothing() async throws {
        let original = try PreparedRequest.made("http://example.org/")
        let turned = try PreparedRequest.made("http://example.com/")
        #expect(try await PasswordAuthenticator.mufasa(.preemptiveBasic).adapt(turned, for: .made(original)) == turned)
    }

    @Test(arguments: [
        ("http://example.org/x", true), ("http://EXAMPLE.org:80/", true), ("http://example.com/", false),
        ("https://example.org/", false), ("http://example.org:8080/", false),
    ])
    func onlyTheGivenOriginsGetThePassword(url: String, isMeant: Bool) async throws {
        let origin = try #require(URL(string: "http://example.org/somewhere"))
        let request = try PreparedRequest.made(url)
        let adapted = try await PasswordAuthenticator.mufasa(.preemptiveBasic, origins: [origin]).adapt(
            request, for: .made(request))
        #expect((adapted.authorization == basic) == isMeant)
    }

    @Test func credentialsThatCannotBeSentAreRefused() throws {
        for (user, password) in [("a\r\nb", "p"), ("a", "p\u{0}"), ("a\u{7F}", "p"), ("a", "\u{85}")] {
            #expect(throws: RequestError.self) {
                try PasswordAuthenticator(user: user, password: password, schemes: .digest)
            }
        }
        for schemes: PasswordAuthenticator.Schemes in [.basic, .preemptiveBasic, [.basic, .digest]] {
            let error = #expect(throws: RequestError.self) {
                try PasswordAuthenticator(user: "a:b", password: "s3cret", schemes: schemes)
            }
            #expect(error?.code == .invalidRequest)
            #expect(error?.description.contains("s3cret") == false)
        }
        _ = try PasswordAuthenticator(user: "a:b", password: "c:d", schemes: .digest)
        _ = try PasswordAuthenticator(user: "ab", password: "c:d")
    }

    @Test func anInvalidOriginIsRefused() throws {
        let origin = try #require(URL(string: "ftp://example.org"))
        #expect(throws: RequestError.self) { try PasswordAuthenticator.mufasa(origins: [origin]) }
    }

    @Test func descriptionsShowNoPassword() async throws {
        let authenticator = try PasswordAuthenticator.mufasa(password: "s3cret")
        _ = try await exchange(.made(), through: authenticator) { _ in .challenge("Digest realm=r, nonce=n") }
        let credential = Credential(user: "Mufasa", password: "s3cret")
        let session = try DigestSession.made("Digest realm=r, nonce=n", credential)
        let key = try HashFunction.md5.digest(of: Data("Mufasa:r:s3cret".utf8)).hexadecimal
        let shown = texts(showing: authenticator, credential, session, [session])
        #expect(!shown.contains("s3cret") && !shown.contains(key))
    }
}
