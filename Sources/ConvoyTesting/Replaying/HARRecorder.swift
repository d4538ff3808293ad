import Convoy
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
/// An archive with bodies (`bodyLimitBytes`) can be replayed in tests with `StubTransport(replaying:)`.
///
/// Every attempt is an entry, including redirects and retries. The `blocked` time of an entry is the wait before the
/// attempt. An attempt waits for dependencies, a slot, back-off and interceptors. `_queued` is this wait without
/// back-off. The entries of a request have no gaps, so their times add up to its duration. A request that was never
/// sent has no entry. Requests that share a transfer share one entry.
///
/// Secrets are replaced by `<redacted>` when they are recorded, so the recorder never stores them:
///
/// - the values of `Authorization`, `Proxy-Authorization`, `Cookie` and `Set-Cookie`, and of fields that are marked
///   (`HeaderFields.Field.isSecret`);
/// - user name and password of URLs;
/// - the values of header fields, query parameters and fields of URL-encoded forms whose names contain one of the
///   ``secretWords``, which you can extend.
///
/// Paths, other parameters and fields, and all other recorded bodies are stored unchanged. This includes a token in a
/// JSON response, and a secret that a server repeats under another name. The header fields are those of the request, without fields that the transport adds, such as `Host`.
///
/// ## Concurrency
/// Use a recorder from any thread. It records on the manager's queue for monitors, shortly after a request finishes.
/// `RequestManager.drain()` returns after all finished requests have been recorded.
///
/// ## Topics
/// - ``init(requestLimit:bodyLimitBytes:revealingSecrets:secretWords:)``
/// - ``secretWords``
/// - ``har()``
/// - ``write(to:)``
/// - ``droppedRequestCount``
public final class HARRecorder: EventMonitor, BodyKeepingMonitor {
    fileprivate struct Entry {
        let started: Date
        let json: String
    }

    private struct State {
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

    package var keptBodyBytes: Int { style.bodyLimitBytes }

    /// The number of recorded requests.
    public var requestCount: Int { state.withLock { $0.requests.count } }

    /// The number of older requests that were dropped for newer ones.
    public var droppedRequestCount: Int { state.withLock { $0.droppedCount } }

    /// Records a request that has finished.
    public func operation(_ operation: AnyRequestOperation, did event: RequestEvent) {
        guard case .finished = event else { return }
        let entries = operation.harEntries(style)
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
        let comment = #""\#(droppedCount) older requests were dropped""#
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

    /// Returns 0 or an `errno`.
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

    /// A created file is private until it is complete, and then gets the permissions of the file that it replaces.
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
    /// An operation that shared another operation's transfer has no entries.
    fileprivate func harEntries(_ style: HARStyle) -> [HARRecorder.Entry] {
        guard let finished = finishedTransfer else { return [] }
        let (attempts, timings) = (finished.attempts, timings)
        let (now, date) = (finished.clock.now, finished.clock.date)
        let body = style.bodyLimitBytes > 0 ? finished.body : nil
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
            let age = attempt.started.duration(to: now) / .seconds(1) + Double(harTimings.blocked) / 1e6
            let started = date.addingTimeInterval(-age)
            var entry: [String: Any] = [
                "startedDateTime": started.internetTime, "time": harTimings.time.inMilliseconds,
                "request": attempt.harRequest(style),
                "response": attempt.harResponse(style, body: isLast ? body : nil, now: date),
                "cache": (attempt.metrics?.cache).map { ["comment": $0.description] } ?? [String: String](),
                "timings": harTimings.json,
                // The label is not used, because it may contain the URL.
                "comment": "\(name.map { "\($0): " } ?? "")attempt \(attempt.number) of \(attempts.count)",
            ]
            if let address = attempt.metrics?.remoteAddress, !address.isEmpty { entry["serverIPAddress"] = address }
            let options: JSONSerialization.WritingOptions = [.sortedKeys, .withoutEscapingSlashes]
            let json = (try? JSONSerialization.data(withJSONObject: entry, options: options)) ?? Data()
            return HARRecorder.Entry(started: started, json: String(decoding: json, as: UTF8.self))
        }
    }
}

extension AttemptRecord.Next {
    fileprivate var delay: Duration {
        switch self {
        case .retry(let delay), .intercepted(let delay): delay
        case .outcome, .redirect, .suspended, .startOver, .awaitedDescriptor: .zero
        }
    }
}

struct HARStyle: Sendable {
    var revealsSecrets: Bool
    var bodyLimitBytes: Int
    var secretWords: SecretWords

