// Tests Basic and Digest over real transports: with servers that check the credentials, and which servers get them.
import Foundation
import Testing

@testable import Convoy

@Suite struct PasswordSendingTests {
    private let basic = PasswordAuthenticator.basicField
    private let challenge = [("WWW-Authenticate", "Basic realm=\"r\"")]
    private let server: TestServer

    init() throws { server = try TestServer() }

    private func manager(
        over subject: ConformingTransport, _ schemes: PasswordAuthenticator.Schemes = [.basic, .digest],
        password: String = "Circle of Life"
    ) throws -> RequestManager {
        subject.manager(interceptors: [try PasswordAuthenticator.mufasa(schemes, password: password)])
    }

    private func require(_ digest: DigestServer) {
        server.respond { Reply(digest.answer(to: $0), body: $0.path) }
    }

    private func requireBasic(password: String = "Circle of Life") {
        let expected = Credential(user: "Mufasa", password: password).basicFieldValue
        server.respond { [challenge] request in
            request.value(of: "Authorization") == expected ? .status(200) : .status(401, headerFields: challenge)
        }
    }

    @Test(arguments: ConformingTransport.all, [PasswordAuthenticator.Schemes([.basic, .digest]), .preemptiveBasic])
    func basicIsAskedForAtMostOnce(_ subject: ConformingTransport, schemes: PasswordAuthenticator.Schemes) async throws
    {
        requireBasic()
        let manager = try manager(over: subject, schemes)
        for number in 1...3 { try await manager.send(Request<Data>.get(server.url("/a/\(number)"))) }
        let asked: [String?] = schemes == .preemptiveBasic ? [] : [nil]
        #expect(server.received("Authorization") == asked + [basic, basic, basic])
    }

    @Test(arguments: ConformingTransport.all, [PasswordAuthenticator.Schemes.basic, .preemptiveBasic])
    func wrongPasswordIsTriedOnce(
        _ subject: ConformingTransport, schemes: PasswordAuthenticator.Schemes
    ) async throws {
        requireBasic(password: "another")
        let manager = try manager(over: subject, schemes)
        let error = await manager.error(of: Request<Data>.get(server.url("/a")))
        #expect(error?.response?.statusCode == 401)
        #expect(server.received("Authorization") == (schemes == .basic ? [nil, basic] : [basic]))
    }

