// Tests Basic and Digest over real transports, against servers that check the credentials.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite struct PasswordSendingTests {
    private let basic = "Basic TXVmYXNhOkNpcmNsZSBvZiBMaWZl"

    private func manager(
        over subject: ConformingTransport, _ schemes: PasswordAuthenticator.Schemes = [.basic, .digest],
        password: String = "Circle of Life"
    ) throws -> RequestManager {
        subject.manager(interceptors: [
            try PasswordAuthenticator(user: "Mufasa", password: password, schemes: schemes)
        ])
    }

    private func server(_ digest: DigestServer) throws -> TestServer {
        let server = try TestServer()
        server.respond { Reply(digest.answer(to: $0), body: $0.path) }
        return server
    }

    /// A server that requires Basic.
    private func basicServer(password: String = "Circle of Life") throws -> TestServer {
        let server = try TestServer()
        let expected = Credential(user: "Mufasa", password: password).basicFieldValue
        server.respond { request in
            request.value(of: "Authorization") == expected
                ? .status(200, body: request.path)
                : .status(401, headerFields: [("WWW-Authenticate", "Basic realm=\"r\"")])
        }
        return server
    }

    // MARK: Basic

    @Test(arguments: ConformingTransport.all)
    func basicAnswersAChallengeAndIsSentAtOnceFromThenOn(_ subject: ConformingTransport) async throws {
        let server = try basicServer()
        defer { server.shutDown() }
        let manager = try manager(over: subject)
        for number in 1...4 { try await manager.send(Request<Data>.get(server.url("/a/\(number)"))) }
        #expect(server.received("Authorization") == [nil, basic, basic, basic, basic])
    }

    @Test(arguments: ConformingTransport.all)
    func preemptiveBasicIsNeverAskedFor(_ subject: ConformingTransport) async throws {
        let server = try basicServer()
        defer { server.shutDown() }
        let manager = try manager(over: subject, .preemptiveBasic)
        for _ in 1...2 { try await manager.send(Request<Data>.get(server.url("/a"))) }
        #expect(server.received("Authorization") == [basic, basic])
    }

    @Test(arguments: ConformingTransport.all, [PasswordAuthenticator.Schemes.basic, .preemptiveBasic])
    func wrongPasswordIsTriedOnce(
        _ subject: ConformingTransport, schemes: PasswordAuthenticator.Schemes
    ) async throws {
        let server = try basicServer(password: "another")
        defer { server.shutDown() }
        let manager = try manager(over: subject, schemes)
        let error = await #expect(throws: RequestError.self) {
            try await manager.send(Request<Data>.get(server.url("/a")))
        }
        #expect(error?.response?.statusCode == 401)
        #expect(server.received("Authorization") == (schemes == .basic ? [nil, basic] : [basic]))
    }

    // MARK: Digest

    @Test(arguments: ConformingTransport.all, ["MD5", "SHA-256", "SHA-512-256"])
    func theServerVerifiesTheDigestOfTheReceivedTarget(_ subject: ConformingTransport, name: String) async throws {
        let functions: [String: HashFunction] = [
            "MD5": .md5, "SHA-256": .sha256, "SHA-512-256": .sha512Truncated256,
        ]
        let digest = DigestServer(.init(name: name, function: try #require(functions[name])))
        let server = try server(digest)
        defer { server.shutDown() }
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

    @Test(arguments: ConformingTransport.all)
    func staleNonceCostsOneMoreAttempt(_ subject: ConformingTransport) async throws {
        let digest = DigestServer()
        let server = try server(digest)
        defer { server.shutDown() }
        let manager = try manager(over: subject)
        try await manager.send(Request<Data>.get(server.url("/a")))
        digest.forgetNonces()
        let response = try await manager.send(Request<Data>.get(server.url("/a")))
        #expect(response.attempts.map(\.statusCode) == [401, 200])
        #expect((digest.accepted, digest.refused) == (2, 2))
    }

    /// Each nonce is valid for one request, and no request gets a 401.
    ///
    /// Each response announces the next nonce.
    @Test(arguments: ConformingTransport.all)
    func nonceThatTheServerWantsNextIsUsed(_ subject: ConformingTransport) async throws {
        let digest = DigestServer(.init(usesPerNonce: 1, saysNextNonce: true))
        let server = try server(digest)
        defer { server.shutDown() }
        let manager = try manager(over: subject)
        for _ in 1...5 { try await manager.send(Request<Data>.get(server.url("/a"))) }
        #expect((digest.accepted, digest.refused) == (5, 1))
    }

    @Test(arguments: ConformingTransport.all)
    func wrongDigestIsTriedOnceARequest(_ subject: ConformingTransport) async throws {
        let digest = DigestServer()
        let server = try server(digest)
        defer { server.shutDown() }
        let manager = try manager(over: subject, password: "wrong")
        for attempts in [2, 1] {
            let error = await #expect(throws: RequestError.self) {
                try await manager.send(Request<Data>.get(server.url("/a")))
            }
            #expect(error?.response?.statusCode == 401)
            #expect(error?.attempts.count == attempts)
        }
        #expect((digest.accepted, digest.refused) == (0, 3))
    }

    /// Counts may arrive in another order than they were assigned.
    ///
    /// The server then reports a stale nonce, but no request fails.
    @Test(arguments: ConformingTransport.all)
    func requestsAtOnceAreAllAccepted(_ subject: ConformingTransport) async throws {
        let digest = DigestServer()
        let server = try server(digest)
        defer { server.shutDown() }
        let results = try await manager(over: subject).results(of: (0..<60).map { .get(server.url("/\($0)")) })
        #expect(results.count { (try? $0.get()) != nil } == 60)
        #expect(digest.accepted == 60)
    }

    // MARK: Bodies

    @Test(arguments: ConformingTransport.all, [true, false])
    func bodyIsSentAgainWhole(_ subject: ConformingTransport, isFile: Bool) async throws {
        let digest = DigestServer()
        let server = try server(digest)
        let directory = try TemporaryDirectory()
        defer { server.shutDown() }
        let body = Data.patterned(700_000)
        let file = directory.file("body")
        try body.write(to: file)
        let request = Request<String>.post(server.url("/p"))
        let response = try await manager(over: subject).send(isFile ? request.body(fromFile: file) : request.body(body))
        #expect(response.value == "/p")
        #expect(response.attempts.map(\.statusCode) == [401, 200])
        #expect(
            server.recordedRequests.map(\.bodyDigest) == Array(repeating: RecordedRequest.digest(of: body), count: 2))
        #expect(server.recordedRequests.map(\.bodyByteCount) == [700_000, 700_000])
    }
}
