extension TestServer {
    /// Takes the oldest request that has not been taken, and waits for one if there is none.
    ///
    /// A request is there when its body has been read or broken off, and before its reply is sent.
    ///
    /// - Parameter bound: the longest wait, 10 seconds by default.
    /// - Throws: ``TestServerError/timedOut(waitingFor:bound:)``, ``TestServerError/shutDown``,
    ///   ``TestServerError/cancelled`` or, for a server that records none, ``TestServerError/recordsNothing``.
    /// - Thread: any; suspends the task and blocks no thread. Several tasks are served in the order they asked.
    public func takeRequest(within bound: Duration = .seconds(10)) async throws(TestServerError) -> RecordedRequest {
        try await core.takeRequest(within: bound)
    }

    /// The requests that are recorded and not taken, oldest first.
    ///
    /// - Thread: any.
    /// - Complexity: O(*n*) for *n* requests.
    public var recordedRequests: [RecordedRequest] { core.read { $0.requests.all } }

    /// How many requests have come, those that are not recorded counted.
    ///
    /// - Thread: any.
    public var requestCount: Int { core.read { $0.requestCount } }

    /// How many requests have been taken.
    ///
    /// - Thread: any.
    public var takenRequestCount: Int { core.read { $0.takenRequestCount } }

    /// How many requests were malformed and got a 400 or 431.
    ///
    /// - Thread: any.
    public var rejectedRequestCount: Int { core.read { $0.rejectedRequestCount } }

    /// How many connections have been accepted so far.
    ///
    /// - Thread: any.
    public var connectionCount: Int { core.read { $0.connectionCount } }

    /// How many connections are open now.
    ///
    /// - Thread: any.
    public var openConnectionCount: Int { core.read { $0.connections.count } }

    /// Waits until so many requests have come in all; takes none of them.
    ///
    /// - Parameters:
    ///   - count: as ``requestCount`` counts.
    ///   - bound: the longest wait, 10 seconds by default.
    /// - Throws: ``TestServerError``.
    /// - Thread: any; suspends the task and blocks no thread.
    public func requestsReceived(count: Int, within bound: Duration = .seconds(10)) async throws(TestServerError) {
        try await core.wait(within: bound, for: "\(count) request(s)") { $0.requestCount >= count }
    }

    /// Waits until so many connections have been accepted in all.
    ///
    /// - Parameters:
    ///   - count: as ``connectionCount`` counts.
    ///   - bound: the longest wait, 10 seconds by default.
    /// - Throws: ``TestServerError``.
    /// - Thread: any; suspends the task and blocks no thread.
    public func connectionsAccepted(count: Int, within bound: Duration = .seconds(10)) async throws(TestServerError) {
        try await core.wait(within: bound, for: "\(count) connection(s)") { $0.connectionCount >= count }
    }

    /// Waits until so many connections have ended in all or, without a count, until none is open.
    ///
    /// The server notices at once that a client has gone while it reads, stands at a gate or pauses.
    ///
    /// - Parameters:
    ///   - count: ended connections since the server was made.
    ///   - bound: the longest wait, 10 seconds by default.
    /// - Throws: ``TestServerError``.
    /// - Thread: any; suspends the task and blocks no thread.
    public func connectionsClosed(
        count: Int? = nil, within bound: Duration = .seconds(10)
    ) async throws(TestServerError) {
        let what = count.map { "\($0) connection(s) to end" } ?? "all connections to end"
        try await core.wait(within: bound, for: what) { state in
            count.map { state.closedConnectionCount >= $0 } ?? state.connections.isEmpty
        }
    }

    /// Waits until one connection has ended; waits for it to be accepted too.
    ///
    /// - Parameters:
    ///   - number: the first accepted connection is 1.
    ///   - bound: the longest wait, 10 seconds by default.
    /// - Throws: ``TestServerError``.
    /// - Thread: any; suspends the task and blocks no thread.
    public func connectionClosed(number: Int, within bound: Duration = .seconds(10)) async throws(TestServerError) {
        try await core.wait(within: bound, for: "connection \(number) to end") { state in
            state.connectionCount >= number && state.connections[number] == nil
        }
    }
}
