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
        /// The operation was suspended, and its transport cannot pause or what it downloads can be continued.
        case suspended
        /// What was left of a download could not be continued: the whole was asked for.
        case startOver
        /// The process had no file descriptor left for it: it was sent again when another request had ended.
        case awaitedDescriptor
        /// It found no connection and there was no network: it was sent again when there was one.
        case awaitedConnectivity
    }

    /// The number of the attempt, from 1.
    public internal(set) var number: Int
    /// What was sent: after redirects, and with what interceptors and the cookie jar added.
    public internal(set) var request: PreparedRequest
    /// When it was begun, on the continuous clock.
    public var started: ContinuousClock.Instant { startedMoment.instant }
    /// When it ended.
    public var ended: ContinuousClock.Instant { endedMoment.instant }
    private let startedMoment: CompactInstant
    private let endedMoment: CompactInstant
    /// Status and header fields of its answer; nil when there was none.
    public internal(set) var response: ResponseHead?
    /// Why it failed; nil when it brought a whole answer, whatever the status.
    public internal(set) var failure: RequestError.Code?
    /// What went wrong, in the words of the error it ended with; nil when ``failure`` is.
    public internal(set) var message: String?
    /// What came after it.
    public internal(set) var next = Next.outcome
    /// The bytes that moved.
    public internal(set) var transfer: TransferProgress
    /// What the transport measured of it; nil from one that does not measure, and of an attempt that was broken off.
    public internal(set) var metrics: TransferMetrics?

    init(
        number: Int, request: PreparedRequest, started: ContinuousClock.Instant, ended: ContinuousClock.Instant,
        response: ResponseHead? = nil, failure: RequestError.Code? = nil,
        message: String? = nil, next: Next = .outcome,
        transfer: TransferProgress = TransferProgress(), metrics: TransferMetrics? = nil
    ) {
        self.number = number
        self.request = request
        startedMoment = CompactInstant(started)
        endedMoment = CompactInstant(ended)
        self.response = response
        self.failure = failure
        self.message = message
        self.next = next
        self.transfer = transfer
        // What an operation has counted until then came with the answer to an earlier attempt.
        if response == nil { self.transfer.forgetReceived() }
        self.metrics = metrics
    }

    /// Where it was sent.
    public var url: URL { request.url }
    /// The method it was sent with.
    public var method: HTTPMethod { request.method }
    /// The status code of its answer; nil when there was none.
    public var statusCode: Int? { response?.statusCode }
    /// Whether a stored response answered it, and nothing was sent.
    public var isFromCache: Bool { metrics?.cache?.isHit == true }
}

extension AttemptRecord: CustomStringConvertible, CustomReflectable {
    /// One line, without credentials: what came, after how long, and what followed.
    public var description: String {
        let what = statusCode.map(String.init) ?? failure?.description ?? "no answer"
        let followed = next == .outcome ? "" : ", then \(next)"
        return "\(number): \(request) (\(what) after \(started.duration(to: ended).words))\(followed)".oneLine
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
        case .startOver: "started over"
        case .awaitedDescriptor: "another attempt, with a file descriptor"
        case .awaitedConnectivity: "another attempt, with a network"
        }
    }
    /// The description only: a reflection would show what descriptions leave out.
    public var customMirror: Mirror { Mirror(self, children: ["next": description]) }
}

extension [AttemptRecord] {
    /// Where the redirects among them led.
    var redirects: [URL] { compactMap { if case .redirect(let url) = $0.next { url } else { nil } } }
}
