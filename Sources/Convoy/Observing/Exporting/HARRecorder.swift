// The requests of a manager as an HTTP archive: HAR 1.2.
import Foundation

/// Keeps what was sent and answered, to be looked at with the tools of a browser: an HTTP archive (HAR 1.2).
///
/// ```swift
/// let recorder = HARRecorder()
/// let manager = RequestManager(configuration: .init(monitors: [recorder]))
/// // … send requests …
/// await manager.drain()
/// try recorder.write(to: URL(fileURLWithPath: "requests.har"))
/// ```
///
/// With bodies (`bodyLimitBytes`) it can be replayed in tests: `StubTransport(replaying:)` of `ConvoyTesting`.
///
/// Every attempt is an entry of its own, redirects and retries too. The time before it is its `blocked` time: behind
/// dependencies and for a slot, in back-off, with interceptors; `_queued` is what of it no retry's delay asked for. The
/// entries of a request follow each other without a gap, so that their times add up to its life. A request of which nothing
/// was sent has no entry; of those that shared a transfer, the transfer has one.
///
/// Secrets are replaced by `<redacted>` when they are recorded, and are never in the memory of the recorder:
///
/// - the values of `Authorization`, `Proxy-Authorization`, `Cookie` and `Set-Cookie`, and of fields that are marked
///   (``HeaderFields/Field/isSecret``);
/// - user name and password of URLs;
/// - the values of header fields, query parameters and fields of URL-encoded forms whose names look like secrets by
///   ``secretWords``, to which others can be added.
///
/// Paths, other parameters and fields and, where they are asked for, all other bodies are kept as they are: a token in an
/// answer's JSON too. Header fields are those that the request had; what the transport adds, as `Host`, is not among them.
///
/// ## Concurrency
/// Every member may be used from any thread. Recording happens on the manager's queue for monitors; what has just finished
/// is there a moment later, or after ``RequestManager/drain()``.
///
/// ## Topics
/// - ``init(requestLimit:bodyLimitBytes:revealingSecrets:secretWords:)``
/// - ``secretWords``
/// - ``har()``
/// - ``write(to:)``
/// - ``droppedRequestCount``
public final class HARRecorder: EventMonitor, BodyKeepingMonitor {
    private struct Entry {
        let started: Date
        let json: String
    }

    private struct State {
        /// The entries of each request, the oldest at `droppedCount` modulo the limit.
        var requests: [[Entry]] = []
        var droppedCount = 0
    }

    /// The words by which names of secrets are told, unless others are given.
    ///
    /// A name is compared by its letters and digits, without case: `X-Api-Key`, `api_key` and `apiKey` are one. A word of five
    /// letters or more is looked for anywhere in the name (`token` in `X-Amz-Security-Token`); a shorter one is the whole
    /// name (`sig`).
    public static let secretWords = SecretWords.standardWords

    private static let shownWords = SecretWords.standard

    private let style: HARStyle
    private let requestLimit: Int
    private let state = Locked(State())

    /// Makes a recorder; give it to a manager's configuration.
    ///
    /// - Parameters:
    ///   - requestLimit: how many requests are kept, the newest; 1,000 by default, at least 1.
    ///   - bodyLimitBytes: how large a body may be to be kept; 0, the default: none is. Of requests, those from memory that
    ///     are text; of answers, the last one of a request, where it was received into memory. Its operation keeps it too.
    ///   - revealingSecrets: whether secrets are kept; by default they are replaced by `<redacted>`.
    ///   - secretWords: the words by which names of secrets are told; add yours to ``secretWords``.
    public init(
        requestLimit: Int = 1_000, bodyLimitBytes: Int = 0, revealingSecrets: Bool = false,
        secretWords: Set<String> = HARRecorder.secretWords
    ) {
        style = HARStyle(
            revealsSecrets: revealingSecrets, bodyLimitBytes: bodyLimitBytes, secretWords: SecretWords(secretWords))
        self.requestLimit = max(1, requestLimit)
    }

    /// A URL as it is recorded: without user name and password, and without the values that ``secretWords`` tell of.
    package static func redacted(_ url: String) -> String { shownWords.redacted(reference: url) }

    var keptBodyBytes: Int { style.bodyLimitBytes }

    /// How many requests there are.
    public var requestCount: Int { state.withLock { $0.requests.count } }

