// The body as server-sent events, over one or several connections.
import Foundation

/// The events that a server sends, for one reader.
///
/// Reading starts the request, which accepts only `text/event-stream`. After a connection ends, a new one follows
/// according to the policy of ``RequestManager/events(of:reconnecting:maxEventBytes:)``. The status 204 ends the
/// stream; any other status except 200 fails with `.unacceptableStatus`. An incomplete event is dropped. An event
/// larger than allowed fails with `.bodyTooLarge`.
///
/// Text is read as UTF-8, and invalid bytes become U+FFFD. Memory is limited as for ``ResponseChunks``, plus one event.
/// Leaving the loop early, or cancelling its task, cancels the request.
///
/// ```swift
/// let news = Request<Data>.get("https://example.com/news")
/// for try await event in manager.events(of: news) {
///     print(event.type, event.data)
/// }
/// ```
///
/// ## Concurrency
/// `Sendable`. Each iterator sends its own requests and is read by one task.
///
/// ## Topics
/// - ``ServerSentEvent``
/// - ``onReconnectionTime(_:)``
public struct ServerSentEvents: AsyncSequence, Sendable {
    /// The element type: an event.
    public typealias Element = ServerSentEvent
    /// The error type of reading.
    public typealias Failure = RequestError

    let manager: RequestManager
    let request: Request<Data>
    let reconnecting: RetryPolicy
    let maxEventBytes: Int
    var reconnectionTimeHandler: (@Sendable (Duration) -> Void)?

    /// The same events, with a handler that the reading task calls for each new reconnection time (`retry`), at once.
    public func onReconnectionTime(_ handler: @escaping @Sendable (Duration) -> Void) -> ServerSentEvents {
        var events = self
        events.reconnectionTimeHandler = handler
        return events
    }

    /// Makes an iterator, which sends nothing until the first read.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(events: self, parser: EventParser(maxBytes: maxEventBytes))
    }

    /// Reads the events.
    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let events: ServerSentEvents
        fileprivate var parser: EventParser
        fileprivate var connection: ResponseChunks.AsyncIterator?
        fileprivate var fruitlessCount = 0
        fileprivate var end: Result<Void, RequestError>?
        /// The time that clients must wait before a reconnection; nil while the server has not sent one.
        public var reconnectionTime: Duration? { parser.reconnectionTime }

        /// The next event; nil after the last.
        ///
        /// - Throws: the error that ended the stream, after the complete events. `.cancelled` and `.deadlineExceeded`
        ///   are thrown at once. Later calls throw the error again.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws(RequestError)
            -> ServerSentEvent?
        {
            if let end {
                try end.get()
                return nil
            }
            do throws(RequestError) {
                let event = try await read(isolation: actor)
                if event == nil { (end, connection) = (.success(()), nil) }
                return event
            } catch {
                (end, connection) = (.failure(error), nil)
                throw error
            }
        }

        private mutating func read(isolation actor: isolated (any Actor)?) async throws(RequestError)
            -> ServerSentEvent?
        {
            while true {
                var connection = connection ?? connect()
                defer { self.connection = connection }
                let earlierTime = reconnectionTime
                let event = try connection.operation.ending { () throws(RequestError) in try parser.next() }
                if let time = reconnectionTime, time != earlierTime { events.reconnectionTimeHandler?(time) }
                if let event {
                    fruitlessCount = 0
                    return event
                }
                var failure: RequestError?
                do throws(RequestError) {
                    if let chunk = try await connection.next(isolation: actor) {
                        parser.append(chunk)
                        continue
                    }
                } catch { failure = error }
                guard let delay = try delay(after: connection.operation, failure) else { return nil }
                try await events.manager.scheduler.pause(for: delay, after: connection.operation, isolation: actor)
                connection = connect()
            }
        }

        private mutating func connect() -> ResponseChunks.AsyncIterator {
            parser.beginAgain()
            var request = events.request
            if let id = parser.lastEventID { request = request.header("Last-Event-ID", id.isEmpty ? nil : id) }
            return events.manager.chunks(of: request).makeAsyncIterator()
        }

        private mutating func delay(
            after operation: RequestOperation<Void>, _ failure: RequestError?
        ) throws(RequestError) -> Duration? {
            let policy = events.reconnecting
            if case .success(let response)? = operation.result, response.statusCode == 204 { return nil }
            let reason = failure ?? RequestError(.connectionLost, "the server ended the stream")
            guard let request = operation.request, policy.permits(reason, of: request, retries: fruitlessCount) else {
                if let failure { throw failure }
                return nil
            }
            fruitlessCount += 1
            let unit = events.manager.configuration.jitter()
            let now = events.manager.scheduler.clock.date
            let asked = failure?.response.flatMap { policy.retryAfter(in: $0, now: now) } ?? .zero
            let usual = Swift.min(parser.reconnectionTime ?? .seconds(3), policy.maxRetryAfter)
            return Swift.max(usual, asked) + policy.delay(beforeRetry: fruitlessCount, unit: unit)
        }
    }
}

