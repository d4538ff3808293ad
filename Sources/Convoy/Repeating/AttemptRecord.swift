// What became of each attempt, for the response and the error.
import Foundation

/// One attempt of a request: when it was sent, why it ended, what was waited after it.
///
/// A redirect, a retry and an answer to a challenge are attempts of their own (see ``Response/attempts``).
public struct AttemptRecord: Sendable, Hashable {
    /// What came after an attempt.
    public enum Next: Sendable, Hashable {
        /// Nothing: its end is the outcome.
        case outcome
        /// A redirect was followed.
        case redirect(to: URL)
        /// It was sent again, after a wait.
        case retry(after: Duration)
        /// An interceptor asked for another attempt, with a fresh token for example.
        case intercepted(after: Duration)
        /// The operation was suspended, and its transport cannot pause.
        case suspended
    }

    /// The number of the attempt, from 1.
    public internal(set) var number: Int
    /// Where it was sent.
    public internal(set) var url: URL
    /// The method it was sent with.
    public internal(set) var method: HTTPMethod
    /// When it was begun, on the continuous clock.
    public internal(set) var started: ContinuousClock.Instant
    /// When it ended.
    public internal(set) var ended: ContinuousClock.Instant
    /// The status code of its answer; nil when there was none.
    public internal(set) var statusCode: Int?
    /// Why it failed; nil when it brought a whole answer, whatever the status.
    public internal(set) var failure: RequestError.Code?
    /// What came after it.
    public internal(set) var next = Next.outcome
    /// What the transport measured of it.
    public internal(set) var metrics: TransferMetrics?
}

extension AttemptRecord: CustomStringConvertible, CustomReflectable {
    /// One line, without credentials.
    public var description: String {
        let what = statusCode.map(String.init) ?? failure?.description ?? "no answer"
        return "\(number): \(method) \(url.redactedString) (\(what))"
    }
    /// The description only: a reflection would show what descriptions leave out.
    public var customMirror: Mirror { Mirror(self, children: ["attempt": description]) }
}

extension AttemptRecord.Next: CustomStringConvertible, CustomReflectable {
    /// In words, without credentials.
    public var description: String {
        switch self {
        case .outcome: "the outcome"
        case .redirect(let url): "a redirect to \(url.redactedString)"
        case .retry(let delay): "a retry after \(delay.words)"
        case .intercepted(let delay): "another attempt after \(delay.words), as an interceptor asked"
        case .suspended: "suspended"
        }
    }
    /// The description only: a reflection would show what descriptions leave out.
    public var customMirror: Mirror { Mirror(self, children: ["next": description]) }
}

extension [AttemptRecord] {
    /// Where the redirects among them led.
    var redirects: [URL] { compactMap { if case .redirect(let url) = $0.next { url } else { nil } } }
}
