// What came back.
import Foundation

/// Status and header fields of an answer.
public struct ResponseHead: Sendable, Hashable {
    /// The status code, 100 to 999.
    public var statusCode: Int
    /// The header fields.
    ///
    /// A loader may have joined fields of one name: URLSession does.
    public var headerFields: HeaderFields
    /// The URL that answered; nil when the transport does not tell.
    public var url: URL?
    /// The length of the body in bytes as the server declared it; nil when it did not, or when the body is encoded.
    public var expectedBytes: Int64?

    /// Makes a response head; for transports and tests.
    public init(statusCode: Int, headerFields: HeaderFields = [:], url: URL? = nil, expectedBytes: Int64? = nil) {
        self.statusCode = statusCode
        self.headerFields = headerFields
        self.url = url
        self.expectedBytes = expectedBytes
    }

    /// Whether this is an interim response (1xx), to be followed by the one that counts (RFC 9110, section 15.2).
    var isInformational: Bool { (100..<200).contains(statusCode) }
}

extension ResponseHead: CustomReflectable {
    /// What a description shows: the URL without user name and password.
    public var customMirror: Mirror {
        let children: KeyValuePairs<String, Any> = [
            "statusCode": statusCode, "headerFields": headerFields, "url": url?.redactedString as Any,
            "expectedBytes": expectedBytes as Any,
        ]
        return Mirror(self, children: children, displayStyle: .struct)
    }
}

/// The answer to a request: what was sent, what came back, and when.
///
/// ## Topics
/// - ``value``
/// - ``head``
/// - ``request``
/// - ``timings``
/// - ``transfer``
/// - ``metrics``
/// - ``attempts``
public struct Response<Value: Sendable>: Sendable {
    /// The decoded body.
    public let value: Value
    /// What was sent last: after redirects, and with what interceptors added.
    public let request: PreparedRequest
    /// Status and header fields.
    public let head: ResponseHead
    /// When the request was queued, started, answered and finished.
    public let timings: Timings
    /// The bytes that moved, for the attempt that succeeded.
    public let transfer: TransferProgress
    /// What the transport measured of that attempt; nil from one that does not measure.
    public let metrics: TransferMetrics?
    let earlierAttempts: [AttemptRecord]

    /// Makes a response; for stubs in your own tests.
    public init(
        value: Value, request: PreparedRequest, head: ResponseHead, timings: Timings = Timings(),
        transfer: TransferProgress = TransferProgress(), metrics: TransferMetrics? = nil
    ) {
        self.init(
            value: value, request: request, head: head, timings: timings, transfer: transfer, metrics: metrics,
            earlierAttempts: [])
    }

    init(
        value: Value, request: PreparedRequest, head: ResponseHead, timings: Timings, transfer: TransferProgress,
        metrics: TransferMetrics?, earlierAttempts: [AttemptRecord]
    ) {
        self.value = value
        self.request = request
        self.head = head
        self.timings = timings
        self.transfer = transfer
        self.metrics = metrics
        self.earlierAttempts = earlierAttempts
    }

    /// What became of each attempt, in order: redirects, retries, and last the one that succeeded.
    public var attempts: [AttemptRecord] {
        guard let started = timings.attemptStarted else { return earlierAttempts }
        let last = AttemptRecord(
            number: earlierAttempts.count + 1, request: request, started: started,
            ended: timings.finished ?? started, response: head, transfer: transfer, metrics: metrics)
        return earlierAttempts + [last]
    }

    /// The redirects that were followed, as the URLs they led to.
    public var redirects: [URL] { attempts.redirects }

    /// The status code.
    public var statusCode: Int { head.statusCode }
    /// The header fields of the answer.
    public var headerFields: HeaderFields { head.headerFields }
}

/// The moments of one request, taken by the operation on the continuous clock, the same on every platform.
public struct Timings: Sendable, Hashable {
    private var queuedMoment: CompactInstant?
    private var startedMoment: CompactInstant?
    private var attemptStartedMoment: CompactInstant?
    private var firstByteMoment: CompactInstant?
    private var finishedMoment: CompactInstant?

    /// When a manager took the request; nil for an operation without a manager.
    public internal(set) var queued: ContinuousClock.Instant? {
        get { queuedMoment?.instant }
        set { queuedMoment = newValue.map(CompactInstant.init) }
    }
    /// When the operation started.
    public internal(set) var started: ContinuousClock.Instant? {
        get { startedMoment?.instant }
        set { startedMoment = newValue.map(CompactInstant.init) }
    }
    /// When the last attempt was begun.
    var attemptStarted: ContinuousClock.Instant? {
        get { attemptStartedMoment?.instant }
        set { attemptStartedMoment = newValue.map(CompactInstant.init) }
    }
    /// When the head of the response that counted arrived.
    public internal(set) var firstByte: ContinuousClock.Instant? {
        get { firstByteMoment?.instant }
        set { firstByteMoment = newValue.map(CompactInstant.init) }
    }
    /// When the outcome was known.
    public internal(set) var finished: ContinuousClock.Instant? {
        get { finishedMoment?.instant }
        set { finishedMoment = newValue.map(CompactInstant.init) }
    }

    /// Makes timings without a moment.
    public init() {}

    /// The time spent waiting for dependencies and for a slot.
    public var waited: Duration? { queued.flatMap { queued in started.map { $0 - queued } } }
    /// The time from the start to the outcome.
    public var executed: Duration? { started.flatMap { started in finished.map { $0 - started } } }
}
