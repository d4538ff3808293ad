// One large file in several ranges at once.
import Foundation

/// A download of one file in segments, each an operation of its own, written in place into one part.
///
/// For servers that give each connection only so much, and for files that several servers have. The first request asks for
/// one byte and so learns length and version; then the segments are asked for, each with `Range` and `If-Range`. A segment
/// that fails is asked of the next mirror; what has come stays, and the same download later fetches only what is missing.
/// One without segments goes on behind the first range that is there, and fetches what lies behind again. A server that
/// cannot be asked for ranges of one version, or a file under 2 MiB, is downloaded in one piece.
///
/// ```swift
/// let download = manager.downloadInSegments(
///     .get(image), to: file, segments: 8)
/// print(try await download.file())
/// ```
///
/// Mirrors may hold something else than the first server: with them a digest is needed, which the whole must have.
/// Where it has not, the error names which server sent which bytes.
///
/// ## Concurrency
/// Every member may be used from any thread. The operations count against the manager's limits like any others: a limit for
/// each host below the number of segments holds some of them back.
///
/// ## Topics
/// - ``file()``
/// - ``response()``
/// - ``cancel()``
/// - ``progress``
/// - ``operations``
public final class SegmentedDownload: Sendable {
    struct State {
        var operations: [AnyRequestOperation] = []
        /// Which server was asked for each segment last.
        var servers: [Int: URL] = [:]
    }

    let manager: RequestManager
    let request: Request<Data>
    private let plan: DownloadPlan
    let mirrors: [URL]
    let count: Int
    let download: Download
    let state = Locked(State())
    private let task = Locked<Task<Result<Response<URL>, RequestError>, Never>?>(nil)

    init(
        _ manager: RequestManager, _ request: Request<Data>, _ plan: DownloadPlan, mirrors: [URL], count: Int
    ) {
        self.manager = manager
        // For all segments together.
        var request = request.sharingRateLimit(on: manager.configuration.clock)
        if let deadline = request.core.policies.deadline ?? manager.configuration.deadline {
            // One for all: each request would begin to count anew.
            let end = manager.configuration.clock.now + min(deadline, .seconds(1_000_000_000))
            request.core.policies.inheritedDeadline = min(end, request.core.policies.inheritedDeadline ?? end)
        }
        self.request = request
        self.plan = plan
        self.mirrors = mirrors
        self.count = min(max(1, count), 64)
        download = Download(plan, isSegmented: true)
        manager.scheduler.begin(self)
        let work = Task(priority: .userInitiated) {
            let result = await self.run()
            manager.scheduler.end(self)
            return result
        }
        task.withLock { $0 = work }
    }

    /// The file, when it is complete.
    ///
    /// Cancelling the waiting task does not cancel the download: others may wait for it too.
    ///
    /// - Throws: why it failed.
    @discardableResult
    public func file() async throws(RequestError) -> URL { try await response().value }

    /// The file, with the head of the answer to the first request, and the bytes that moved; see ``file()``.
    ///
    /// A file that was there and was skipped has a head with the status 304, which no server sent.
    public func response() async throws(RequestError) -> Response<URL> {
        guard let task = task.withLock({ $0 }) else { throw RequestError(.cancelled, "it was never begun") }
        return try await task.value.get()
    }

    /// Cancels the download; what has come stays, and the same download later goes on.
    ///
    /// Safe to call again; without effect once the file is complete.
    public func cancel() { task.withLock { $0 }?.cancel() }

    /// How much of the file is there, what an earlier download left included; never runs backwards, unless it has to start
    /// over.
    public var progress: TransferProgress { download.progress.withLock { $0 } }

    /// The operations so far, in the order in which they were made.
    public var operations: [AnyRequestOperation] { state.withLock { $0.operations } }

    // MARK: The way

