// What an operation was given to do, with the output's type erased.
import Foundation

/// The request of an operation and how its answer becomes an outcome; let go of when the operation finishes.
final class Recipe: Sendable {
    /// The request; nil for a link of a chain, whose request is built when its dependencies have finished.
    let core: RequestCore?
    /// Builds the request of a chain's link.
    ///
    /// User code: runs on the operation's lane.
    let build: (@Sendable () throws -> Recipe)?
    /// Decodes a complete body.
    ///
    /// User code: runs on the operation's lane.
    let respond: @Sendable (_ body: ReceivedBody, _ transfer: FinishedTransfer) throws -> AnyOutcome

    init<Output>(_ request: Request<Output>) {
        let decode = request.decode
        core = request.core
        build = nil
        respond = { body, transfer in
            Success(
                Response(
                    value: try decode(body, transfer.head), request: transfer.request, head: transfer.head,
                    timings: transfer.timings, transfer: transfer.progress, metrics: transfer.metrics,
                    earlierAttempts: transfer.earlierAttempts))
        }
    }

    init<Output>(building request: @escaping @Sendable () throws -> Request<Output>) {
        core = nil
        build = { Recipe(try request()) }
        respond = { _, transfer in
            AnyOutcome(
                error: RequestError(
                    .invalidRequest, "the request was never built", request: transfer.request.description))
        }
    }
}

/// Everything about an attempt that succeeded but its body.
struct FinishedTransfer: Sendable {
    var request: PreparedRequest
    var head: ResponseHead
    var timings: Timings
    var progress: TransferProgress
    var metrics: TransferMetrics?
    var earlierAttempts: [AttemptRecord]
}

/// The one outcome of an operation: a failure, or a ``Success`` of some output.
class AnyOutcome: @unchecked Sendable {
    // @unchecked: immutable; a class that is inherited from cannot be checked.
    let error: RequestError?
    private let failedAttempts: [AttemptRecord]

    init(error: RequestError?, failedAttempts: [AttemptRecord] = []) {
        self.error = error
        self.failedAttempts = failedAttempts
    }

    /// The attempts of this operation, whoever's the error was first.
    var attempts: [AttemptRecord] { failedAttempts }
    /// The bytes of the answer, where they were kept.
    var body: Data? { error?.body }

    /// The same outcome; a failure tells of the attempts that led to it.
    func listing(_ attempts: [AttemptRecord]) -> AnyOutcome {
        guard let error, !attempts.isEmpty else { return self }
        return AnyOutcome(error: error.with(attempts: attempts), failedAttempts: attempts)
    }
}

/// A success.
final class Success<Output: Sendable>: AnyOutcome, @unchecked Sendable {
    // @unchecked: immutable, as its superclass.
    let response: Response<Output>

    init(_ response: Response<Output>) {
        self.response = response
        super.init(error: nil)
    }

    override var attempts: [AttemptRecord] { response.attempts }
    override var body: Data? {
        response.value as? Data ?? (response.value as? String).map { Data($0.utf8) }
    }
}
