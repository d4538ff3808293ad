// One large file in several concurrent ranges.
import Foundation

/// A download of one file in segments.
///
/// Each segment is an operation. All operations write into the same partial file.
///
/// Use segments for servers that limit the rate of a connection, and for files that several servers have. The first
/// request is for one byte, to get the length and version of the file. Then each segment is requested with `Range` and
/// `If-Range`, from the next server if one fails or refuses. Received bytes stay stored, and repeating the download
/// fetches only the missing ranges; without segments, it fetches all after the first range. The file is downloaded with
/// one request if it is under 2 MiB, or if the server does not support ranges of one version or refuses one of them.
///
/// ```swift
/// let download = manager.downloadInSegments(
///     .get(image), to: file, segments: 8)
/// print(try await download.file())
/// ```
///
/// Mirrors require a digest of the complete file, because they may hold another version. If the digest does not
/// match, the error lists which server sent which bytes.
///
/// ## Concurrency
/// Every member may be used from any thread. The operations count against the manager's limits. If the limit for each
/// host is below the number of segments, some segments wait.
///
/// ## Topics
/// - ``file()``
/// - ``response()``
/// - ``cancel()``
/// - ``cancel(keepingPart:)``
/// - ``progress``
/// - ``operations``
public final class SegmentedDownload: Sendable {
    private struct State {
        var task: Task<Result<Response<URL>, RequestError>, Never>?
        var operations: [AnyRequestOperation] = []
        /// The server that was asked last for each segment.
        var servers: [Int: URL] = [:]
    }

    private let manager: RequestManager
    private let request: Request<Data>
    private let mirrors: [URL]
    private let count: Int
    private let download: Download
    private let state = Locked(State())

    fileprivate init(
        _ manager: RequestManager, _ request: Request<Data>, _ plan: DownloadPlan, mirrors: [URL], count: Int
    ) {
        self.manager = manager
        // All segments share one rate limit.
        var request = request.sharingRateLimit(on: manager.configuration.clock)
        if let deadline = request.core.policies.deadline ?? manager.configuration.deadline {
            // All requests share one deadline. If each had its own, it would begin at the start of the request.
            let end = manager.configuration.clock.now + min(deadline, .seconds(1_000_000_000))
            request.core.policies.inheritedDeadline = min(end, request.core.policies.inheritedDeadline ?? end)
        }
        self.request = request
        self.mirrors = mirrors
        self.count = min(max(1, count), 64)
        download = Download(plan, isSegmented: true)
        manager.scheduler.begin(self)
        let work = Task(priority: .userInitiated) { await self.run() }
        state.withLock { $0.task = work }
    }

    /// The file, when it is complete.
    ///
    /// Cancelling the waiting task does not cancel the download, because other tasks may wait for it too.
    ///
    /// - Throws: the error with which the download failed.
    @discardableResult
    public func file() async throws(RequestError) -> URL { try await response().value }

    /// The file, the head of a response, and the number of bytes moved; see ``file()``.
    ///
    /// The head is that of the response to the first request, or to the request for the complete file. If an existing
    /// file was skipped, the head has the status 304, which no server sent.
    public func response() async throws(RequestError) -> Response<URL> {
        guard let task = state.withLock({ $0.task }) else { throw RequestError(.cancelled, "it was never started") }
        return try await task.value.get()
    }

    /// Cancels the download; received bytes stay stored, and repeating the download resumes it.
    ///
    /// A second call, or a call after the file is complete, has no effect.
    public func cancel() { state.withLock { $0.task }?.cancel() }

    /// Cancels the download, and removes the bytes that it would resume, unless it is to keep them.
    ///
    /// The bytes are those of this download, and of earlier ones of the same URL to the same file. They are removed
    /// before ``response()`` returns. The call has no effect on a complete file.
    ///
    /// - Parameter keepsPart: whether repeating the download resumes it.
    public func cancel(keepingPart keepsPart: Bool) {
        if !keepsPart, let url = (try? prepared())?.url {
            download.discardPart(of: url)
            for operation in operations { operation.cancel(keepingPart: false) }
        }
        cancel()
    }

    /// How much of the file exists, including bytes of an earlier download.
    ///
    /// The number of bytes decreases only if the download has to start over.
    public var progress: TransferProgress { download.shared.withLock { $0.progress } }

    /// The operations so far, in the order of creation.
    public var operations: [AnyRequestOperation] { state.withLock { $0.operations } }

    private func run() async -> Result<Response<URL>, RequestError> {
        let result: Result<Response<URL>, RequestError>
        do throws(RequestError) { result = .success(try await fetched()) } catch {
            result = .failure(error.with(request.core.summary))
        }
        await close()
        manager.scheduler.end(self)
        return result
    }

