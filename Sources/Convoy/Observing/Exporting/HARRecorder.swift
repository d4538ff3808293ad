// Records the requests of a manager as an HTTP archive: HAR 1.2.
import Foundation

/// Records requests and responses as an HTTP archive (HAR 1.2), which browsers can display.
///
/// ```swift
/// let recorder = HARRecorder()
/// let manager = RequestManager(configuration: .init(monitors: [recorder]))
/// // … send requests …
/// await manager.drain()
/// try recorder.write(to: URL(fileURLWithPath: "requests.har"))
/// ```
///
/// An archive with bodies (`bodyLimitBytes`) can be replayed in tests with `StubTransport(replaying:)` of
/// `ConvoyTesting`.
///
/// Every attempt is an entry, including redirects and retries. The `blocked` time of an entry is the wait before the
/// attempt. An attempt waits for dependencies, a slot, back-off and interceptors. `_queued` is this wait without
/// back-off. The entries of a request have no gaps, so their times add up to its duration. A request that was never
/// sent has no entry. Requests that share a transfer share one entry.
///
/// Secrets are replaced by `<redacted>` when they are recorded, so the recorder never stores them:
///
/// - the values of `Authorization`, `Proxy-Authorization`, `Cookie` and `Set-Cookie`, and of fields that are marked
///   (``HeaderFields/Field/isSecret``);
/// - user name and password of URLs;
/// - the values of header fields, query parameters and fields of URL-encoded forms whose names contain one of the
///   ``secretWords``, which you can extend;
/// - in the header fields of a response and in the target of a redirect, the secrets that the operation's requests have
///   sent.
///
/// Paths, other parameters and fields, and all other recorded bodies are stored unchanged. This includes a token in a
/// JSON response. The header fields are those of the request, without fields that the transport adds, such as `Host`.
///
/// ## Concurrency
/// Use a recorder from any thread. It records on the manager's queue for monitors, shortly after a request finishes.
/// ``RequestManager/drain()`` returns after all finished requests have been recorded.
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
        /// The entries of each request, in a ring buffer.
        ///
        /// Once the buffer is full, the oldest request is at index `droppedCount` modulo the limit.
        var requests: [[Entry]] = []
        var droppedCount = 0
    }

    /// The default words that mark a name as the name of a secret.
    ///
    /// Names are compared by their letters and digits, without case: `X-Api-Key`, `api_key` and `apiKey` are equal. A
    /// word of five or more letters matches anywhere in the name (`token` in `X-Amz-Security-Token`). A shorter word
    /// must be one of the words of the name (`key` in `stripe_key_live`). Names such as `key_id`, `key_name` and
    /// `sort_key` do not match. The word `code` must be the complete name. The words `auth`, `key`, `otp` and `pass`
    /// may also end a word (`stripekey`).
    public static let secretWords = SecretWords.standardWords

    private static let shownWords = SecretWords.standard

    private let style: HARStyle
    private let requestLimit: Int
    private let state = Locked(State())

    /// Makes a recorder for a manager's configuration.
    ///
    /// - Parameters:
    ///   - requestLimit: how many of the newest requests are stored; 1,000 by default, at least 1.
    ///   - bodyLimitBytes: the maximum size of a recorded body; 0, the default, records no bodies. Request bodies are
    ///     recorded if they are text in memory. The body of a request's last response is recorded if it was received
    ///     into memory; the operation then stores the body too.
    ///   - revealingSecrets: whether secrets are recorded; by default they are replaced by `<redacted>`.
    ///   - secretWords: the words that mark a name as the name of a secret; add yours to ``secretWords``.
    public init(
        requestLimit: Int = 1_000, bodyLimitBytes: Int = 0, revealingSecrets: Bool = false,
        secretWords: Set<String> = HARRecorder.secretWords
    ) {
        style = HARStyle(
            revealsSecrets: revealingSecrets, bodyLimitBytes: bodyLimitBytes, secretWords: SecretWords(secretWords))
        self.requestLimit = max(1, requestLimit)
    }

    /// Makes a recorder that also hides secrets that no request shows, for example those of a proxy.
    package init(requestLimit: Int, hiding secrets: Set<String>) {
        style = HARStyle(
            revealsSecrets: false, bodyLimitBytes: 0, secretWords: Self.shownWords, otherSecrets: secrets)
        self.requestLimit = max(1, requestLimit)
    }

    /// Redacts a URL: removes user name and password, and the values whose names match ``secretWords``.
    package static func redacted(_ url: String) -> String { shownWords.redacted(reference: url) }

    var keptBodyBytes: Int { style.bodyLimitBytes }

    /// The number of recorded requests.
    public var requestCount: Int { state.withLock { $0.requests.count } }

    /// The number of older requests that were dropped for newer ones.
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

    /// The archive as JSON in UTF-8, with entries in the order of their start.
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

    /// Writes the archive to a file, and replaces an existing file atomically.
    ///
    /// Bodies may be private, so only the owner may read a new file (mode 0600). The file that replaces another has the
    /// permissions of that file. A link, a device or a pipe at the path, such as `/dev/stdout`, is not replaced; the
    /// archive is written into it.
    ///
    /// - Throws: `.destinationUnwritable` with the reason.
    /// - Thread: any. The call blocks while it writes.
    public func write(to file: URL) throws(RequestError) {
        let problem = file.isFileURL ? Self.write(har(), to: file.path) : EINVAL
        guard problem != 0 else { return }
        throw RequestError(
            .destinationUnwritable,
            "the archive cannot be written to \(file.path): \(String(cString: strerror(problem)))",
            underlying: POSIXErrorCode(rawValue: problem).map { POSIXError($0) })
    }

    /// Replaces a regular file, or makes a new one; writes into anything else at the path.
    ///
    /// - Returns: 0, or an `errno`.
    private static func write(_ data: Data, to path: String) -> Int32 {
        var status = stat()
        let exists = lstat(path, &status) == 0
        if exists, status.st_mode & S_IFMT != S_IFREG { return fill(path, O_CREAT | O_TRUNC, data) }
        // The name is random. Otherwise, in a shared directory, another user could make a file of that name first.
        let directory = path.lastIndex(of: "/").map { path[...$0] } ?? ""
        let new = "\(directory).convoy-\(UUID().uuidString).tmp"
        var problem = fill(new, O_CREAT | O_EXCL | O_NOFOLLOW, data, replacing: path)
        if problem == 0, rename(new, path) != 0 { problem = errno }
        if problem != 0 { unlink(new) }
        return problem
    }

    /// Opens a file, writes its content and closes it.
    ///
    /// A created file is private until it is complete.
    ///
    /// - Parameter replaced: the path of a file whose permissions the complete file gets; nil leaves them unchanged.
    /// - Returns: 0, or an `errno`.
    private static func fill(_ path: String, _ flags: Int32, _ data: Data, replacing replaced: String? = nil) -> Int32 {
        let descriptor = open(path, O_WRONLY | O_CLOEXEC | flags, 0o600)
        guard descriptor >= 0 else { return errno }
        var position: Int64 = 0
        var problem = PartFile.write(data, to: descriptor, at: &position, appends: true)
        if problem == 0, let replaced { _ = PartFile.copyPermissions(of: replaced, to: descriptor) }
        if close(descriptor) != 0, problem == 0 { problem = errno }
        return problem
    }
}

