import Foundation
import Testing

@testable import Convoy

@Suite struct RedirectHookTests {
    private func rewriting(_ change: @escaping @Sendable (inout PreparedRequest) -> Void) -> RedirectPolicy {
        RedirectPolicy { hop in
            var next = hop.to
            change(&next)
            return .rewrite(next)
        }
    }

    private func url(_ text: String) throws -> URL { try #require(URL(string: text)) }

    @Test func theHookSeesTheHopAsItWouldBeSent() throws {
        let request = try PreparedRequest.test(.post, fields: ["Cookie": "a"], body: "x")
        let seen = Locked<[Redirect]>([])
        let policy = RedirectPolicy { hop in
            seen.withLock { $0.append(hop) }
            return .follow
        }
        let earlier = AttemptRecord.redirect(request, to: request.url)
        let step = policy.next(after: .redirect(to: "//b/x"), of: request, earlier: [earlier])
        let hop = try #require(seen.withLock { $0 }.first)
        #expect(hop.count == 2)
        #expect(hop.response.statusCode == 302)
        #expect(hop.from == request)
        #expect(hop.to == step.request)
        #expect((hop.to.method, hop.to.body, hop.to.headerFields) == (.get, nil, [:]))
    }

    @Test func theHookIsNotCalledForRefusedRedirects() throws {
        let policy = RedirectPolicy(maxCount: 1) { hop in
            Issue.record("asked about \(hop.to)")
            return .follow
        }
        let request = try PreparedRequest.test(.get, "https://a/")
        let earlier = AttemptRecord.redirect(request, to: request.url)
        _ = policy.leads(.redirect(to: "/x"), of: request)
        #expect(policy.first(.redirect(to: "http://a/"), of: request).error?.code == .redirectRefused)
        #expect(policy.first(.redirect(to: "file:/x"), of: request).error?.code == .redirectRefused)
        #expect(policy.first(.redirect(304, to: "/x"), of: request).isDelivery)
        let tooMany = policy.next(after: .redirect(to: "/x"), of: request, earlier: [earlier])
        #expect(tooMany.error?.code == .tooManyRedirects)
    }

    @Test func aRefusalIsAnErrorWithTheAnswer() throws {
        let error = RedirectPolicy { _ in .refuse }.first(.redirect(307, to: "/x"), of: try .test()).error
        #expect(error?.code == .redirectRefused)
        #expect(error?.response?.statusCode == 307)
        #expect(error?.message == "onRedirect refused the redirect to http://a/x")
    }

    @Test func aRewrittenRequestIsSentInstead() throws {
        let target = try url("http://a/other")
        let policy = rewriting {
            $0.url = target
            $0.headerFields.add("Authorization", "new")
        }
        let step = policy.first(.redirect(to: "/x"), of: try .test())
        #expect(step.request?.url == target)
        #expect(step.request?.headerFields["Authorization"] == "new")
        #expect(step.leavesOrigin == false)
    }

    @Test(arguments: ["http://evil/", "http://u:p@evil/", "https://b/", "http://b:81/", "http://a/"])
    func secretsForTheProposedOriginReachNoOther(text: String) throws {
        let target = try url(text)
        let policy = rewriting {
            $0.headerFields.add("Authorization", "for b")
            $0.headerFields.add("X-Key", "for b", isSecret: true)
            $0.headerFields.add("Host", "b")
            $0.headerFields.add("X-Plain", "1")
            $0.url = target
        }
        let step = policy.first(.redirect(to: "http://b/x"), of: try .test())
        #expect(step.request?.headerFields.map(\.name) == ["X-Plain"])
        #expect(step.request?.url.user() == nil)
        #expect(step.leavesOrigin == (text != "http://a/"))
    }

    @Test func secretsForTheProposedOriginReachIt() throws {
        let policy = rewriting { $0.headerFields.add("Authorization", "for b") }
        let step = policy.first(.redirect(to: "http://b/x"), of: try .test(fields: ["Authorization": "for a"]))
        #expect(step.request?.headerFields.values(of: "Authorization") == ["for b"])
        #expect(step.leavesOrigin == true)
    }

    @Test func rewrittenRequestsAreCheckedAgain() throws {
        let (file, insecure) = (try url("file:///etc/passwd"), try url("http://a/x"))
        let request = try PreparedRequest.test(.get, "https://a/b")
        let toFile = rewriting { $0.url = file }.first(.redirect(to: "/x"), of: request).error
        #expect(toFile?.code == .invalidRequest)
        #expect(toFile?.response?.statusCode == 302)
        let down = rewriting { $0.url = insecure }.first(.redirect(to: "/x"), of: request).error
        #expect(down?.code == .redirectRefused)
        let injected = rewriting { $0.headerFields["X"] = "a\r\nb" }.first(.redirect(to: "/x"), of: request).error
        #expect(injected?.code == .invalidRequest)
        let method = rewriting { $0.method = "A B" }.first(.redirect(to: "/x"), of: request).error
        #expect(method?.code == .invalidRequest)
    }
}
