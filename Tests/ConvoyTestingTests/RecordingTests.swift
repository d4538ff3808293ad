import ConvoyTesting
import Foundation
import Testing

@Suite struct RecordingTests {
    private let server: TestServer

    init() throws { server = try TestServer() }

    private func send(_ count: Int, to server: TestServer) throws {
        _ = try server.bodies((0..<count).map { "/\($0)" })
    }

    @Test func takeWaitsForARequest() async throws {
        async let request = server.takeRequest()
        try send(1, to: server)
        #expect(try await request.target == "/0")
        #expect(server.takenRequestCount == 1)
    }

    @Test func takeIsBounded() async throws {
        let bound = Duration.milliseconds(1)
        await #expect(throws: TestServerError.self) { try await server.takeRequest(within: bound) }
        let error = await #expect(throws: TestServerError.self) {
            try await server.connectionsAccepted(count: 3, within: bound)
        }
        #expect(error == .timedOut(waitingFor: "3 connection(s)", bound: bound))
        #expect(error?.description.contains("3 connection(s)") == true)
        try send(1, to: server)
        #expect(try await server.takeRequest().target == "/0")
    }

    @Test func cancelledTaskStopsWaiting() async throws {
        let task = Task { try await server.takeRequest(within: .seconds(60)) }
        task.cancel()
        await #expect(throws: TestServerError.cancelled) { try await task.value }
    }

    @Test func shutDownEndsWaitsAndKeepsRecordedRequests() async throws {
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
        for number in 3...4 { #expect(try await server.takeRequest().target == "/\(number)") }
        #expect(server.takenRequestCount == 2 && server.recordedRequests.isEmpty)
    }

    @Test func noneOnlyCounts() async throws {
        let server = try TestServer(recording: .none)
        try send(5, to: server)
        try await server.requestsReceived(count: 5)
        #expect(server.recordedRequests.isEmpty)
        await #expect(throws: TestServerError.recordsNothing) { try await server.takeRequest() }
    }

    @Test func manyTakersGetOneRequestEach() async throws {
        let targets = try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<20 { group.addTask { try await server.takeRequest().target } }
            try send(20, to: server)
            return try await group.reduce(into: Set<String>()) { $0.insert($1) }
        }
        #expect(targets.count == 20)
        #expect(server.recordedRequests.isEmpty)
    }
}
