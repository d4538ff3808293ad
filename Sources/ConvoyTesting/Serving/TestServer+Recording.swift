extension TestServer {
    /// Removes and returns the oldest recorded request, or waits for the next.
    ///
    /// A request is available after its body was read or aborted, before its reply is sent.
    ///
    /// - Parameter bound: the longest wait, 60 seconds by default.
    /// - Throws: ``TestServerError/timedOut(waitingFor:bound:)``, ``TestServerError/shutDown``,
    ///   ``TestServerError/cancelled`` or, for a server that records none, ``TestServerError/recordsNothing``.
    /// - Thread: any; suspends the task and blocks no thread. Several tasks receive requests in the order of their
    ///   calls.
    public func takeRequest(within bound: Duration = .seconds(60)) async throws(TestServerError) -> RecordedRequest {
        try await core.takeRequest(within: bound)
    }

    /// The recorded requests that `takeRequest` has not returned, oldest first.
    ///
    /// - Thread: any.
    /// - Complexity: O(*n*) for *n* requests.
    public var recordedRequests: [RecordedRequest] { core.read { $0.requests.all } }

    /// The number of received requests, including those that were not recorded.
    ///
    /// - Thread: any.
    public var requestCount: Int { core.read { $0.requestCount } }

    /// The number of requests that `takeRequest` has returned.
    ///
    /// - Thread: any.
    public var takenRequestCount: Int { core.read { $0.takenRequestCount } }

    /// The number of malformed requests that received a 400 or 431.
    ///
    /// - Thread: any.
    public var rejectedRequestCount: Int { core.read { $0.rejectedRequestCount } }

    /// The number of accepted connections.
    ///
    /// - Thread: any.
    public var connectionCount: Int { core.read { $0.connectionCount } }

    /// The number of open connections.
    ///
    /// - Thread: any.
    public var openConnectionCount: Int { core.read { $0.connections.count } }

    /// Waits until a total of `count` requests were received.
    ///
    /// The requests stay recorded.
    ///
    /// - Parameters:
    ///   - count: the number of requests, counted as in ``requestCount``.
    ///   - bound: the longest wait, 60 seconds by default.
    /// - Throws: ``TestServerError``.
    /// - Thread: any; suspends the task and blocks no thread.
    public func requestsReceived(count: Int, within bound: Duration = .seconds(60)) async throws(TestServerError) {
        try await core.wait(within: bound, for: "\(count) request(s)") { $0.requestCount >= count }
    }

    /// Waits until a total of `count` connections were accepted.
    ///
    /// - Parameters:
    ///   - count: the number of connections, counted as in ``connectionCount``.
    ///   - bound: the longest wait, 60 seconds by default.
    /// - Throws: ``TestServerError``.
    /// - Thread: any; suspends the task and blocks no thread.
    public func connectionsAccepted(count: Int, within bound: Duration = .seconds(60)) async throws(TestServerError) {
        try await core.wait(within: bound, for: "\(count) connection(s)") { $0.connectionCount >= count }
    }

    /// Waits until a total of `count` connections have ended.
    ///
    /// Without a count, the call waits until no connection is open.
    ///
    /// The server notices a disconnected client at once while it reads, waits at a gate or pauses.
    ///
    /// - Parameters:
    ///   - count: ended connections since the server was made.
    ///   - bound: the longest wait, 60 seconds by default.
    /// - Throws: ``TestServerError``.
    /// - Thread: any; suspends the task and blocks no thread.
    public func connectionsClosed(
        count: Int? = nil, within bound: Duration = .seconds(60)
    ) async throws(TestServerError) {
        let what = count.map { "\($0) connection(s) to end" } ?? "all connections to end"
        try await core.wait(within: bound, for: what) { state in
            count.map { state.closedConnectionCount >= $0 } ?? state.connections.isEmpty
        }
    }

    /// Waits until a connection was accepted and has ended.
    ///
    /// - Parameters:
    ///   - number: the number of the connection; the first accepted connection is 1.
    ///   - bound: the longest wait, 60 seconds by default.
    /// - Throws: ``TestServerError``.
    /// - Thread: any; suspends the task and blocks no thread.
    public func connectionClosed(number: Int, within bound: Duration = .seconds(60)) async throws(TestServerError) {
        try await core.wait(within: bound, for: "connection \(number) to end") { state in
            state.connectionCount >= number && state.connections[number] == nil
        }
    }
}
