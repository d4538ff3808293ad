import Foundation
import Testing

@testable import Convoy

/// Tests a callback that blocks its thread.
@Suite struct SlowCallbackExampleTests {
    /// A slow callback delays only its own request.
    ///
    /// The other callbacks run before it returns.
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