/// The wait of an event stream for its next connection, during which there is no operation to cancel.
private final class Pause: Producer {
    private let last: AnyRequestOperation
    /// Ends with whether the time has passed.
    let end = BroadcastSource<Bool> { _, _ in true }

    init(after last: AnyRequestOperation) { self.last = last }

    func cancel() { end.end(with: false) }

    func cancel(where isMeant: (AnyRequestOperation) -> Bool) { if isMeant(last) { cancel() } }
}

extension Scheduler {
    /// Throws `.cancelled` as soon as the reading task, or the manager's operations or `last`, are cancelled.
    fileprivate func pause(
        for delay: Duration, after last: AnyRequestOperation, isolation _: isolated (any Actor)?
    ) async throws(RequestError) {
        let pause = Pause(after: last)
        begin(pause)
        defer { end(pause) }
        let waiter = pause.end.makeReader()
        let timer = clock.wake(at: clock.now + delay) { pause.end.end(with: true) }
        let hasPassed = await waiter.next() == true
        timer.cancel()
        if hasPassed { return }
        throw RequestError(.cancelled, "it was cancelled while it waited to connect again")
    }
}

/// One event of a stream of server-sent events.
public struct ServerSentEvent: Sendable, Hashable {
    /// The event's type; `message` when the server sends none.
    public var type: String
    /// The event's data, whose lines are joined by LF.
    public var data: String
    /// The last id that the server sent, with this event or before; empty when there is none.
    public var lastEventID: String
    /// The time that clients must wait before a reconnection; nil when the server has not sent one.
    public var reconnectionTime: Duration?

    /// Makes an event, for tests.
    public init(type: String = "message", data: String, lastEventID: String = "", reconnectionTime: Duration? = nil) {
        self.type = type
        self.data = data
        self.lastEventID = lastEventID
        self.reconnectionTime = reconnectionTime
    }
}

// HTML standard, section 9.2.6. Append a chunk, call `next()` until it returns nil, then append the next chunk. An
// event that is incomplete at the end is discarded.
struct EventParser {
    private let maxBytes: Int
    private var lines: LineParser
    private var type = ""
    private var data = ""
    private var nextEventID: String?
    /// The last id received; nil when there was none, empty when the server reset it.
    private(set) var lastEventID: String?
    private(set) var reconnectionTime: Duration?

    init(maxBytes: Int) {
        self.maxBytes = maxBytes
        lines = LineParser(maxBytes: maxBytes)
    }

    mutating func append(_ chunk: Data) { lines.append(chunk) }

    mutating func beginAgain() {
        lines = LineParser(maxBytes: maxBytes)
        (type, data, nextEventID) = ("", "", lastEventID)
    }

    // Nil when the parser needs more bytes. Not to be called again after `.bodyTooLarge`.
    mutating func next() throws(RequestError) -> ServerSentEvent? {
        while let line = try lines.next() {
            guard line.isEmpty else {
                try take(line)
                continue
            }
            if let event = dispatch() { return event }
        }
        return nil
    }

    private mutating func take(_ line: String) throws(RequestError) {
        let colon = line.utf8.firstIndex(of: UInt8(ascii: ":"))
        var value = line.utf8[(colon ?? line.utf8.endIndex)...].dropFirst()
        if value.first == UInt8(ascii: " ") { value.removeFirst() }
        switch String(line[..<(colon ?? line.endIndex)]) {
        case "data":
            guard data.utf8.count + value.count <= maxBytes else {
                throw RequestError(.bodyTooLarge, "an event has more than the \(maxBytes) bytes allowed")
            }
            data.append(contentsOf: Substring(value))
            data.append("\n")
        case "event": type = String(Substring(value))
        case "id":
            if !value.contains(0) { nextEventID = String(Substring(value)) }
        case "retry":
            // Only digits are accepted, and only numbers that fit a duration.
            guard value.allSatisfy(\.isDigit), let milliseconds = Int64(Substring(value)), milliseconds < 1 << 53 else {
                break
            }
            reconnectionTime = .milliseconds(milliseconds)
        default: break
        }
    }

    private mutating func dispatch() -> ServerSentEvent? {
        lastEventID = nextEventID
        defer { (type, data) = ("", "") }
        guard !data.isEmpty else { return nil }
        data.unicodeScalars.removeLast()
        return ServerSentEvent(
            type: type.isEmpty ? "message" : type, data: data, lastEventID: lastEventID ?? "",
            reconnectionTime: reconnectionTime)
    }
}
