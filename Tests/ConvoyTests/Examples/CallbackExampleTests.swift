import Convoy
import Foundation
import Testing

@Suite struct CallbackExampleTests {
    /// The callback is called once for each call: after a response, without a connection, and after a time-out.
    @Test func onePostWithOneCallbackOnEveryPath() async throws {
        let server = try TestServer()
        server.enqueue(Reply.chunked([Data("saved ".utf8), Data("ünder 7".utf8)]))
        server.enqueue(Reply.status(200).stalling())
        let manager = RequestManager()
        let told = EventLog<(text: String?, code: RequestError.Code?)>()

        func post(_ url: URL, _ parameters: String, whenDone: @escaping @Sendable (String?, RequestError?) -> Void) {
            let request = Request<String>.post(url)
                .body(parameters, contentType: "application/x-www-form-urlencoded").idleTimeout(.seconds(1))
            manager.enqueue(request).onFinish { whenDone(try? $0.get().value, $0.failure as? RequestError) }
        }

        for url in [server.url("/a"), server.url("/b"), URL(fileURLWithPath: "/").absoluteURL] {
            post(url, "name=Ann&age=7") { text, error in told.record((text, error?.code)) }
        }
        await manager.drain()
        let events = await told.wait(count: 3)
        #expect(events.count { $0.text == "saved ünder 7" && $0.code == nil } == 1)
        #expect(events.count { $0.text == nil && $0.code == .timedOut } == 1)
        #expect(events.count { $0.text == nil && $0.code == .invalidRequest } == 1)
        let request = try await server.takeRequest()
        #expect(request.method == "POST")
        #expect(request.bodyText == "name=Ann&age=7")
    }

    @Test func aSlowCallbackDelaysNoOther() async throws {
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
