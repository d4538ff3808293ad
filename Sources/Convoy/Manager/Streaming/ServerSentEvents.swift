// The body as server-sent events, over one connection or many.
import Foundation

/// The events that a server sends, for one reader.
///
/// Reading begins the request. It asks for `text/event-stream` and takes nothing else: another content type ends it with
/// `.unacceptableContentType`. A connection that ends is followed by another, as the policy of
/// ``RequestManager/events(of:reconnecting:maxEventBytes:)`` says. A status of 204 is the end in any case, and any other
/// but 200 is `.unacceptableStatus`. An event that was not complete is dropped.
/// One larger than allowed ends the reading with `.bodyTooLarge`.
///
/// Text is taken for UTF-8, and what is not valid becomes U+FFFD. Memory is bounded as for ``ResponseChunks``, plus one
/// event. Leaving the loop early, or cancelling its task, cancels the request.
///
/// ```swift
/// let news = Request<Data>.get("https://example.com/news")
/// for try await event in manager.events(of: news) {
///     print(event.type, event.data)
/// }
/// ```
///
/// ## Concurrency
/// `Sendable`; each iterator, read by one task, makes requests of its own.
///
/// ## Topics
/// - ``ServerSentEvent``
/// - ``onReconnectionTime(_:)``
public struct ServerSentEvents: AsyncSequence, Sendable {
    /// The elements.
    public typealias Element = ServerSentEvent
    /// What reading throws.
    public typealias Failure = RequestError

    let manager: RequestManager
    let request: Request<Data>
    let reconnecting: RetryPolicy
    let maxEventBytes: Int
    var reconnectionTimeHandler: (@Sendable (Duration) -> Void)?

    /// The same events; the function is told how long the server wants to be left alone before another connection (`retry`),
    /// as soon as that has come, with an event or without one.
    ///
    /// - Parameter handler: called by the task that reads, before it gets the events behind; not again for the same time.
    public func onReconnectionTime(_ handler: @escaping @Sendable (Duration) -> Void) -> ServerSentEvents {
        var events = self
        events.reconnectionTimeHandler = handler
        return events
    }

    /// Makes an iterator, which sends nothing until it is read.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(events: self, parser: EventParser(maxBytes: maxEventBytes))
    }

    /// Reads the events.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private struct Connection {
            let operation: RequestOperation<Void>
            var chunks: ResponseChunks.AsyncIterator
        }

        private let events: ServerSentEvents
        private var parser: EventParser
        private var connection: Connection?
        /// How many connections in a row have brought no event.
        private var fruitlessCount = 0
        private var end: Result<Void, RequestError>?
        /// How long the server wants to be left alone before another connection; nil while it has not said.
        ///
        /// ``ServerSentEvents/onReconnectionTime(_:)`` tells it as soon as it has come.
        public private(set) var reconnectionTime: Duration?

        fileprivate init(events: ServerSentEvents, parser: EventParser) {
            (self.events, self.parser) = (events, parser)
        }

        /// The next event, nil after the last.
        ///
        /// - Throws: why there is no other, after the events that were complete; again when asked again.
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

        /// The next event, nil after the last.
        public mutating func next() async throws(RequestError) -> ServerSentEvent? { try await next(isolation: nil) }

        private mutating func read(isolation actor: isolated (any Actor)?) async throws(RequestError)
            -> ServerSentEvent?
        {
            while true {
                var connection = connection ?? connect()
                defer { self.connection = connection }
                let event = try connection.operation.ending { () throws(RequestError) in try parser.next() }
                if let time = parser.reconnectionTime, time != reconnectionTime {
                    reconnectionTime = time
                    events.reconnectionTimeHandler?(time)
                }
                if let event {
                    fruitlessCount = 0
                    return event
                }
                var failure: RequestError?
                do throws(RequestError) {
                    if let chunk = try await connection.chunks.next(isolation: actor) {
                        parser.append(chunk)
                        continue
                    }
                } catch { failure = error }
                guard let delay = try delay(after: connection.operation, failure) else { return nil }
                try await events.manager.scheduler.pause(for: delay, isolation: actor)
                connection = connect()
            }
        }

        private mutating func connect() -> Connection {
            parser.beginAgain()
            var request = events.request
            if let id = parser.lastEventID { request = request.header("Last-Event-ID", id.isEmpty ? nil : id) }
            let chunks = events.manager.chunks(of: request)
            return Connection(operation: chunks.operation, chunks: chunks.makeAsyncIterator())
        }

        /// How long to wait for the next connection; nil when there is none to be.
        ///
        /// - Throws: the failure, when it is final.
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
            let asked = parser.reconnectionTime ?? .seconds(3)
            return Swift.min(asked, policy.maxRetryAfter) + policy.delay(beforeRetry: fruitlessCount, unit: unit)
        }
    }
}

/// The wait for the next connection, in which there is no operation to be cancelled.
private final class Pause: Undertaking {
    private let end: AsyncStream<Never>.Continuation
    private let cancelled = Locked(false)

    init(_ end: AsyncStream<Never>.Continuation) { self.end = end }

    var isCancelled: Bool { cancelled.withLock { $0 } }

    func cancel() {
        cancelled.withLock { $0 = true }
        end.finish()
    }
}

extension Scheduler {
    /// Waits for a time.
    ///
    /// - Throws: `.cancelled` as soon as the task is, or everything.
    fileprivate func pause(for delay: Duration, isolation _: isolated (any Actor)?) async throws(RequestError) {
        let (stream, continuation) = AsyncStream<Never>.makeStream()
        let pause = Pause(continuation)
        begin(pause)
        defer { end(pause) }
        let timer = context.clock.wake(at: context.clock.now + delay) { continuation.finish() }
        for await _ in stream {}
        timer.cancel()
        guard Task.isCancelled || pause.isCancelled else { return }
        throw RequestError(.cancelled, "it was cancelled while it waited to connect again")
    }
}
