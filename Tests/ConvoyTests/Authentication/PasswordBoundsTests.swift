// Tests which servers receive the password, over real transports.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite struct PasswordBoundsTests {
    private let basic = "Basic TXVmYXNhOkNpcmNsZSBvZiBMaWZl"
    private let challenge = [("WWW-Authenticate", "Basic realm=\"r\"")]

    private func manager(
        over subject: ConformingTransport, _ schemes: PasswordAuthenticator.Schemes = [.basic, .digest]
    ) throws -> RequestManager {
        subject.manager(interceptors: [
            try PasswordAuthenticator(user: "Mufasa", password: "Circle of Life", schemes: schemes)
        ])
    }

    @Test(arguments: ConformingTransport.all, [PasswordAuthenticator.Schemes([.basic, .digest]), .preemptiveBasic])
    func otherOriginGetsNothingAndItsChallengeIsNotAnswered(
        _ subject: ConformingTransport, schemes: PasswordAuthenticator.Schemes
    ) async throws {
        let (server, other) = (try TestServer(), try TestServer())
        defer {
            server.shutDown()
            other.shutDown()
        }
        server.respond { [challenge] request in
            request.value(of: "Authorization") == nil
                ? .status(401, headerFields: challenge) : .redirect(to: "\(other.url("/x"))")
        }
        other.respond { [challenge] _ in .status(401, headerFields: challenge) }
        let manager = try manager(over: subject, schemes)
        let error = await #expect(throws: RequestError.self) {
            try await manager.send(Request<Data>.get(server.url("/a")))
        }
        #expect(error?.response?.statusCode == 401)
        #expect(server.received("Authorization") == (schemes == .preemptiveBasic ? [basic] : [nil, basic]))
        #expect(other.received("Authorization") == [nil])
    }

    /// A server that is not a proxy gets no password for its 407.
    @Test(arguments: ConformingTransport.all)
    func serverThatPretendsToBeAProxyGetsNothing(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { [challenge] _ in
            .status(407, headerFields: challenge + [("Proxy-Authenticate", "Basic realm=\"r\"")], body: "who are you")
        }
        let bearer = BearerAuthenticator(token: "t0") { _ in "t1" }
        for manager in [try manager(over: subject), subject.manager(interceptors: [bearer])] {
            let error = await #expect(throws: RequestError.self) {
                try await manager.send(Request<Data>.get(server.url("/a")))
            }
            #expect(error?.response?.statusCode == 407)
            #expect(error?.message.hasPrefix("the answer was 407: a proxy") == true)
        }
        #expect(server.received("Authorization") == [nil, "Bearer t0"])
        #expect(server.received("Proxy-Authorization") == [nil, nil])
    }

    @Test(arguments: ConformingTransport.all)
    func theCallersOwnAuthorizationIsKeptAndIts401IsFinal(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { [challenge] _ in .status(401, headerFields: challenge) }
        let request = Request<Data>.get(server.url("/a")).bearer("mine")
        let manager = try manager(over: subject)
        let error = await #expect(throws: RequestError.self) { try await manager.send(request) }
        #expect(error?.response?.statusCode == 401)
        #expect(server.received("Authorization") == ["Bearer mine"])
    }

    /// After a redirect within the origin, a second 401 may come from another protection space.
    ///
    /// The authenticator does not treat the second 401 as a rejected password.
    @Test(arguments: ConformingTransport.all)
    func redirectIntoAnotherSpaceOfTheOriginIsAnsweredToo(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        func route(_ path: String, _ reply: Reply) {
            server.route(path) { [challenge, basic] request in
                request.value(of: "Authorization") == basic ? reply : .status(401, headerFields: challenge)
            }
        }
        route("/in/a", .redirect(to: "/out/b"))
        route("/out/b", .status(200, body: "there"))
        let response = try await manager(over: subject).send(Request<String>.get(server.url("/in/a")))
        #expect(response.value == "there")
        #expect(response.attempts.map(\.statusCode) == [401, 302, 401, 200])
        #expect(server.received("Authorization") == [nil, basic, nil, basic])
    }

    @Test(arguments: ConformingTransport.all)
    func redirectIntoAnotherRealmOfTheOriginIsAnsweredToo(_ subject: ConformingTransport) async throws {
        let (first, second) = (DigestServer(.init(realm: "a")), DigestServer(.init(realm: "b")))
        let server = try TestServer()
        defer { server.shutDown() }
        server.route("/in/a") { request in
            let answer = first.answer(to: request)
            return answer.status == 200 ? .redirect(to: "/out/b") : Reply(answer)
        }
        server.route("/out/b") { Reply(second.answer(to: $0), body: "there") }
        let response = try await manager(over: subject).send(Request<String>.get(server.url("/in/a")))
        #expect(response.value == "there")
        #expect((first.accepted, second.accepted) == (1, 1))
    }

    /// The redirect leads to a path that responds with 401 to every request.
    ///
    /// The password is sent once to each path.
    @Test(arguments: ConformingTransport.all)
    func aWrongPasswordAfterARedirectIsTriedOnce(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.route("/in/a") { [challenge, basic] request in
            request.value(of: "Authorization") == basic
                ? .redirect(to: "/out/b") : .status(401, headerFields: challenge)
        }
        server.route("/out/b") { [challenge] _ in .status(401, headerFields: challenge) }
        let manager = try manager(over: subject)
        let error = await #expect(throws: RequestError.self) {
            try await manager.send(Request<Data>.get(server.url("/in/a")))
        }
        #expect(error?.response?.statusCode == 401)
        #expect(server.received("Authorization") == [nil, basic, nil, basic])
    }
}