    /// The URL has no fragment.
    func url(_ url: URL) -> String {
        let text = String(url.absoluteString.prefix { $0 != "#" })
        return revealsSecrets ? text : secretWords.redacted(reference: text)
    }

    func value(_ field: HeaderFields.Field) -> String {
        if revealsSecrets { return field.value }
        guard !secretWords.isSecret(field.name) else { return "<redacted>" }
        if field.name.equalsIgnoringCase("Link") { return secretWords.redacted(links: field.value) }
        let isReference = ["Location", "Content-Location", "Referer"].contains { $0.equalsIgnoringCase(field.name) }
        return isReference && !field.isSecret ? secretWords.redacted(reference: field.value) : field.shownValue
    }

    func text(_ body: Data, contentType: String?) -> String? {
        guard let text = text(body) else { return nil }
        let isForm = contentType?.lowercased().hasPrefix("application/x-www-form-urlencoded") == true
        return isForm && !revealsSecrets ? secretWords.redacted(query: text) : text
    }

    func fields(_ fields: HeaderFields) -> [[String: String]] {
        fields.map { ["name": $0.name, "value": value($0)] }
    }

    func text(_ body: Data) -> String? {
        body.count <= bodyLimitBytes ? String(validating: body, as: UTF8.self) : nil
    }
}

extension AttemptRecord {
    private var httpVersion: String { metrics.map { $0.httpVersion.isEmpty ? "" : "HTTP/\($0.httpVersion)" } ?? "" }

    func harRequest(_ style: HARStyle) -> [String: Any] {
        let url = style.url(url)
        let query = url.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false).dropFirst().first ?? ""
        let items = query.split(separator: "&").map { item in
            let pair = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(\.decoded)
            return ["name": pair[0], "value": pair.count > 1 ? pair[1] : ""]
        }
        let sentHeaderBytes = metrics?.sentHeaderBytes ?? 0
        var json: [String: Any] = [
            "method": method.rawValue, "url": url, "httpVersion": httpVersion, "cookies": cookies(style),
            "headers": style.fields(request.headerFields), "queryString": items,
            "headersSize": sentHeaderBytes > 0 ? sentHeaderBytes : -1,
            "bodySize": request.body.map { $0.byteCount ?? -1 } ?? 0,
        ]
        guard let body = request.body else { return json }
        let text = body.data.flatMap { style.text($0, contentType: request.headerFields["Content-Type"]) }
        var postData = ["mimeType": request.headerFields["Content-Type"] ?? "", "text": text ?? ""]
        if text == nil { postData["comment"] = "omitted" }
        json["postData"] = postData
        return json
    }

    private func cookies(_ style: HARStyle) -> [[String: String]] {
        // Splits bytes, because a separator and a combining mark after it form one character.
        let pairs = request.headerFields.values(of: "Cookie").flatMap { $0.utf8.split(separator: UInt8(ascii: ";")) }
        return pairs.map { pair in
            let halves = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
                .map { String(Substring($0)).trimmingCharacters(in: .whitespaces) }
            // Without `=`, the complete text may be a secret.
            let value = halves.count > 1 ? halves[1] : halves[0]
            return ["name": halves.count > 1 ? halves[0] : "", "value": style.revealsSecrets ? value : "<redacted>"]
        }
    }

    func harResponse(_ style: HARStyle, body: Data?, now: Date) -> [String: Any] {
        let fields = response?.headerFields ?? [:]
        let location = fields.first { $0.name.equalsIgnoringCase("Location") }
        let receivedHeaderBytes = metrics?.receivedHeaderBytes ?? 0
        let isEncoded = fields.contains("Content-Encoding")
        let declared = failure == nil ? fields["Content-Length"].flatMap { Int64($0) } : nil
        let bodyBytes =
            response == nil || isEncoded ? declared ?? -1 : transfer.download.completedBytes - transfer.resumedBytes
        var json: [String: Any] = [
            "status": statusCode ?? 0, "statusText": "", "httpVersion": httpVersion,
            "cookies": fields.values(of: "Set-Cookie").compactMap { setCookie($0, style, now) },
            "headers": style.fields(fields), "content": content(style, fields, body),
            "redirectURL": location.map(style.value) ?? "",
            "headersSize": receivedHeaderBytes > 0 ? receivedHeaderBytes : -1, "bodySize": bodyBytes,
        ]
        if let failure { json["_error"] = failure.rawValue }
        return json
    }