    private func fetched() async throws(RequestError) -> Response<URL> {
        let started = CompactInstant(manager.configuration.clock.now)
        if let defect { throw RequestError(.invalidRequest, "nothing was sent: \(defect)") }
        let prepared = try prepared()
        func response(_ file: URL, _ head: ResponseHead) -> Response<URL> {
            var timings = Timings()
            (timings.startedMoment, timings.finishedMoment) = (started, CompactInstant(manager.configuration.clock.now))
            return Response(value: file, request: prepared, head: head, timings: timings, transfer: progress)
        }
        var conditions = HeaderFields()
        let beginning = await outcome { [download] in download.begin(prepared, asksForWhole: false, $0) }
        switch try beginning.get() {
        case .isThere(let file): return response(file, ResponseHead(statusCode: 304, url: prepared.url))
        case .send(let request, _):
            for name in ["If-None-Match", "If-Modified-Since"] where !prepared.headerFields.contains(name) {
                conditions[name] = request.headerFields[name]
            }
        }
        if prepared.decodesFile { return try await inOnePiece(at: 0) }
        let (answer, server) = try await probe(conditions)
        guard let head = answer else { return try await inOnePiece(at: server) }
        if head.statusCode == 304 {
            let file = try await onExecutor { download throws(RequestError) in
                try download.unchangedFile(head, of: prepared)
            }
            return response(file, head)
        }
        if let total = head.contentRange?.totalBytes, let limit = request.core.bodyLimit(defaults), total > limit {
            throw .tooLarge("the file has \(total) bytes", limit: limit)
        }
        let segments = try await onExecutor { download throws(RequestError) in
            try download.beginSegments(head, count: self.count, hasMirrors: !self.mirrors.isEmpty)
        }
        guard let segments else { return try await inOnePiece(at: server) }
        if let error = await fetch(segments, of: server) {
            // The server has another version, or does not support ranges.
            if error.isOfRange { return try await inOnePiece(at: server) }
            throw error
        }
        do throws(RequestError) {
            try await onExecutor { download throws(RequestError) in try download.verify() }
        } catch {
            throw error.code == .integrityFailed ? error.noting(told(segments)) : error
        }
        let file = await outcome { [download] completion in
            download.executor.async { download.commit(head, of: prepared, completion) }
        }
        return response(try file.get(), head)
    }

    private func prepared() throws(RequestError) -> PreparedRequest { try request.core.prepared(defaults) }

    private var defaults: RequestDefaults { manager.scheduler.defaults }

    private var defect: String? {
        if let defect = request.defect ?? download.plan.defect { return defect }
        guard mirrors.isEmpty || download.plan.digest != nil else {
            return "mirrors require a digest, because they may have another file"
        }
        if request.core.method != .get || request.core.body != nil { return "segments require a GET without a body" }
        return request.headerFields.contains("Range") ? "segments set the Range field themselves" : nil
    }

    private func outcome<Value: Sendable>(
        _ work: @Sendable (@escaping Callback<Value>) -> Void
    ) async -> Result<Value, RequestError> {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in work { continuation.resume(returning: $0) } }
        } onCancel: {
            download.stop()
        }
    }

    private func onExecutor<Value: Sendable>(
        _ work: @escaping @Sendable (Download) throws(RequestError) -> Value
    ) async throws(RequestError) -> Value {
        let result = await outcome { [download] completion in
            download.executor.async { completion(Result { () throws(RequestError) in try work(download) }) }
        }
        if Task.isCancelled { throw RequestError(.cancelled, "it was cancelled") }
        return try result.get()
    }

    private func close() async {
        await withCheckedContinuation { continuation in download.close { continuation.resume() } }
    }
}

extension RequestManager {
    /// Downloads one file in several concurrent ranges.
    ///
    /// See ``SegmentedDownload`` and ``Request/saved(to:verifying:existing:permissions:)``.
    ///
    /// - Parameters:
    ///   - request: a GET.
    ///   - file: a file URL; its directory must exist.
    ///   - segments: the approximate number of concurrent ranges, 1 to 64. None is smaller than 1 MiB.
    ///   - mirrors: other URLs of the same file, which require a digest. Mirrors at other origins receive no secret
    ///     header fields, and credentials only from an authenticator whose `origins` include them.
    ///   - digest: the digest that the file must have.
    ///   - existing: what happens when the file exists.
    /// - Returns: the download, already started.
    public func downloadInSegments(
        _ request: Request<Data>, to file: URL, segments: Int = 4, mirrors: [URL] = [],
        verifying digest: FileDigest? = nil, existing: ExistingFile = .overwrite
    ) -> SegmentedDownload {
        downloadInSegments(
            request, to: file, segments: segments, mirrors: mirrors, verifying: digest, byteCount: nil,
            existing: existing)
    }

    package func downloadInSegments(
        _ request: Request<Data>, to file: URL, segments: Int, mirrors: [URL], verifying digest: FileDigest?,
        byteCount: Int64?, existing: ExistingFile
    ) -> SegmentedDownload {
        SegmentedDownload(
            self, request, DownloadPlan(url: file, digest: digest, byteCount: byteCount, existing: existing),
            mirrors: mirrors, count: segments)
    }
}

