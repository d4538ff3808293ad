// Tests when a nonce is used again for several requests, and when it is discarded.
import Foundation
import Testing

@testable import Convoy

struct DigestExchangeTests {
    /// The nonce and the count of each attempt.
    private func uses(_ sent: [String?]) -> [String] {
        sent.map { field in
            guard let field else { return "none" }
            let parameters = AuthenticationChallenge.all(in: [field]).first?.parameters ?? [:]
            return "\(parameters["nonce"] ?? "") \(parameters["nc"] ?? "")"
        }
    }

    @Test func serverThatFindsEveryNonceStaleIsAskedOnceMore() async throws {
        let (authenticator, server) = (try PasswordAuthenticator.mufasa(), DigestServer(.init(usesPerNonce: 0)))
        let first = try await exchange(.made(), through: authenticator, with: server.answer)
        #expect(uses(first.sent) == ["none", "n1 00000001", "n2 00000001"])
        let second = try await exchange(.made(), through: authenticator, with: server.answer)
        #expect(uses(second.sent) == ["n3 00000001", "n4 00000001"])
        #expect(second.status == 401)
    }

    @Test func nonceThatCannotBeSentIsNotUsed() async throws {
        let authenticator = try PasswordAuthenticator.mufasa()
        let answer: (PreparedRequest) -> MadeAnswer = { request in
            guard request.authorization != nil else { return .challenge("Digest realm=r, nonce=first, qop=auth") }
            return MadeAnswer(status: 200, fields: ["Authentication-Info": "nextnonce=\"a\r\nb\""])
        }
        _ = try await exchange(.made(), through: authenticator, with: answer)
        #expect(uses(try await exchange(.made(), through: authenticator, with: answer).sent) == ["first 00000002"])
    }

