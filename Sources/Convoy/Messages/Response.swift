// The response to a request.
import Foundation

/// Status code and header fields of a response.
public struct ResponseHead: Sendable, Hashable, CustomReflectable {
    private struct Parts: Sendable, Hashable {
        var statusCode: Int
        var headerFields: HeaderFields
        var url: URL?
        var expectedBytes: Int64?
        var hasStoredCookies = StoredCookies()
    }

    /// All values are equal, because two heads are equal whether their cookies have been stored or not.
    private struct StoredCookies: Sendable, Hashable {
        var isTrue = false

        static func == (_: Self, _: Self) -> Bool { true }
        func hash(into _: inout Hasher) {}
    }

    private var parts: CopyOnWrite<Parts>

    /// The status code, 100 to 999.
    public var statusCode: Int {
        get { parts.value.statusCode }
        set { parts.value.statusCode = newValue }
    }
    /// The header fields; a transport may have joined fields with the same name, as URLSession does.
    public var headerFields: HeaderFields {
        _read { yield parts.value.headerFields }
        _modify { yield &parts.value.headerFields }
    }
    /// The URL that responded, after all redirects; nil if the transport does not report it.
    public var url: URL? {
        _read { yield parts.value.url }
        _modify { yield &parts.value.url }
    }
    /// The declared length of the body in bytes; nil if none is declared, or if the transport decodes the body.
    public var expectedBytes: Int64? {
        _read { yield parts.value.expectedBytes }
        _modify { yield &parts.value.expectedBytes }
    }

    /// Whether the cookies of the response have been stored already, because the response comes from a cache.
    package var hasStoredCookies: Bool {
        get { parts.value.hasStoredCookies.isTrue }
        set { parts.value.hasStoredCookies.isTrue = newValue }
    }

    /// Makes a response head; for transports and tests.
    public init(statusCode: Int, headerFields: HeaderFields = [:], url: URL? = nil, expectedBytes: Int64? = nil) {
        parts = CopyOnWrite(
            Parts(statusCode: statusCode, headerFields: headerFields, url: url, expectedBytes: expectedBytes))
    }

    var isInformational: Bool { (100..<200).contains(statusCode) }

    /// Whether the response can have a body (RFC 9110, section 6.4.1).
    func hasBody(for method: HTTPMethod) -> Bool {
        method != .head && statusCode != 204 && statusCode != 304 && !isInformational
    }

    /// The URL of the first link with a relation, resolved against ``url``; nil if there is none, or no URL.
    ///
    /// - Parameter relation: its type in any case, for example `next`; a link with an `anchor` is for another resource.
    public func link(_ relation: String) -> URL? { link(relation, from: nil) }

    func link(_ relation: String, from base: URL?) -> URL? {
        // Resolving long links is slow, and real links are shorter.
        guard let reference = linkReference(relation), reference.utf8.count <= 16 << 10 else { return nil }
        let base = url ?? base
        // An empty reference is the resource itself (RFC 3986, section 4.4).
        if reference.isEmpty { return base }
        return base.map { reference.requestURL(at: $0) } ?? reference.requestURL
    }

    func linkReference(_ relation: String) -> String? {
        let relation = relation.lowercased()
        return headerFields.links.first { $0.relations.contains(relation) && $0.parameters["anchor"] == nil }?.reference
    }

    /// The properties that a description shows, without the user name and password of the URL.
    public var customMirror: Mirror {
        let children: KeyValuePairs<String, Any> = [
            "statusCode": statusCode, "headerFields": headerFields, "url": url?.redactedString as Any,
            "expectedBytes": expectedBytes as Any,
        ]
        return Mirror(self, children: children, displayStyle: .struct)
    }
}

/// The response to a request: the request as sent, the decoded body, the head and the timings.
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
    let exchange: Exchange

    /// The request as last sent: after redirects, and with the changes of interceptors.
    public var request: PreparedRequest { exchange.request }
    /// Status code and header fields.
    public var head: ResponseHead { exchange.head }
    /// When the request was queued and started, when the response began, and when the request finished.
    public var timings: Timings { exchange.timings }
    /// The bytes transferred by the successful attempt.
    public var transfer: TransferProgress { exchange.transfer }
    /// The transport's measurements of the successful attempt; nil if the transport does not measure.
    public var metrics: TransferMetrics? { exchange.metrics }

    /// A record of each attempt, in order: redirects, retries, and last the successful one.
    public var attempts: [AttemptRecord] { exchange.attempts }

    /// The targets of the redirects that were followed.
    public var redirects: [URL] { attempts.redirects }

    /// The status code.
    public var statusCode: Int { exchange.head.statusCode }
    /// The header fields of the response.
    public var headerFields: HeaderFields { exchange.head.headerFields }
}

