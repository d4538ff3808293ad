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

    @Test func realmOfAnotherPathIsAnsweredToo() async throws {
        let authenticator = try PasswordAuthenticator.mufasa()
        let (first, second) = (DigestServer(.init(realm: "a")), DigestServer(.init(realm: "b")))
        let answer: (PreparedRequest) -> MadeAnswer = { request in
            request.url.path.hasPrefix("/a/") ? first.answer(to: request) : second.answer(to: request)
        }
        func sent(_ path: String) async throws -> [String] {
            let result = try await exchange(.made("http://example.org\(path)"), through: authenticator, with: answer)
            #expect(result.status == 200)
            return uses(result.sent)
        }
        #expect(try await sent("/a/1") == ["none", "n1 00000001"])
        // The authenticator first tries the nonce of the other realm.
        #expect(try await sent("/b/1") == ["n1 00000002", "n1 00000001"])
        #expect(try await sent("/a/2") == ["n1 00000003"])
        #expect(try await sent("/b/2") == ["n1 00000002"])
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

    /// Requests that are challenged at the same time use one nonce each.
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

    /// The nonce of a request under way is not shared until the server's response shows that the nonce is valid.
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
        let text = "Digest realm=r, nonce=n, qop=auth"
        let challenge = try #require(DigestChallenge.strongest(of: AuthenticationChallenge.all(in: [text])))
        let session = try DigestSession(
            answering: challenge, with: Credential(user: "u", password: "p"), clientNonce: "c")
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
        let target = RequestTarget(of: try #require(URL(string: url)))
        #expect(target.text == text)
        #expect(target.path == path)
    }
}
