// What became of a job: its attempts, the answer that counts, and what a handler says to it.
import Convoy
import Foundation

/// One attempt of a job: when it was made, and what came of it.
public struct JobAttempt: Sendable, Hashable, Codable {
    /// When it began, by the calendar.
    public var started: Date
    /// How many milliseconds it took.
    public var milliseconds: Int64
    /// The status code of the answer; nil when there was none.
    public var statusCode: Int?
    /// The code of the failure, as `RequestError` of Convoy has it; nil for an acceptable answer.
    public var failure: String?
    /// What went wrong, in words; nil for an acceptable answer.
    public var message: String?

    /// Makes an attempt.
    public init(
        started: Date, milliseconds: Int64 = 0, statusCode: Int? = nil, failure: String? = nil, message: String? = nil
    ) {
        self.started = started
        self.milliseconds = milliseconds
        self.statusCode = statusCode
        self.failure = failure
        self.message = message
    }
}

/// The outcome of a job: the answer of the server, or why there will be none.
///
/// Only what is final: failures that a later attempt may mend are retried by the queue itself, until its retries are used up.
public struct JobResult: Sendable, Hashable {
    /// The status code; nil when there was no answer.
    public var statusCode: Int?
    /// The header fields of the answer.
    public var headerFields: HeaderFields
    /// The body of the answer, or the beginning of it; empty for a download.
    public var body: Data
    /// Whether the body of the answer was longer than what is kept.
    public var isBodyCut: Bool
    /// Why the outcome is no success: the answer is not acceptable, or nothing could be sent; nil for a success.
    public var failure: String?
    /// How many attempts the job has had since it was added or retried, in earlier processes too, the last one included.
    public var attemptCount = 0
    /// Whether no other attempt follows, whatever the handler says: the retries of the queue's policy are used up, or the job has
    /// expired.
    ///
    /// `.retry` makes a dead letter of such a job, as `.fail` does.
    public var isGivenUp = false

    /// Makes a result.
    public init(
        statusCode: Int? = nil, headerFields: HeaderFields = [:], body: Data = Data(), isBodyCut: Bool = false,
        failure: String? = nil
    ) {
        self.statusCode = statusCode
        self.headerFields = headerFields
        self.body = body
        self.isBodyCut = isBodyCut
        self.failure = failure
    }

    /// Whether the server has accepted the request.
    public var isSuccess: Bool { failure == nil }

    /// Whether the job's expiry has passed before it was sent with success; then there is no answer here.
    public var isExpired: Bool { failure == JobRecord.expired }
}

/// What a handler says to the outcome of a job.
public enum JobDecision: Sendable, Hashable {
    /// The outcome has been taken: the job is done.
    case done
    /// The job is sent again, not before this time has passed; a dead letter where no other attempt follows,
    /// ``JobResult/isGivenUp``.
    case retry(after: Duration)
    /// The job becomes a dead letter, with this reason.
    case fail(String)
}
