import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// Document 004: an HTTP library of one's own, with a facade.
@Suite(.serialized) struct Document004Tests {
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

    @Test func theManagerBehindTheFacadeIsReplaceable() async throws {
        let usual = Net.manager
        defer { Net.manager = usual }
        let server = StubServer()
        Net.manager = server.manager()
        let told = EventLog<RequestError.Code?>()
        Net.get("http://stub/a") { _, _, error in told.record(error?.code) }
        let held = StubServer.held()
        Net.manager = held.manager()
        Net.get("http://stub/b") { _, _, error in told.record(error?.code) }.cancel()
        #expect(Set(await told.wait(count: 2)) == [nil, .cancelled])
        #expect(server.paths == ["/a"])
    }

    /// What a slow callback holds up is itself: the others come before it returns.
    @Test func aCallbackThatTakesLongDelaysNoOther() async throws {
        let server = StubServer()
        let manager = server.manager()
        let (gate, told) = (DispatchSemaphore(value: 0), EventLog<Int>())
        manager.enqueue(Request.stub("slow")).onFinish { _ in
            gate.wait()
            told.record(0)
        }
        for index in 1...20 { manager.enqueue(Request.stub("\(index)")).onFinish { _ in told.record(index) } }
        #expect(Set(await told.wait(count: 20)) == Set(1...20))
        gate.signal()
        #expect(await told.wait(count: 21).last == 0)
    }
}