    private func run() async -> Result<Response<URL>, RequestError> {
        var timings = Timings()
        timings.startedMoment = CompactInstant(manager.configuration.clock.now)
        func response(_ file: URL, _ head: ResponseHead, _ request: PreparedRequest) -> Response<URL> {
            timings.finishedMoment = CompactInstant(manager.configuration.clock.now)
            return Response(value: file, request: request, head: head, timings: timings, transfer: progress)
        }
        do throws(RequestError) {
            if let defect = defect { throw RequestError(.invalidRequest, "nothing was sent: \(defect)") }
            let prepared = try prepared.get()
            var conditions = HeaderFields()
            switch try await begin(prepared) {
            case .isThere(let file):
                return .success(response(file, ResponseHead(statusCode: 304, url: prepared.url), prepared))
            case .send(let request, _):
                for name in ["If-None-Match", "If-Modified-Since"] where !prepared.headerFields.contains(name) {
                    conditions[name] = request.headerFields[name]
                }
            }
            guard !prepared.decodesFile, let (head, server) = try await probe(conditions) else {
                return await inOnePiece()
            }
            if head.statusCode == 304 {
                let file = try await onLane { download throws(RequestError) in
                    try download.unchangedFile(head, of: prepared)
                }
                await close()
                return .success(response(file, head, prepared))
            }
            let total = head.headerFields["Content-Range"].flatMap { ContentRange($0)?.totalBytes }
            if let total, let limit = request.core.bodyLimit(defaults), total > limit {
                throw .tooLarge("the file has \(total) bytes", limit: limit)
            }
            let segments = try await onLane { download throws(RequestError) in
                try download.beginSegments(head, count: self.count, hasMirrors: !self.mirrors.isEmpty)
            }
            guard let segments else { return await inOnePiece() }
            if let error = await fetch(segments, of: server) {
                // The server has another version, or no ranges.
                if error.underlying is UnexpectedRange { return await inOnePiece() }
                throw error
            }
            do throws(RequestError) {
                try await onLane { download throws(RequestError) in try download.verify() }
            } catch {
                throw error.code == .integrityFailed ? error.noting(told(segments)) : error
            }
            let file = try await commit(head, prepared)
            await close()
            return .success(response(file, head, prepared))
        } catch {
            await close()
            return .failure(error.with(request.core.summary))
        }
    }

    var prepared: Result<PreparedRequest, RequestError> {
        do throws(RequestError) {
            return .success(try request.core.prepared(defaults))
        } catch {
            return .failure(error)
        }
    }

    var defaults: RequestDefaults { manager.scheduler.context.defaults }

    private var defect: String? {
        if let defect = request.defect ?? plan.defect { return defect }
        guard mirrors.isEmpty || plan.digest != nil else {
            return "with mirrors a digest is needed: they may hold another file"
        }
        guard request.core.method == .get, request.core.body == nil else {
            return "only a GET without a body has segments"
        }
        return request.headerFields.contains("Range") ? "segments ask for ranges themselves" : nil
    }

    private func begin(_ prepared: PreparedRequest) async throws(RequestError) -> DownloadBeginning {
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                download.begin(prepared, asksForWhole: false) { continuation.resume(returning: $0) }
            }
        } onCancel: {
            download.stop()
        }
        return try result.get()
    }

    /// For a server that sends no ranges, or ranges of different versions: as any other download.
    private func inOnePiece() async -> Result<Response<URL>, RequestError> {
        await close()
        let operation = manager.operation(request.saved(plan))
        state.withLock { $0.operations.append(operation) }
        operation.onProgress { [download] progress in download.progress.withLock { $0 = progress } }
        manager.enqueue(operation)
        do throws(RequestError) { return .success(try await operation.response()) } catch {
            return .failure(error)
        }
    }

    private func commit(_ head: ResponseHead, _ prepared: PreparedRequest) async throws(RequestError) -> URL {
        let result = await withCheckedContinuation { continuation in
            download.lane.async {
                self.download.commit(head, of: prepared) { continuation.resume(returning: $0) }
            }
        }
        return try result.get()
    }

    private func onLane<Value: Sendable>(
        _ work: @escaping @Sendable (Download) throws(RequestError) -> Value
    ) async throws(RequestError) -> Value {
        let result: Result<Value, RequestError> = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                download.lane.async {
                    do throws(RequestError) {
                        continuation.resume(returning: .success(try work(self.download)))
                    } catch {
                        continuation.resume(returning: .failure(error))
                    }
                }
            }
        } onCancel: {
            download.stop()
        }
        if Task.isCancelled { throw RequestError(.cancelled, "it was cancelled") }
        return try result.get()
    }

    private func close() async {
        await withCheckedContinuation { continuation in download.close { continuation.resume() } }
    }
}

extension RequestManager {
    /// Downloads one file in several ranges at once.
    ///
    /// See ``SegmentedDownload`` and ``Request/saved(to:verifying:existing:permissions:)``.
    ///
    /// - Parameters:
    ///   - request: a GET.
    ///   - file: a file URL; its directory must exist.
    ///   - segments: about how many ranges at once, 1 to 64; none is smaller than 1 MiB.
    ///   - mirrors: other URLs of the same file; they need a digest. Those at other origins are sent no secret header fields,
    ///     and credentials only of an authenticator whose `origins` name them.
    ///   - digest: what the file must hash to.
    ///   - existing: what happens when the file exists.
    /// - Returns: the download, begun.
    public func downloadInSegments(
        _ request: Request<Data>, to file: URL, segments: Int = 4, mirrors: [URL] = [],
        verifying digest: FileDigest? = nil, existing: ExistingFile = .overwrite
    ) -> SegmentedDownload {
        let plan = DownloadPlan(target: .file(file), digest: digest, existing: existing)
        return SegmentedDownload(self, request, plan, mirrors: mirrors, count: segments)
    }
}

extension SegmentedDownload: Undertaking {}
