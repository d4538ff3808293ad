import Convoy
import ConvoyQueue
import ConvoyTesting
import Foundation
import Testing

/// Runs the first example of the documentation, and makes jobs of requests.
@Suite struct QueueExampleTests {
    private struct Order: Encodable {
        var number = 17
    }

    let place: StorePlace

    init() throws { place = try StorePlace() }

    @Test func theFirstPage() async throws {
        let server = try TestServer()
        server.enqueue(.status(201))
        let file = place.file
        let ordersURL = server.url("/orders")
        let order = Order()
        let authenticator = try BearerAuthenticator(origins: [ordersURL]) { _ in "token" }

        var configuration = RequestManager.Configuration()
        configuration.interceptors = [authenticator]
        let manager = RequestManager(configuration: configuration)
        let queue = try DurableQueue(at: file, manager: manager)
        queue.start([
            "order": { job, result in
                result.isSuccess ? .done : .fail(result.failure ?? "refused")
            }
        ])
        let request = try JobRequest(.post(ordersURL, json: order))
        try await queue.add(Job("order", request))

        await queue.drain()
        let sent = try await server.takeRequest()
        #expect(sent.bodyText == #"{"number":17}"# && sent.value(of: "Authorization") == "Bearer token")
        #expect(sent.value(of: "Idempotency-Key")?.isEmpty == false)
        #expect(try await queue.status()[.done] == 1)
    }

    @Test func secretsAreRefusedWithAHint() async throws {
        let url = try #require(URL(string: "https://example.com/a"))
        let secrets: [Request<Data>] = [
            .get(url).bearer("secret"), .get(url).header("cookie", "secret"),
            .get(url).header("X-Api-Key", "secret"), .get(url).header("x_auth-token", "secret"),
            .get(url).header("Proxy-Authorization", "secret"), .get(url).secretHeader("X-Key", "secret"),
            .get("https://user:secret@example.com/a"),
        ]
        let queue = try DurableQueue(at: place.file, manager: RequestManager())
        for request in secrets {
            do {
                try await queue.add(Job("test", try JobRequest(request)))
                Issue.record("\(request) was added")
            } catch {
                #expect(error.code == .invalidJob && error.message.contains("interceptor"), "\(error)")
                #expect(!error.message.contains("secret "), "\(error)")
            }
        }
        #expect(try await queue.status().counts.isEmpty)
    }

    @Test func bodiesThatCannotBeKeptAreRefused() throws {
        let url = try #require(URL(string: "https://example.com/a"))
        let request = Request<Data>(method: .post, url: url).body(stream: { InputStream(data: Data()) })
        #expect(throws: QueueError.self) { try JobRequest(request) }
        let form = Request<Data>(method: .post, url: url).form([URLQueryItem(name: "a", value: "b")]).query("c", "d")
        let kept = try JobRequest(form)
        #expect(kept.body == .data(Data("a=b".utf8)) && kept.url.absoluteString == "https://example.com/a?c=d")
        #expect(kept.headerFields["Content-Type"] == "application/x-www-form-urlencoded")
    }
}