    private func content(_ style: HARStyle, _ fields: HeaderFields, _ body: Data?) -> [String: Any] {
        var content: [String: Any] = [
            "size": transfer.download.completedBytes - transfer.resumedBytes,
            "mimeType": fields["Content-Type"] ?? "x-unknown",
        ]
        guard let body, response != nil, body.count <= style.bodyLimitBytes else { return content }
        let text = style.text(body, contentType: fields["Content-Type"])
        content["text"] = text ?? body.base64EncodedString()
        if text == nil { content["encoding"] = "base64" }
        return content
    }

    private func setCookie(_ text: String, _ style: HARStyle, _ now: Date) -> [String: Any]? {
        let limits = CookieJar.Limits()
        guard
            let cookie = SetCookie(
                text[...], maxCookieBytes: limits.maxCookieBytes, maxAttributeBytes: limits.maxAttributeBytes, now: now)
        else { return nil }
        var json: [String: Any] = [
            "name": cookie.name, "value": style.revealsSecrets ? cookie.value : "<redacted>",
            "httpOnly": cookie.isHTTPOnly, "secure": cookie.isSecure,
        ]
        if let path = cookie.path, !path.isEmpty { json["path"] = path }
        if !cookie.domain.isEmpty { json["domain"] = cookie.domain }
        if let expires = cookie.expires { json["expires"] = expires.internetTime }
        return json
    }
}

extension Substring {
    fileprivate var decoded: String { removingPercentEncoding ?? String(self) }
}

// The phases add up to ``time``. The TLS handshake is part of ``connect``.
package struct HARTimings: Equatable {
    package var blocked: Int64
    package var queued: Int64
    package var dns: Int64?
    package var connect: Int64?
    package var ssl: Int64?
    /// No transport measures the time to send; it is part of ``wait``.
    package let send: Int64 = 0
    package var wait: Int64
    package var receive: Int64

    package var time: Int64 { blocked + (dns ?? 0) + (connect ?? 0) + send + wait + receive }

    // If the request had a body, `firstByte` takes precedence over the first byte in `metrics`, because libcurl 7
    // measures the first byte sent instead. Each moment of `metrics` is limited to the range between its neighbours.
    package init(
        waited: Duration, delay: Duration, total: Duration, firstByte: Duration?, hasAnswer: Bool,
        hasBody: Bool = false, metrics: TransferMetrics?
    ) {
        blocked = waited.microseconds
        queued = max(0, blocked - delay.microseconds)
        let end = total.microseconds
        var start: Int64 = 0
        if let metrics, !metrics.isReusedConnection {
            let looked = min(metrics.nameLookup.microseconds, end)
            // A connection attempt that failed took the rest of the time.
            let isConnected = metrics.connect > .zero || hasAnswer
            let connected = isConnected ? max(looked, min(metrics.connect.microseconds, end)) : end
            start =
                metrics.secureConnect > .zero ? max(connected, min(metrics.secureConnect.microseconds, end)) : connected
            dns = looked
            connect = start - looked
            ssl = metrics.secureConnect > .zero ? start - connected : nil
        }
        let told = metrics.flatMap { $0.firstByte > .zero ? $0.firstByte : nil }
        let measured = hasBody ? firstByte ?? told : told ?? firstByte
        let answered = hasAnswer ? max(start, min(measured?.microseconds ?? end, end)) : end
        wait = answered - start
        receive = end - answered
    }

    var json: [String: Double] {
        [
            "blocked": blocked.inMilliseconds, "dns": dns?.inMilliseconds ?? -1,
            "connect": connect?.inMilliseconds ?? -1, "ssl": ssl?.inMilliseconds ?? -1, "send": send.inMilliseconds,
            "wait": wait.inMilliseconds, "receive": receive.inMilliseconds, "_queued": queued.inMilliseconds,
        ]
    }
}

extension Duration {
    /// Zero for a negative duration, and at most a billion seconds, about 31 years.
    fileprivate var microseconds: Int64 { Int64(min(max(0, self / .microseconds(1)), 1e15).rounded()) }
}

extension Int64 {
    fileprivate var inMilliseconds: Double { Double(self) / 1_000 }
}
