import Foundation
import Testing

@testable import Convoy

/// A started operation with the log of its outcomes, of which there must be exactly one.
struct Sending<Output: Sendable>: Sendable {
    let operation: RequestOperation<Output>
    let outcomes = EventLog<RequestOperation<Output>.Result>()

    /// Starts a request over a transport, without a manager.
    ///
    /// - Parameter prepare: receives the operation before its start, to observe or cancel it.
    init(
        _ request: Request<Output>, over transport: any Transport,
        prepare: (RequestOperation<Output>) -> Void = { _ in }
    ) {
        operation = RequestOperation(request, transport: transport)
        operation.onFinish { [outcomes] in outcomes.record($0) }
        prepare(operation)
        operation.start()
    }

    /// The outcome; a second one is an issue.
    func result(sourceLocation: SourceLocation = #_sourceLocation) async throws -> RequestOperation<Output>.Result {
        let results = await outcomes.wait(within: .seconds(120), sourceLocation: sourceLocation)
        #expect(results.count <= 1, "more than one outcome", sourceLocation: sourceLocation)
        return try #require(results.first, sourceLocation: sourceLocation)
    }

    func response(sourceLocation: SourceLocation = #_sourceLocation) async throws -> Response<Output> {
        try await result(sourceLocation: sourceLocation).get()
    }

    /// The error; a success is an issue.
    func error(sourceLocation: SourceLocation = #_sourceLocation) async throws -> RequestError {
        switch try await result(sourceLocation: sourceLocation) {
        case .failure(let error): return error
        case .success(let response):
            let unexpected = "it succeeded: \(response.statusCode), \(response.transfer.download.completedBytes) bytes"
            return try #require(nil as RequestError?, Comment(rawValue: unexpected), sourceLocation: sourceLocation)
        }
    }
}

extension AnyRequestOperation {
    /// A log with an entry as soon as this number of body bytes has been received.
    func received(bytes: Int64) -> EventLog<Int64> {
        let log = EventLog<Int64>()
        onProgress { if $0.download.completedBytes >= bytes { log.record($0.download.completedBytes) } }
        // A paused transfer may have reported its last byte before the handler was added.
        if progress.download.completedBytes >= bytes { log.record(progress.download.completedBytes) }
        return log
    }
}

extension DiskExecutor {
    func run(_ work: @escaping @Sendable () throws -> Void) throws {
        let result = Locked<Result<Void, any Error>>(.success(()))
        sync {
            let found = Result { try work() }
            result.withLock { $0 = found }
        }
        try result.withLock { $0 }.get()
    }
}

extension RequestManager {
    /// The error of a request; a success is an issue.
    func error<Output: Sendable>(
        of request: Request<Output>, sourceLocation: SourceLocation = #_sourceLocation
    ) async -> RequestError? {
        await #expect(throws: RequestError.self, sourceLocation: sourceLocation) { try await send(request) }
    }
}
