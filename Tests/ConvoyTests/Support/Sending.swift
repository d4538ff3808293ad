// An operation under way, and what it told.
import Foundation
import Testing

@testable import Convoy

/// A started operation with the log of its outcomes: exactly one is right.
struct Sending<Output: Sendable>: Sendable {
    let operation: RequestOperation<Output>
    let outcomes = EventLog<RequestOperation<Output>.Result>()

    /// Starts a request over a transport, without a manager.
    ///
    /// - Parameter prepare: sees the operation before it starts, to watch it or to cancel it.
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

    /// The response of a success; a failure is thrown.
    func response(sourceLocation: SourceLocation = #_sourceLocation) async throws -> Response<Output> {
        try await result(sourceLocation: sourceLocation).get()
    }

    /// The error of a failure; a success is an issue.
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
    /// A log that has an entry as soon as so many bytes of the body have been received.
    func received(bytes: Int64) -> EventLog<Int64> {
        let log = EventLog<Int64>()
        onProgress { if $0.download.completedBytes >= bytes { log.record($0.download.completedBytes) } }
        // A transfer that is held, or stands at a gate, may have told of its last byte before.
        if progress.download.completedBytes >= bytes { log.record(progress.download.completedBytes) }
        return log
    }
}
