import ConvoyTesting
import Testing

@Suite struct GateTests {
    @Test func openGateStaysOpen() async throws {
        let gate = Gate()
        #expect(!gate.isOpen)
        gate.open()
        gate.open()
        #expect(gate.isOpen)
        try await gate.opened()
    }

    @Test func openWakesEveryWaiter() async throws {
        let gate = Gate()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<10 { group.addTask { try await gate.opened() } }
            gate.open()
            try await group.waitForAll()
        }
    }

    @Test func waitsAreBoundedAndCancellable() async throws {
        let gate = Gate()
        let bound = Duration.milliseconds(1)
        await #expect(throws: TestServerError.timedOut(waitingFor: "a gate to be opened", bound: bound)) {
            try await gate.opened(within: bound)
        }
        let task = Task { try await gate.reached(count: 1, within: .seconds(60)) }
        task.cancel()
        await #expect(throws: TestServerError.cancelled) { try await task.value }
    }

    @Test func oneGateHoldsSeveralConnections() async throws {
        let server = try TestServer()
        let gate = Gate()
        server.respond { _ in .status(204).stalling(until: gate) }
        let clients = try (0..<5).map { _ in try RawClient(server) }
        for client in clients { client.get("/") }
        try await gate.reached(count: 5)
        #expect(gate.arrivals == 5)
        #expect(clients.allSatisfy { !$0.hasInput })
        gate.open()
        for client in clients { #expect(try client.readResponse().statusLine == "HTTP/1.1 204 No Content") }
        clients[0].get("/")
        #expect(try clients[0].readResponse().statusLine == "HTTP/1.1 204 No Content")
        #expect(gate.arrivals == 6)
    }
}