    @Test(arguments: ConformingTransport.all, ["MD5", "SHA-256", "SHA-512-256"])
    func theServerVerifiesTheDigestOfTheReceivedTarget(_ subject: ConformingTransport, name: String) async throws {
        let functions: [String: HashFunction] = [
            "MD5": .md5, "SHA-256": .sha256, "SHA-512-256": .sha512Truncated256,
        ]
        let digest = DigestServer(.init(name: name, function: try #require(functions[name])))
        require(digest)
        let manager = try manager(over: subject)
        for target in ["/a", "/a%2Fb%20c/%C3%A9?x=%26&y=1,2&z", "/?q", "/a;b=\"c\",d"] {
            try await manager.send(Request<Data>.get(server.url(target)).acceptableStatusCodes(.codes([200])))
        }
        let post = Request<Data>.post(server.url("/p")).query("n", "1 + 1").body(Data("x".utf8))
        try await manager.send(post)
        // The server sent only one challenge.
        #expect((digest.accepted, digest.refused) == (5, 1))
        #expect(server.received("Authorization").allSatisfy { $0?.contains("Circle") != true })
    }

    /// Not every server says that a nonce has expired.
    @Test(arguments: ConformingTransport.all, [true, false])
    func staleNonceCostsOneMoreAttempt(_ subject: ConformingTransport, saysStale: Bool) async throws {
        let digest = DigestServer(.init(saysStale: saysStale))
        require(digest)
        let manager = try manager(over: subject)
        try await manager.send(Request<Data>.get(server.url("/a")))
        digest.forgetNonces()
        let response = try await manager.send(Request<Data>.get(server.url("/a")))
        #expect(response.attempts.map(\.statusCode) == [401, 200])
        #expect((digest.accepted, digest.refused) == (2, 2))
    }

    @Test(arguments: ConformingTransport.all)
    func nonceThatTheServerWantsNextIsUsed(_ subject: ConformingTransport) async throws {
        let digest = DigestServer(.init(usesPerNonce: 1, saysNextNonce: true))
        require(digest)
        let manager = try manager(over: subject)
        for _ in 1...5 { try await manager.send(Request<Data>.get(server.url("/a"))) }
        #expect((digest.accepted, digest.refused) == (5, 1))
    }

    @Test(arguments: ConformingTransport.all)
    func wrongDigestIsTriedOnceARequest(_ subject: ConformingTransport) async throws {
        let digest = DigestServer()
        require(digest)
        let manager = try manager(over: subject, password: "wrong")
        for attempts in [2, 1] {
            let error = await manager.error(of: Request<Data>.get(server.url("/a")))
            #expect(error?.response?.statusCode == 401)
            #expect(error?.attempts.count == attempts)
        }
        #expect((digest.accepted, digest.refused) == (0, 3))
    }

    @Test(arguments: ConformingTransport.all, [true, false])
    func bodyIsSentAgainWhole(_ subject: ConformingTransport, isFile: Bool) async throws {
        let digest = DigestServer()
        require(digest)
        let directory = try TemporaryDirectory()
        let body = Data.patterned(700_000)
        let file = directory.file("body")
        try body.write(to: file)
        let (request, target) = (Request<Data>.post(server.url("/p")), directory.file("target"))
        let whole = isFile ? request.body(fromFile: file) : request.body(body)
        let response = try await manager(over: subject).send(whole.acceptableStatusCodes(.any).saved(to: target))
        // Only the last response is written.
        #expect(try String(contentsOf: target, encoding: .utf8) == "/p")
        #expect(response.attempts.map(\.statusCode) == [401, 200])
        #expect(
            server.recordedRequests.map(\.bodyDigest) == Array(repeating: RecordedRequest.digest(of: body), count: 2))
        #expect(server.recordedRequests.map(\.bodyByteCount) == [700_000, 700_000])
    }

    @Test(arguments: ConformingTransport.all, [PasswordAuthenticator.Schemes([.basic, .digest]), .preemptiveBasic])
    func otherOriginGetsNothingAndItsChallengeIsNotAnswered(
        _ subject: ConformingTransport, schemes: PasswordAuthenticator.Schemes
    ) async throws {
        let other = try TestServer()
        server.respond { [challenge] request in
            request.value(of: "Authorization") == nil
                ? .status(401, headerFields: challenge) : .redirect(to: "\(other.url("/x"))")
        }
        other.respond { [challenge] _ in .status(401, headerFields: challenge) }
        let manager = try manager(over: subject, schemes)
        let error = await manager.error(of: Request<Data>.get(server.url("/a")))
        #expect(error?.response?.statusCode == 401)
        #expect(server.received("Authorization") == (schemes == .preemptiveBasic ? [basic] : [nil, basic]))
        #expect(other.received("Authorization") == [nil])
    }

    @Test(arguments: ConformingTransport.all)
    func serverThatPretendsToBeAProxyGetsNothing(_ subject: ConformingTransport) async throws {
        server.respond { [challenge] _ in
            .status(407, headerFields: challenge + [("Proxy-Authenticate", "Basic realm=\"r\"")], body: "who are you")
        }
        let bearer = BearerAuthenticator(token: "t0") { _ in "t1" }
        for manager in [try manager(over: subject), subject.manager(interceptors: [bearer])] {
            let error = await manager.error(of: Request<Data>.get(server.url("/a")))
            #expect(error?.response?.statusCode == 407)
            #expect(error?.message.hasPrefix("the answer was 407: a proxy") == true)
        }
        #expect(server.received("Authorization") == [nil, "Bearer t0"])
        #expect(server.received("Proxy-Authorization") == [nil, nil])
    }

    /// After a redirect within the origin, a second 401 may come from another protection space.
    ///
    /// The authenticator does not treat the second 401 as a rejected password, but sends it only once to each path.
    @Test(arguments: ConformingTransport.all, [true, false])
    func redirectIntoAnotherSpaceOfTheOriginIsAnsweredOnce(
        _ subject: ConformingTransport, isRefused: Bool
    ) async throws {
        func route(_ path: String, _ reply: Reply) {
            server.route(path) { [challenge, basic] request in
                request.value(of: "Authorization") == basic ? reply : .status(401, headerFields: challenge)
            }
        }
        route("/in/a", .redirect(to: "/out/b"))
        route("/out/b", isRefused ? .status(401, headerFields: challenge) : .status(200))
        let request = Request<Data>.get(server.url("/in/a")).acceptableStatusCodes(.any)
        let response = try await manager(over: subject).send(request)
        #expect(response.attempts.map(\.statusCode) == [401, 302, 401, isRefused ? 401 : 200])
        #expect(server.received("Authorization") == [nil, basic, nil, basic])
    }

    @Test(arguments: ConformingTransport.all)
    func redirectIntoAnotherRealmOfTheOriginIsAnsweredToo(_ subject: ConformingTransport) async throws {
        let (first, second) = (DigestServer(.init(realm: "a")), DigestServer(.init(realm: "b")))
        server.route("/in/a") { request in
            let answer = first.answer(to: request)
            return answer.status == 200 ? .redirect(to: "/out/b") : Reply(answer)
        }
        server.route("/out/b") { Reply(second.answer(to: $0), body: "there") }
        let response = try await manager(over: subject).send(Request<String>.get(server.url("/in/a")))
        #expect(response.value == "there")
        #expect((first.accepted, second.accepted) == (1, 1))
    }
}