    /// How many older requests had to make room.
    public var droppedRequestCount: Int { state.withLock { $0.droppedCount } }

    /// Records a request that has finished.
    public func operation(_ operation: AnyRequestOperation, did event: RequestEvent) {
        guard event.isFinished else { return }
        let entries = operation.harEntries(style).map { Entry(started: $0.started, json: $0.entry.json) }
        guard !entries.isEmpty else { return }
        state.withLock { state in
            guard state.requests.count == requestLimit else { return state.requests.append(entries) }
            state.requests[state.droppedCount % requestLimit] = entries
            state.droppedCount += 1
        }
    }

    /// The archive: JSON in UTF-8, its entries in the order in which they began.
    ///
    /// - Complexity: O(*n* log *n*) for *n* entries.
    public func har() -> Data {
        let (requests, droppedCount) = state.withLock { ($0.requests, $0.droppedCount) }
        let entries = requests.joined().sorted { $0.started < $1.started }
        let comment = "\(droppedCount) older requests were dropped".jsonQuoted
        let creator = #"{"name":"Convoy","version":"\#(Version.current)"}"#
        let start = #"{"log":{"version":"1.2","creator":\#(creator),"comment":\#(comment),"entries":["#
        return Data((start + entries.map(\.json).joined(separator: ",\n") + "]}}\n").utf8)
    }

    /// Writes the archive to a file, which is replaced as a whole.
    ///
    /// A link, a device or a pipe is written to and stays what it is: `/dev/stdout` for one.
    ///
    /// - Throws: `.destinationUnwritable` with the reason.
    /// - Thread: any; blocks while it writes.
    public func write(to file: URL) throws(RequestError) {
        let type = (try? FileManager.default.attributesOfItem(atPath: file.path))?[.type] as? FileAttributeType
        let isReplaced = type == nil || type == .typeRegular
        do { try har().write(to: file, options: isReplaced ? .atomic : []) } catch {
            throw RequestError(
                .destinationUnwritable, "the archive cannot be written to \(file.path): \(error)", underlying: error)
        }
    }
}

extension AnyRequestOperation {
    /// An entry for each attempt of this finished operation; none where it has shared another's transfer.
    fileprivate func harEntries(_ style: HARStyle) -> [(started: Date, entry: JSONValue)] {
        let (outcome, isShared) = state.withLock { ($0.outcome, $0.followUp?.isShared == true) }
        guard let outcome, !isShared else { return [] }
        let (attempts, timings) = (outcome.attempts, timings)
        let (now, date) = (context.clock.now, context.clock.date)
        let body = style.bodyLimitBytes > 0 ? outcome.body : nil
        var free = timings.queued ?? timings.started
        var delay = Duration.zero
        return attempts.map { attempt in
            let isLast = attempt.number == attempts.last?.number
            let firstByte = isLast ? timings.firstByte.map { attempt.started.duration(to: $0) } : nil
            let harTimings = HARTimings(
                waited: (free ?? attempt.started).duration(to: attempt.started), delay: delay,
                total: attempt.started.duration(to: attempt.ended), firstByte: firstByte,
                hasAnswer: attempt.response != nil, hasBody: attempt.request.body != nil, metrics: attempt.metrics)
            (free, delay) = (attempt.ended, attempt.next.delay)
            let age = attempt.started.duration(to: now).seconds + Double(harTimings.blocked) / 1e6
            let started = date.addingTimeInterval(-age)
            var entry: JSONValue = [
                "startedDateTime": .string(started.internetTime), "time": .inMilliseconds(harTimings.time),
                "request": attempt.harRequest(style),
                "response": attempt.harResponse(style, body: isLast ? body : nil, now: date),
                "cache": [:], "timings": harTimings.json,
                // Not its label, which may have the URL in it.
                "comment": .string(
                    "\(name.map { "\($0): " } ?? "")attempt \(attempt.number) of \(attempts.count)"),
            ]
            if let address = attempt.metrics?.remoteAddress, !address.isEmpty {
                entry.append("serverIPAddress", .string(address))
            }
            return (started, entry)
        }
    }
}

extension AttemptRecord.Next {
    /// How long the next attempt was to wait.
    fileprivate var delay: Duration {
        switch self {
        case .retry(let delay), .intercepted(let delay): delay
        case .outcome, .redirect, .suspended, .startOver, .awaitedDescriptor, .awaitedConnectivity: .zero
        }
    }
}
