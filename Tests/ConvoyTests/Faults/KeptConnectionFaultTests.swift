// Tests reused connections that fail, with a manager that retries.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

extension FaultsWithRepeats {
    /// Each test runs in its own process, because a shared transport closes idle connections when other tests use it.
    ///
    /// The stub is not tested, because it has no connections.
    @Suite(.timeLimit(.minutes(5))) struct KeptConnectionFaultTests {
        /// The transport sends the request again once, immediately.
        ///
        /// The retry policy counts no retry.
        @Test(arguments: ConformingTransport.all)
        func idempotentRequestMetByAnEndIsSentAgainSilently(_ subject: ConformingTransport) async {
            await #expect(processExitsWith: .success) { [name = subject.name as String] in
                endProcessIfStuck()
                for end in [Reply.Step.close, .reset] {
                    for method in [HTTPMethod.get, .put, .delete] {
                        let second = try await Second(method, name, meeting: [end], retries: .never)
                        #expect(try second.result.get().value == "again")
                        #expect(try second.result.get().attempts.count == 1)
                        #expect(second.connections == [1, 2])
                        #expect(second.seen.map(\.body) == Array(repeating: Second.body(method), count: 2))
                    }
                }
            }
        }

        /// If the new connection also ends, the request fails with `connectionLost`, and the retry policy decides.
        @Test(arguments: ConformingTransport.all)
        func secondLossIsForThePolicy(_ subject: ConformingTransport) async {
            await #expect(processExitsWith: .success) { [name = subject.name as String] in
                endProcessIfStuck()
                let lost = try await Second(.get, name, meeting: [.close, .close], retries: .never)
                #expect(lost.result.code == .connectionLost)
                #expect(lost.seen.count == 2)
                let repeated = try await Second(.put, name, meeting: [.close, .close], retries: .quick)
                #expect(try repeated.result.get().attempts.map(\.failure) == [.connectionLost, nil])
                #expect(repeated.connections == [1, 2, 3])
                #expect(repeated.seen.map(\.body) == Array(repeating: Second.body(.put), count: 3))
            }
        }

        /// The server may have processed the request, so it is sent only once, whatever the policy says.
        @Test(arguments: ConformingTransport.all, [HTTPMethod.post, .patch])
        func unsafeRequestMetByAnEndIsNotSentAgain(_ subject: ConformingTransport, _ method: HTTPMethod) async {
            await withKnownIssue("SCF: libcurl sends again whatever the method is", isIntermittent: true) {
                await #expect(processExitsWith: .success) {
                    [name = subject.name as String, method = method.rawValue as String] in
                    endProcessIfStuck()
                    for end in [Reply.Step.close, .reset] {
                        let method = HTTPMethod(rawValue: method)
                        let second = try await Second(method, name, meeting: [end], retries: .quick)
                        #expect(second.result.code == .connectionLost, "\(second.result)")
                        #expect(second.seen.map(\.body) == [Second.body(method)])
                    }
                }
            } when: {
                FaultGround(testDescription: "", transport: subject.transport).isURLSession
            }
        }

        /// An empty idempotency key counts as none, for the policy and for a reused connection.
        @Test(arguments: ConformingTransport.all)
        func postWithAnEmptyKeyMetByAnEndIsNotSentAgain(_ subject: ConformingTransport) async {
            await withKnownIssue("SCF: libcurl sends again whatever the method is", isIntermittent: true) {
                await #expect(processExitsWith: .success) { [name = subject.name as String] in
                    endProcessIfStuck()
                    for key in ["", "  "] {
                        let second = try await Second(.post, name, meeting: [.close], retries: .quick, key: key)
                        #expect(second.result.code == .connectionLost, "\(second.result)")
                        #expect(second.seen.count == 1)
                    }
                }
            } when: {
                FaultGround(testDescription: "", transport: subject.transport).isURLSession
            }
        }

        @Test(arguments: ConformingTransport.all)
        func postWithAKeyMetByAnEndIsSentAgain(_ subject: ConformingTransport) async {
            await #expect(processExitsWith: .success) { [name = subject.name as String] in
                endProcessIfStuck()
                let second = try await Second(.post, name, meeting: [.close], retries: .quick, key: "key")
                #expect(try second.result.get().value == "again")
                #expect(second.seen.map { $0.value(of: "Idempotency-Key") } == ["key", "key"])
                #expect(second.seen.map(\.body) == Array(repeating: Second.body(.post), count: 2))
            }
        }

        /// A silent reused connection ends with the idle timeout.
        ///
        /// The retry opens a new connection.
        @Test(arguments: ConformingTransport.all)
        func silentConnectionIsReplacedAfterTheIdleTime(_ subject: ConformingTransport) async {
            await #expect(processExitsWith: .success) { [name = subject.name as String] in
                endProcessIfStuck()
                let second = try await Second(.get, name, meeting: [.wait(Gate())], retries: .quick)
                let response = try second.result.get()
                #expect(response.value == "again")
                #expect(response.attempts.map(\.failure) == [.timedOut, nil])
                #expect(second.connections == [1, 2])
            }
        }
    }
}

extension RetryPolicy {
    fileprivate static let quick = RetryPolicy(baseDelay: .milliseconds(1))
}

/// The result of a second request on a reused connection.
private struct Second {
    let result: RequestOperation<String>.Result
    /// The requests with the path `/second` that the server received.
    let seen: [RecordedRequest]

    var connections: [Int] { seen.map(\.connectionNumber) }

    static func body(_ method: HTTPMethod) -> Data {
        [.put, .post].contains(method) ? Reply.pattern(range: 0..<100_000) : Data()
    }

    /// Sends a first request, and then the second one over the same connection.
    ///
    /// - Parameter steps: what the server does after it has read the second request and each of its repetitions, in
    ///   order. After these steps the server answers the next repetition.
    init(
        _ method: HTTPMethod, _ transport: String, meeting steps: [Reply.Step], retries: RetryPolicy,
        key: String? = nil
    ) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue([.status(200)] + steps.map { Reply.status(200).performing($0, at: .responseStart) })
        server.respond { _ in .status(200, body: "again") }
        var configuration = RequestManager.Configuration(transport: .custom(try ConformingTransport.named(transport)))
        configuration.retries = retries
        let manager = RequestManager(configuration: configuration)
        try await manager.send(Request<Data>.get(server.url("/first")))
        var request = Request<String>(method: method, url: server.url("/second")).impatientAtFirst()
        let body = Self.body(method)
        if !body.isEmpty { request = request.body(body) }
        if let key { request = request.idempotencyKey(key) }
        let outcomes = EventLog<RequestOperation<String>.Result>()
        manager.enqueue(request) { outcomes.record($0) }
        result = try #require(await outcomes.wait().first)
        // The second request must arrive on the first connection, or the test covers no reused connection.
        #expect(server.recordedRequests.dropFirst().first?.connectionNumber == 1)
        seen = server.recordedRequests.filter { $0.path == "/second" }
    }
}