    @Test func requestsThatAreChallengedTogetherShareNoNonce() async throws {
        let (authenticator, server) = (try PasswordAuthenticator.mufasa(), DigestServer(.init(usesPerNonce: 1)))
        let refused = EventLog<Int>()
        let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
            for number in 0..<300 {
                group.addTask {
                    let request = try PreparedRequest.made("http://example.org/\(number)")
                    let context = AttemptContext.made(request)
                    let first = try await authenticator.adapt(request, for: context)
                    let challenge = server.answer(to: first)
                    let end = AttemptEnd.made(first, status: challenge.status, fields: challenge.fields)
                    refused.record(number)
                    await refused.wait(count: 300)
                    #expect(try await authenticator.decide(after: end, of: context) == .retry(after: .zero))
                    let second = try await authenticator.adapt(request, for: .made(request, earlier: [401]))
                    return server.answer(to: second).status
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(statuses == Array(repeating: 200, count: 300))
        #expect(server.refused == 300)
    }

    @Test(arguments: [200, 404])
    func nonceOfAnAnswerUnderWayIsNotShared(status: Int) async throws {
        let (authenticator, request) = (try PasswordAuthenticator.mufasa(), try PreparedRequest.made())
        func adapted(_ earlier: [Int] = []) async throws -> PreparedRequest {
            try await authenticator.adapt(request, for: .made(request, earlier: earlier))
        }
        let refusal = AttemptEnd.made(
            request, status: 401, fields: ["WWW-Authenticate": "Digest realm=r, nonce=n1, qop=auth"])
        #expect(try await authenticator.decide(after: refusal, of: .made(request)) == .retry(after: .zero))
        let answer = try await adapted([401])
        #expect(uses([answer.authorization]) == ["n1 00000001"])
        #expect(uses([try await adapted().authorization]) == ["none"])
        // The request is sent again, for example after the connection was lost.
        #expect(uses([try await adapted([401]).authorization]) == ["n1 00000002"])
        let end = AttemptEnd.made(answer, status: status)
        #expect(try await authenticator.decide(after: end, of: .made(request, earlier: [401])) == .proceed)
        #expect(uses([try await adapted().authorization]) == ["n1 00000003"])
    }

    @Test func spacesThatAreKeptAreBounded() throws {
        var spaces = ProtectionSpaces()
        let session = try DigestSession.made("Digest realm=r, nonce=n, qop=auth")
        for number in 0..<1_000 {
            let key = ProtectionSpaces.Key(origin: "http://example.org:80", realm: "\(number)")
            let path = "/\(number)/x"
            let isAnswered = spaces.challenged(key, path: path, session: session, sent: nil, refusals: 0)
            #expect(isAnswered)
        }
        #expect(spaces.count == ProtectionSpaces.maxCount)
        // The protection spaces that were used last are kept.
        let last = spaces.answer(origin: "http://example.org:80", path: "/999/y", isAnswer: true)
        #expect(last != nil)
    }
}

struct RequestTargetTests {
    @Test(arguments: [
        ("http://example.org", "/", "/"), ("http://example.org/", "/", "/"), ("http://example.org?a=b", "/?a=b", "/"),
        ("http://example.org/a%2Fb/../c?d=/e#f", "/a%2Fb/../c?d=/e", "/a%2Fb/../c"), ("http://example.org#f", "/", "/"),
        ("http://u:p@example.org:80/a?b?c", "/a?b?c", "/a"), ("http://[::1]:80/a//b", "/a//b", "/a//b"),
        ("http://example.org/a?", "/a?", "/a"),
    ])
    func targetIsPathAndQueryAsTheyAre(url: String, text: String, path: String) throws {
        let target = try #require(URL(string: url)).target
        #expect(target.text == text)
        #expect(target.path == path)
    }
}

/// A challenge and the expected response.
struct DigestCase: Sendable, CustomTestStringConvertible {
    let name: String
    let challenge: String
    var user = "Mufasa"
    var password = "Circle of Life"
    var target = "/dir/index.html"
    var clientNonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"
    var request = 1
    let expected: [String: String]

    var testDescription: String { name }

    private static let example = """
        Digest realm="http-auth@example.org", qop="auth, auth-int", \
        nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"
        """
    private static let older = """
        Digest realm="testrealm@host.com", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093", \
        opaque="5ccc069c403ebaf9f0171e9517f40e41"
        """
    private static let doe = """
        Digest realm="api@example.org", qop="auth", algorithm=SHA-512-256, \
        nonce="5TsQWLVdgBdmrQ0XsxbDODV+57QdFR34I9HAbC/RVvkK", \
        opaque="HRPCssKJSGjCrkzDg8OhwpzCiGPChXYjwrI2QmXDnsOS", charset=UTF-8
        """
    private static let doeResponse = "3798d4131c277846293534c3edc11bd8a5e4cdcbff78b05db9d95eeb1cec68a5"

    static let all = [
        DigestCase(
            name: "RFC 7616, 3.9.1, MD5", challenge: example + ", algorithm=MD5",
            expected: [
                "username": "Mufasa", "realm": "http-auth@example.org", "uri": "/dir/index.html", "algorithm": "MD5",
                "nonce": "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", "nc": "00000001",
                "cnonce": "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ", "qop": "auth",
                "response": "8ca523f5e9506fed4657c9700eebdbec",
                "opaque": "FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS",
            ]),
        DigestCase(
            name: "RFC 7616, 3.9.1, SHA-256", challenge: example + ", algorithm=SHA-256",
            expected: [
                "algorithm": "SHA-256", "response": "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1",
            ]),
        // The digests are those of erratum 4897, because the RFC's text used an earlier SHA-512/256.
        DigestCase(
            name: "RFC 7616, 3.9.2, SHA-512-256 and userhash", challenge: doe + ", userhash=true",
            user: "J\u{E4}s\u{F8}n Doe", password: "Secret, or not?", target: "/doe.json",
            clientNonce: "NTg6RKcb9boFIAS3KrFK9BGeh+iDa/sm6jUMp2wds69v",
            expected: [
                "username": "793263caabb707a56211940d90411ea4a575adeccb7e360aeb624ed06ece9b0b", "userhash": "true",
                "response": doeResponse,
            ]),
        // The name is decomposed, so it must be composed before it is sent.
        DigestCase(
            name: "RFC 7616, 3.9.2, without userhash", challenge: doe, user: "Ja\u{308}s\u{F8}n Doe",
            password: "Secret, or not?", target: "/doe.json",
            clientNonce: "NTg6RKcb9boFIAS3KrFK9BGeh+iDa/sm6jUMp2wds69v",
            expected: ["username*": "UTF-8''J%C3%A4s%C3%B8n%20Doe", "response": doeResponse]),
        DigestCase(
            name: "RFC 2617, 3.5", challenge: older + ", qop=\"auth,auth-int\"", password: "Circle Of Life",
            clientNonce: "0a4f113b",
            expected: [
                "response": "6629fae49393a05397450978507c4ef1", "qop": "auth", "nc": "00000001", "cnonce": "0a4f113b",
            ]),
        DigestCase(
            name: "RFC 2069, 2.4, with its erratum", challenge: older, password: "CircleOfLife",
            expected: ["response": "1949323746fe6a43ef61f9606e7febea"]),
        DigestCase(
            name: "MD5-sess", challenge: example + ", algorithm=MD5-sess",
            expected: ["algorithm": "MD5-sess", "response": "e783283f46242139c486a698fec7211d"]),
        DigestCase(
            name: "MD5-sess, second request", challenge: example + ", algorithm=MD5-sess", request: 2,
            expected: ["nc": "00000002", "response": "6914b51e16f9459d9abc967ad41c4599"]),
        DigestCase(
            name: "SHA-256-sess", challenge: example + ", algorithm=\"sha-256-SESS\"",
            expected: [
                "algorithm": "sha-256-SESS",
                "response": "2fd51b3a77ad75bad6afad6003e818d767133c46d9e2749e7f5232ae1ea3efd7",
            ]),
        DigestCase(
            name: "quotes", challenge: #"Digest realm="a \"b\" \\c", nonce="n\"", qop=auth"#, user: #"\"x""#,
            expected: ["username": #"\"x""#, "realm": #"a "b" \c"#, "nonce": "n\""]),
    ]
}

struct DigestSessionTests {
    private func parameters(_ test: DigestCase) throws -> [String: String] {
        let credential = Credential(user: test.user, password: test.password)
        var session = try DigestSession.made(test.challenge, credential, clientNonce: test.clientNonce)
        var field = ""
        for _ in 0..<test.request {
            field = try session.nextField(test.target)
        }
        #expect(!field.contains(test.password))
        let parts = AuthenticationChallenge.all(in: [field])
        #expect(parts.map(\.scheme) == ["digest"])
        return try #require(parts.first).parameters
    }

    @Test(arguments: DigestCase.all)
    func answerIsThatOfTheExample(test: DigestCase) throws {
        let parameters = try parameters(test)
        for (name, value) in test.expected { #expect(parameters[name] == value, "\(name)") }
    }

    @Test func answerWithoutQualityHasNoCount() throws {
        let test = try #require(DigestCase.all.first { $0.name.hasPrefix("RFC 2069") })
        #expect(try Set(parameters(test).keys) == ["username", "realm", "nonce", "uri", "response", "opaque"])
    }

    /// Servers accept `qop`, `nc` and `algorithm` only without quotes (RFC 7616, section 3.4).
    @Test func countAndQualityAreNotQuoted() throws {
        var session = try DigestSession.made(DigestCase.all[0].challenge)
        let field = try session.nextField("/")
        for part in ["qop=auth,", "nc=00000001,", "algorithm=MD5,"] { #expect(field.contains(part), "\(part)") }
    }

    @Test func nextNonceBeginsANewCountAndKeepsTheKeyOfTheSession() throws {
        var session = try DigestSession.made("Digest realm=r, nonce=first, qop=auth, algorithm=MD5-sess")
        _ = session.counted()
        session.proceed(to: "second")
        let field = try session.nextField("/")
        func hash(_ text: String) -> String { ((try? HashFunction.md5.digest(of: Data(text.utf8))) ?? []).hexadecimal }
        let key = hash("\(hash("u:r:p")):first:c")
        #expect(field.contains("response=\"\(hash("\(key):second:00000001:c:auth:\(hash("GET:/"))"))\""))
    }

    @Test(arguments: [
        ("Digest realm=r, nonce=1, Digest realm=r, nonce=2, algorithm=SHA-256", "2"),
        ("Digest realm=r, nonce=1, algorithm=SHA-512-256, Digest realm=r, nonce=2, algorithm=SHA-256", "1"),
        ("Digest realm=r, nonce=1, algorithm=SHA-256-sess, qop=auth, Digest realm=r, nonce=2, algorithm=SHA-256", "1"),
        ("Digest realm=r, nonce=1, algorithm=SHA-1, Digest realm=r, nonce=2", "2"),
        ("Digest realm=r, nonce=1, algorithm=SHA-256, qop=auth-int, Digest realm=r, nonce=2", "2"),
    ])
    func strongestAlgorithmIsChosen(text: String, nonce: String) {
        #expect(DigestChallenge.strongest(of: AuthenticationChallenge.all(in: [text]))?.nonce == nonce)
    }
}

extension DigestSession {
    /// The session of a challenge.
    static func made(
        _ text: String, _ credential: Credential = Credential(user: "u", password: "p"), clientNonce: String = "c"
    ) throws -> DigestSession {
        let challenge = try #require(DigestChallenge.strongest(of: AuthenticationChallenge.all(in: [text])))
        return try DigestSession(answering: challenge, with: credential, clientNonce: clientNonce)
    }

    /// The `Authorization` field of the next GET request; empty if the nonce count has reached its maximum.
    fileprivate mutating func nextField(_ target: String) throws -> String {
        try counted()?.fieldValue(method: .get, target: target) ?? ""
    }
}