extension AnyRequestOperation {
    /// One entry for each attempt of a finished operation.
    ///
    /// An operation that shared another operation's transfer has no entries.
    fileprivate func harEntries(_ style: HARStyle) -> [(started: Date, entry: JSONValue)] {
        let (outcome, isShared) = state.withLock { ($0.outcome, $0.followUp?.isShared == true) }
        guard let outcome, !isShared else { return [] }
        let (attempts, timings) = (outcome.attempts, timings)
        let (now, date) = (context.clock.now, context.clock.date)
        let body = style.bodyLimitBytes > 0 ? outcome.body : nil
        var free = timings.queued ?? timings.started
        var delay = Duration.zero
        var secrets = style.otherSecrets
        return attempts.map { attempt in
            let isLast = attempt.number == attempts.last?.number
            // A server has chosen the URL after a redirect, so the URL may contain earlier secrets.
            let chosen = SentSecrets(attempt.url == attempts.first?.url ? [] : secrets)
            secrets.formUnion(style.secrets(of: attempt.request))
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
                "request": attempt.harRequest(style, without: chosen),
                "response": attempt.harResponse(
                    style, without: SentSecrets(secrets), body: isLast ? body : nil, now: date),
                "cache": attempt.harCache, "timings": harTimings.json,
                // The label is not used, because it may contain the URL.
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

extension AttemptRecord {
    /// The `Cache-Status` of the attempt (RFC 9211); empty without a cache.
    fileprivate var harCache: JSONValue { metrics?.cache.map { ["comment": .string($0.description)] } ?? [:] }
}

extension AttemptRecord.Next {
    fileprivate var delay: Duration {
        switch self {
        case .retry(let delay), .intercepted(let delay): delay
        case .outcome, .redirect, .suspended, .startOver, .awaitedDescriptor, .awaitedConnectivity: .zero
        }
    }
}
