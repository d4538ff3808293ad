import Convoy
import ConvoyTesting
import Foundation
import Testing

@testable import ConvoyQueue

/// Tests which redirects a job follows.
@Suite struct JobRedirectsTests {
    let place: StorePlace

    init() throws { place = try StorePlace() }

    private func server(_ code: Int) throws -> KeyedServer {
        try KeyedServer { request in
            request.path == "/moved" ? .status(200, body: "a page") : .redirect(to: "/moved", statusCode: code)
        }
    }

    @Test(arguments: [301, 302, 303], [false, true])
    func aPostThatBecomesAGetIsAFailureUnlessItWasAskedFor(code: Int, isAskedFor: Bool) async throws {
        let server = try server(code)
        let queue = try DurableQueue(at: place.file, manager: RequestManager())
        try await queue.add(
            server.job("a") {
                $0.request.body = .data(Data("order".utf8))
                $0.request.followsRedirectsAsGet = isAskedFor
            })
        let states = try await queue.states(otherwise: nil)
        #expect(states == ["a": isAskedFor ? .answered : .dead])
        #expect(server.all.requestCount == (isAskedFor ? 2 : 1))
        let failure = try await queue.store.job("a")?.failure
        if !isAskedFor { #expect(failure?.contains("(\(code)) to \(server.server.url("/moved"))") == true) }
    }

    @Test(arguments: [307, 308])
    func aRedirectThatKeepsTheBodyIsFollowed(code: Int) async throws {
        let server = try server(code)
        let queue = try DurableQueue(at: place.file, manager: RequestManager())
        try await queue.add(server.job("a") { $0.request.body = .data(Data("order".utf8)) })
        #expect(try await queue.states() == ["a": .done])
        #expect(server.all.requestCount == 2 && server.all.bodySizes == ["a": 5])
    }

    private func hop(_ from: String, _ to: String, _ code: Int) throws -> Redirect {
        let (first, second) = (try #require(URL(string: from)), try #require(URL(string: to)))
        var request = try PreparedRequest(checking: Request<Data>.post(first).body(Data("x".utf8)))
        request.headerFields.add("X-Order", "17")
        request.headerFields.add("Authorization", "secret")
        let next = try PreparedRequest(checking: Request<Data>.get(second))
        let response = ResponseHead(statusCode: code, headerFields: ["Location": to], url: first)
        return Redirect(response: response, from: request, to: next, count: 1)
    }

    @Test(arguments: [301, 302, 303])
    func theSameHostOverTLSGetsMethodAndBody(code: Int) throws {
        let upgrade = try hop("http://example.com/a", "https://EXAMPLE.com/a", code)
        let decision = JobRedirects(next: nil).decide(upgrade)
        guard code != 303 else {
            #expect(decision == .refuse)
            return
        }
        guard case .rewrite(let request) = decision else {
            Issue.record("\(decision)")
            return
        }
        #expect(request.method == .post && request.body == upgrade.from.body)
        #expect(request.url.scheme == "https" && request.headerFields["X-Order"] == "17")
        #expect(request.headerFields["Authorization"] == nil)
        let other = JobRedirects(next: { _ in .refuse }).decide(upgrade)
        #expect(other == .refuse)
    }

    @Test func anotherHostOverTLSDoesNot() throws {
        #expect(JobRedirects(next: nil).decide(try hop("http://a.example/", "https://b.example/", 302)) == .refuse)
    }
}
