import Convoy
import Foundation

/// One attempt of a job and its result.
public struct JobAttempt: Sendable, Hashable, Codable {
    /// When the attempt started, as a calendar date.
    public var started: Date
    /// The duration of the attempt in milliseconds.
    public var milliseconds: Int64
    /// The status code of the response; nil without a response.
    public var statusCode: Int?
    /// The code of the failure, as in Convoy's `RequestError`; nil for an acceptable response.
    public var failure: String?
    /// The cause of a failure; nil for an acceptable response.
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

extension JobAttempt {
    package func json() throws -> String {
        // Most attempts have neither failure nor message. Their text is built without an encoder, because encoding
        // would take as long as writing the rest of the row.
        let date = started.timeIntervalSinceReferenceDate
        guard failure == nil, message == nil, date.isFinite else {
            return String(decoding: try JSONEncoder().encode(self), as: UTF8.self)
        }
        let status = statusCode.map { ",\"statusCode\":\($0)" } ?? ""
        return "{\"started\":\(date),\"milliseconds\":\(milliseconds)\(status)}"
    }
}

/// The outcome of a job: the server's response, or why none arrived.
///
/// The queue itself retries temporary failures. A temporary failure becomes a result only when the retries are used up.
public struct JobResult: Sendable, Hashable {
    /// The status code; nil without a response.
    public var statusCode: Int?
    /// The header fields of the response.
    public var headerFields: HeaderFields
    /// The body of the response, possibly truncated.
    ///
    /// Of a failure, it has at most the first 64 KiB. For a successful download, it is empty.
    public var body: Data
    /// Whether the body was truncated; also true if the body of a failure has exactly 64 KiB.
    public var isBodyCut: Bool
    /// Why the outcome is no success: an unacceptable status, no response, the job's expiry; nil for a success.
    public var failure: String?
    /// The number of attempts since the job was added, or last retried as a dead letter.
    ///
    /// The number includes attempts of earlier processes and the last one. It is 0 except in results that a handler
    /// receives; see ``JobRecord/attemptCount``.
    public var attemptCount = 0
    /// Whether no other attempt is possible, because the retries are used up or the job has expired.
    ///
    /// Only results that a handler receives have this value. If the handler decides `.retry` for such a job, the job
    /// becomes a dead letter, as with `.fail`.
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

    /// Whether the request succeeded.
    public var isSuccess: Bool { failure == nil }

    /// Whether the job expired before it succeeded, and so has no response.
    public var isExpired: Bool { failure == Self.expired }

    static let expired = "it expired before it could be sent"
}

/// A handler's decision about a job.
public enum JobDecision: Sendable, Hashable {
    /// The outcome was handled, so the job is done.
    case done
    /// The job is sent again after this time, or becomes a dead letter if ``JobResult/isGivenUp``.
    case retry(after: Duration)
    /// The job becomes a dead letter, with this reason.
    case fail(String)
}