extension Response: CustomReflectable {
    /// Makes a response, for stubs in your own tests.
    public init(
        value: Value, request: PreparedRequest, head: ResponseHead, timings: Timings = Timings(),
        transfer: TransferProgress = TransferProgress(), metrics: TransferMetrics? = nil
    ) {
        self.init(
            value: value,
            exchange: Exchange(
                request: request, head: head, timings: timings, transfer: transfer,
                metrics: metrics.map { CopyOnWrite($0) }, earlierAttempts: []))
    }

    /// The properties that a description shows: the value, and the parts of the exchange.
    public var customMirror: Mirror {
        let children: KeyValuePairs<String, Any> = [
            "value": value, "request": request, "head": head, "timings": timings, "transfer": transfer,
            "metrics": metrics as Any,
        ]
        return Mirror(self, children: children, displayStyle: .struct)
    }
}

/// A class, so that a response is passed by reference.
final class Exchange: Sendable {
    let request: PreparedRequest
    let head: ResponseHead
    let timings: Timings
    let transfer: TransferProgress
    let keptMetrics: CopyOnWrite<TransferMetrics>?
    let earlierAttempts: [AttemptRecord]

    init(
        request: PreparedRequest, head: ResponseHead, timings: Timings, transfer: TransferProgress,
        metrics: CopyOnWrite<TransferMetrics>?, earlierAttempts: [AttemptRecord]
    ) {
        (self.request, self.head, self.timings, self.transfer) = (request, head, timings, transfer)
        (keptMetrics, self.earlierAttempts) = (metrics, earlierAttempts)
    }

    var metrics: TransferMetrics? { keptMetrics?.value }

    var attempts: [AttemptRecord] {
        guard let started = timings.attemptStarted else { return earlierAttempts }
        let last = AttemptRecord(
            number: earlierAttempts.count + 1, request: request, started: started,
            ended: timings.finished ?? started, response: head, transfer: transfer, metrics: metrics)
        return earlierAttempts + [last]
    }
}

/// The timings of one request by ``RequestManager/Configuration/clock``, whatever the transport.
public struct Timings: Sendable, Hashable {
    @OptionalMoment var queuedMoment: CompactInstant?
    @OptionalMoment var startedMoment: CompactInstant?
    @OptionalMoment var attemptStartedMoment: CompactInstant?
    @OptionalMoment var firstByteMoment: CompactInstant?
    @OptionalMoment var finishedMoment: CompactInstant?

    /// When a manager accepted the request; nil for an operation without a manager.
    public var queued: ContinuousClock.Instant? { queuedMoment?.instant }
    /// When the operation started.
    public var started: ContinuousClock.Instant? { startedMoment?.instant }
    var attemptStarted: ContinuousClock.Instant? { attemptStartedMoment?.instant }
    /// When the head of the final response arrived.
    public var firstByte: ContinuousClock.Instant? { firstByteMoment?.instant }
    /// When the outcome was known.
    public var finished: ContinuousClock.Instant? { finishedMoment?.instant }

    /// Makes empty timings.
    public init() {}

    /// The time from queueing to the start, for example spent waiting for dependencies or for a slot.
    public var waited: Duration? { queued.flatMap { queued in started.map { $0 - queued } } }
    /// The time from the start to the outcome.
    public var executed: Duration? { started.flatMap { started in finished.map { $0 - started } } }
}

package enum ReasonPhrase {
    package static func of(_ statusCode: Int) -> String? { phrases[statusCode] }

    private static let phrases = [
        100: "Continue", 101: "Switching Protocols", 103: "Early Hints",
        200: "OK", 201: "Created", 202: "Accepted", 203: "Non-Authoritative Information", 204: "No Content",
        205: "Reset Content", 206: "Partial Content",
        300: "Multiple Choices", 301: "Moved Permanently", 302: "Found", 303: "See Other", 304: "Not Modified",
        305: "Use Proxy", 307: "Temporary Redirect", 308: "Permanent Redirect",
        400: "Bad Request", 401: "Unauthorized", 402: "Payment Required", 403: "Forbidden", 404: "Not Found",
        405: "Method Not Allowed", 406: "Not Acceptable", 407: "Proxy Authentication Required", 408: "Request Timeout",
        409: "Conflict", 410: "Gone", 411: "Length Required", 412: "Precondition Failed", 413: "Content Too Large",
        414: "URI Too Long", 415: "Unsupported Media Type", 416: "Range Not Satisfiable", 417: "Expectation Failed",
        421: "Misdirected Request", 422: "Unprocessable Content", 425: "Too Early", 426: "Upgrade Required",
        428: "Precondition Required", 429: "Too Many Requests", 431: "Request Header Fields Too Large",
        451: "Unavailable For Legal Reasons",
        500: "Internal Server Error", 501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable",
        504: "Gateway Timeout", 505: "HTTP Version Not Supported", 507: "Insufficient Storage",
        511: "Network Authentication Required",
    ]
}
