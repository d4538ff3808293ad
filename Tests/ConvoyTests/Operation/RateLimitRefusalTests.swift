import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// Tests byte rates that a transport cannot limit, and values that mean no limit.
@Suite struct RateLimitRefusalTests {
    private let clock = VirtualClock()

    @Test(arguments: [true, false])
    func aTransportThatCannotBeHeldIsRefused(limitIsTheManagers: Bool) async throws {
        let server = StubServer(pausesInPlace: false)
        let manager = server.manager(clock: clock) { $0.maxBytesPerSecond = limitIsTheManagers ? 1_000 : nil }
        let request = Request.stub("a")
        let operation = manager.enqueue(limitIsTheManagers ? request : request.maxBytesPerSecond(1_000))
        let error = await #expect(throws: RequestError.self) { try await operation.response() }
        #expect(error?.code == .invalidRequest)
        #expect(
            error?.message == "nothing was sent: a rate limit needs a transport that can pause; use libcurl")
        #expect(server.exchanges.count == 0)
        manager.maxBytesPerSecond = nil
        #expect(try await manager.send(request).value == Data("ok".utf8))
        manager.maxBytesPerSecond = 1
        await #expect(throws: RequestError.self) { try await manager.send(request) }
        #expect(server.exchanges.count == 1)
    }

    @Test(arguments: [0, -1, Int64.min])
    func noRateAtAllIsADefectOfARequest(limit: Int64) async {
        let operation = StubServer().manager(clock: clock).enqueue(Request.stub("a").maxBytesPerSecond(limit))
        let error = await #expect(throws: RequestError.self) { try await operation.response() }
        #expect(error?.code == .invalidRequest)
        #expect(error?.message.contains("rate limit") == true)
    }

    @Test(arguments: [0, -1, Int64.min])
    func aZeroOrNegativeRateIsNoLimitOfAManager(limit: Int64) async throws {
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 200))
            exchange.send(Data(count: 1_000_000))
            #expect(!exchange.isSuspended)
            exchange.finish()
        }
        let manager = server.manager(clock: clock) { $0.maxBytesPerSecond = limit }
        #expect(manager.maxBytesPerSecond == nil)
        #expect(try await manager.send(Request.stub("a")).value.count == 1_000_000)
    }
}
