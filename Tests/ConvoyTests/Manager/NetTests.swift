import Convoy
import ConvoyTesting
import Foundation
import Testing

/// Tests the functions of `Net`, which share its manager, so the tests run one after another.
@Suite(.serialized) struct NetTests {
    @Test func allFiveCallFormsWorkAtOnce() async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { request in .status(200, body: "\(request.method) \(request.query ?? "-") \(request.bodyText)")
        }
        let (url, told) = (server.url(), EventLog<String>())
        let callback: Net.Callback = { data, response, error in
            told.record(
                error?.message ?? "\(response?.statusCode ?? 0) \(String(decoding: data ?? Data(), as: UTF8.self))")
        }
        Net.request(.put, url, ["b": 2, "a": "1 2"], callback: callback)
        Net.get(url, callback: callback)
        Net.get(url, ["user": ["name": "Ann", "tags": ["x", "y"]]], callback: callback)
        Net.post(url, callback: callback)
        Net.post(url, ["k": ["sub": ":&=;+!@#$()',*"]], callback: callback)
        #expect(
            Set(await told.wait(count: 5)) == [
                "200 PUT - a=1%202&b=2", "200 GET - ", "200 GET user%5Bname%5D=Ann&user%5Btags%5D=x&user%5Btags%5D=y ",
                "200 POST - ", "200 POST - k%5Bsub%5D=%3A%26%3D%3B%2B%21%40%23%24%28%29%27%2C%2A",
            ])
    }

    @Test func variablesAreParametersAsLiteralsAre() async {
        let usual = Net.manager
        defer { Net.manager = usual }
        let (server, told) = (StubServer(), EventLog<Void>())
        Net.manager = server.manager()
        let (name, page, tags) = ("Ann", 2, ["x", "y"])
        let params: [String: Any] = ["user": ["name": name, "tags": tags], "page": page]
        let text = "page=2&user%5Bname%5D=Ann&user%5Btags%5D=x&user%5Btags%5D=y"
        Net.get("http://stub/a", ["page": page]) { _, _, _ in told.record(()) }
        Net.get("http://stub/b", ["user": ["name": name, "tags": tags], "page": page]) { _, _, _ in told.record(()) }
        Net.post("http://stub/c", params) { _, _, _ in told.record(()) }
        Net.request(.put, "http://stub/d", params) { _, _, _ in told.record(()) }
        Net.request(.delete, "http://stub/e", params) { _, _, _ in told.record(()) }
        Net.get("http://stub/f", nil) { _, _, _ in told.record(()) }
        await told.wait(count: 6)
        let sent = server.exchanges.events.map(\.request).sorted { $0.url.path < $1.url.path }.map { request in
            request.url.query(percentEncoded: true) ?? request.body?.data.map { String(decoding: $0, as: UTF8.self) }
        }
        #expect(sent == ["page=2", text, text, text, text, nil])
        let cancelled = EventLog<RequestError.Code?>()
        Net.manager = StubServer.held().manager()
        Net.get("http://stub/g") { _, _, error in cancelled.record(error?.code) }.cancel()
        #expect(await cancelled.wait() == [.cancelled])
    }
}
