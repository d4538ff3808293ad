import ConvoyTesting
import Foundation
import Testing

@Suite struct RecordingTests {
    private func send(_ count: Int, to server: TestServer) throws {
        let client = try RawClient(server)
        for number in 0..<count {
            client.get("/\(number)")
            _ = try client.readResponse()
        }
    }

    @Test func takeWaitsForARequest() async throws {
        let server = try TestServer()
        async let request = server.takeRequest()
        try send(1, to: server)
        #expect(try await request.target == "/0")
        #expect(server.takenRequestCount == 1)
    }

    @Test func requestsAreReturnedInOrder() async throws {
        let server = try TestServer()
        try send(100, to: server)
        #expect(server.recordedRequests.map(\.target) == (0..<100).map { "/\($0)" })
        for number in 0..<100 { #expect(try await server.takeRequest().target == "/\(number)") }
        #expect(server.takenRequestCount == 100 && server.recordedRequests.isEmpty)
    }

    @Test func takeIsBounded() async throws {
        let server = try TestServer()
        await #expect(throws: TestServerError.self) { try await server.takeRequest(within: .milliseconds(1)) }
        try send(1, to: server)
        #expect(try await server.takeRequest().target == "/0")
    }

    @Test func theErrorOfABoundedWaitNamesItsCondition() async throws {
        let server = try TestServer()
        do {
            try await server.connectionsAccepted(count: 3, within: .milliseconds(1))
            Issue.record("The wait must end with an error.")
        } catch {
            #expect(error == .timedOut(waitingFor: "3 connection(s)", bound: .milliseconds(1)))
            #expect("\(error)".contains("3 connection(s)"))
        }
    }

    @Test func cancelledTaskStopsWaiting() async throws {
        let server = try TestServer()
        let task = Task { try await server.takeRequest(within: .seconds(60)) }
        task.cancel()
        await #expect(throws: TestServerError.cancelled) { try await task.value }
    }

    @Test func shutDownEndsWaitsAndKeepsRecordedRequests() async throws {
        let server = try TestServer()
        try send(1, to: server)
        let closing = Task { try await server.requestsReceived(count: 2, within: .seconds(60)) }
        server.shutDown()
        await #expect(throws: TestServerError.shutDown) { try await closing.value }
        #expect(try await server.takeRequest().target == "/0")
        await #expect(throws: TestServerError.shutDown) { try await server.takeRequest() }
    }

    @Test func lastKeepsTheNewest() async throws {
        let server = try TestServer(recording: .last(2))
        try send(5, to: server)
        #expect(server.requestCount == 5)
        #expect(server.recordedRequests.map(\.target) == ["/3", "/4"])
    }

    @Test func noneOnlyCounts() async throws {
        let server = try TestServer(recording: .none)
        try send(5, to: server)
        try await server.requestsReceived(count: 5)
        #expect(server.recordedRequests.isEmpty)
        await #expect(throws: TestServerError.recordsNothing) { try await server.takeRequest() }
    }

    @Test func manyTakersGetOneRequestEach() async throws {
        let server = try TestServer()
        let targets = try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<20 { group.addTask { try await server.takeRequest().target } }
            try send(20, to: server)
            return try await group.reduce(into: Set<String>()) { $0.insert($1) }
        }
        #expect(targets.count == 20)
        #expect(server.recordedRequests.isEmpty)
    }
}