extension SegmentedDownload: Producer {
    private var servers: [URL?] { [nil] + mirrors }

    private func core(at server: Int, ofPart isPart: Bool) -> RequestCore {
        var core = request.core
        if isPart {
            // The limit applies to the complete file, not to a segment.
            core.policies.bodyLimit = .max
            core.decodesAtOnce = true
        }
        guard let url = servers[server] else { return core }
        (core.url, core.query) = (url, [])
        // Secrets are not sent to other origins.
        if (try? url.origin.get()) != (try? prepared().hostKey) {
            core.dropSecrets(defaults)
            core.policies.isMirror = true
        }
        return core
    }

    /// Downloads the file with one request, for a server without ranges or with ranges of different versions.
    private func inOnePiece(at server: Int) async throws(RequestError) -> Response<URL> {
        await close()
        var whole = request
        whole.core = core(at: server, ofPart: false)
        return try await send(whole.saved(download.plan)) { [download] operation in
            operation.onProgress { progress in download.shared.withLock { $0.progress = progress } }
            // The caller may have cancelled before the operation was listed.
            if download.isDiscarded { operation.cancel(keepingPart: false) }
        }
    }

    // The next server is asked if one fails or refuses the request. An empty file has no first byte, so a server
    // answers 416, and counts as one without ranges, for which the head is nil. The `conditions` of
    // ``ExistingFile/updateIfChanged`` apply to the first server only.
    private func probe(_ conditions: HeaderFields) async throws(RequestError) -> (head: ResponseHead?, server: Int) {
        var first: RequestError?
        for (index, server) in servers.enumerated() {
            var core = core(at: index, ofPart: true)
            core.headerFields["Range"] = "bytes=0-0"
            if server == nil { for field in conditions { core.headerFields[field.name] = field.value } }
            if !core.policies.omittedTransportFields.contains("accept-encoding") {
                core.headerFields["Accept-Encoding"] = "identity"
            }
            (core.policies.acceptableStatusCodes, core.policies.acceptableContentTypes) = (.successful, nil)
            // The body limit of one byte avoids reading a response that has the complete file.
            (core.destination, core.policies.bodyLimit) = (.memory, 1)
            do throws(RequestError) {
                return (try await send(Request<Void>(core: core) { _, _ in }).head, index)
            } catch {
                if server == nil, !conditions.isEmpty, let head = error.response, head.statusCode == 304 {
                    return (head, index)
                }
                // A 206 with other bytes than the requested one shows that the server does not support ranges.
                let isUnfit = error.code == .badResponse && error.response?.statusCode == 206
                if isUnfit || error.code == .bodyTooLarge || error.response?.statusCode == 416 { return (nil, index) }
                if error.code == .cancelled { throw error }
                first = first ?? error
            }
        }
        // The first server may refuse only ranges, so the complete file is requested from it next.
        if first?.code == .unacceptableStatus { return (nil, 0) }
        throw first ?? RequestError(.cancelled, "no server is left")
    }

    private func fetch(_ segments: [FileSegment], of known: Int) async -> RequestError? {
        await withTaskGroup(of: RequestError?.self) { group in
            for segment in segments { group.addTask { await self.fetch(segment, of: known) } }
            var first: RequestError?
            for await error in group where first == nil && error != nil {
                first = error
                group.cancelAll()
            }
            return first
        }
    }

    private func fetch(_ segment: FileSegment, of known: Int) async -> RequestError? {
        var last: RequestError?
        for turn in servers.indices {
            let index = (segment.index + turn) % servers.count
            var core = core(at: index, ofPart: true)
            var target = segment
            target.isOfVersion = index == known
            core.destination = .segment(target)
            state.withLock { $0.servers[segment.index] = core.url }
            do throws(RequestError) {
                repeat {
                    try await send(Request<Void>(core: core) { _, _ in })
                } while try await onExecutor { _ in segment.isIncomplete }
                return nil
            } catch {
                last = error
                if error.code.facts.contains(.local) { return error }
            }
        }
        return last
    }

    @discardableResult
    private func send<Output>(
        _ request: Request<Output>, preparing prepare: (RequestOperation<Output>) -> Void = { _ in }
    ) async throws(RequestError) -> Response<Output> {
        let operation = manager.operation(request)
        state.withLock { $0.operations.append(operation) }
        prepare(operation)
        manager.enqueue(operation)
        return try await operation.response()
    }

    private func told(_ segments: [FileSegment]) -> String {
        let servers = state.withLock { $0.servers }
        return segments.map { segment in
            let server = servers[segment.index]?.redactedString ?? "?"
            return "\(segment.range.lowerBound)-\(segment.range.upperBound - 1) came from \(server)"
        }.joined(separator: ", ")
    }
}
