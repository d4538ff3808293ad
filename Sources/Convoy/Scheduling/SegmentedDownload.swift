// One large file in several ranges at once.
import Foundation

/// A download of one file in segments, each an operation of its own, written in place into one part.
///
/// For servers that give each connection only so much, and for files that several servers have. The first request asks for
/// one byte and so learns length and version; then the segments are asked for, each with `Range` and `If-Range`. A segment
/// that fails is asked of the next mirror; what has come stays, and the same download later fetches only what is missing.
/// One without segments goes on behind the first range that is there, and fetches what lies behind again. A server that cannot be asked for ranges of one version, or a file under 2 MiB, is downloaded in
/// one piece.
///
/// ```swift
/// let download = manager.downloadInSegments(.get(image), to: file, segments: 8)
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
    private struct State {
        var operations: [AnyRequestOperation] = []
        /// Which server was asked for each segment last.
        var servers: [Int: URL] = [:]
    }

    private let manager: RequestManager
    private let request: Request<Data>
    private let plan: DownloadPlan
    private let mirrors: [URL]
    private let count: Int
    private let download: Download
    private let state = Locked(State())
    private let task = Locked<Task<Result<Response<URL>, RequestError>, Never>?>(nil)

    init(
        _ manager: RequestManager, _ request: Request<Data>, _ plan: DownloadPlan, mirrors: [URL], count: Int
    ) {
        self.manager = manager
        // For all segments together.
        var request = request.sharingRateLimit(on: manager.configuration.clock)
        if let deadline = request.core.policies.deadline {
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
    /// A file that was there and was skipped has a head with the status 304, which nobody sent.
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
        timings.started = manager.configuration.clock.now
        func response(_ file: URL, _ head: ResponseHead, _ request: PreparedRequest) -> Response<URL> {
            timings.finished = manager.configuration.clock.now
            return Response(value: file, request: request, head: head, timings: timings, transfer: progress)
        }
        do throws(RequestError) {
            if let defect = defect { throw RequestError(.invalidRequest, "nothing was sent: \(defect)") }
            let prepared = try prepared.get()
            if case .isThere(let file) = try await begin(prepared) {
                return .success(response(file, ResponseHead(statusCode: 304, url: prepared.url), prepared))
            }
            guard !prepared.decodesFile, let (head, server) = try await probe() else { return await inOnePiece() }
            let total = head.headerFields["Content-Range"].flatMap { ContentRange($0)?.totalBytes }
            if let total, let limit = request.core.bodyLimit, total > limit {
                throw .tooLarge("the file has \(total) bytes", limit: limit)
            }
            let segments = try await onQueue { download throws(RequestError) in
                try download.beginSegments(head, count: self.count, hasMirrors: !self.mirrors.isEmpty)
            }
            guard let segments else { return await inOnePiece() }
            if let error = await fetch(segments, of: server) {
                // The server has another version, or no ranges.
                if error.underlying is UnexpectedRange { return await inOnePiece() }
                throw error
            }
            do throws(RequestError) {
                try await onQueue { download throws(RequestError) in try download.verify() }
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

    private var prepared: Result<PreparedRequest, RequestError> {
        do throws(RequestError) {
            return .success(try PreparedRequest(request.core, baseURL: manager.configuration.baseURL))
        } catch {
            return .failure(error)
        }
    }

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

    /// The request's own server, then the mirrors.
    private var servers: [URL?] { [nil] + mirrors }

    private func core(at server: URL?) -> RequestCore {
        var core = request.core
        if let server {
            (core.url, core.query) = (server, [])
            // Secrets go to no other origin.
            if (try? server.origin.get()) != (try? prepared.get().hostKey) {
                core.headerFields.removeAll { $0.isSecret || $0.name.equalsIgnoringCase("Host") }
            }
        }
        // It is for the whole.
        core.bodyLimit = nil
        core.decodesAtOnce = true
        return core
    }

    /// Asks for the first byte, and so for length and version, until a server answers.
    ///
    /// - Returns: nil when none can be asked for a range.
    private func probe() async throws(RequestError) -> (ResponseHead, server: Int)? {
        var last: RequestError?
        for (index, server) in servers.enumerated() {
            var core = core(at: server)
            core.headerFields["Range"] = "bytes=0-0"
            core.headerFields["Accept-Encoding"] = "identity"
            core.acceptableStatusCodes = .successful
            core.acceptableContentTypes = .any
            // Who sends the whole is not listened to.
            (core.destination, core.bodyLimit) = (.memory, 1)
            do throws(RequestError) {
                return (try await send(Request<Void>(core: core) { _, _ in }).head, index)
            } catch {
                if error.code == .bodyTooLarge || error.code == .unacceptableStatus { return nil }
                last = error
                if error.code == .cancelled { break }
            }
        }
        throw last ?? RequestError(.cancelled, "there is no server")
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

    /// Sends the requests of all segments; what made the first of them fail for good.
    ///
    /// - Parameter known: which server's version is known.
    private func fetch(_ segments: [FileSegment], of known: Int) async -> RequestError? {
        await withTaskGroup(of: RequestError?.self) { group in
            for segment in segments { group.addTask { await self.fetch(segment, of: known) } }
            var first: RequestError?
            for await error in group {
                guard let error, first == nil else { continue }
                first = error
                group.cancelAll()
            }
            return first
        }
    }

    /// Asks one server after the other for a segment.
    private func fetch(_ segment: FileSegment, of known: Int) async -> RequestError? {
        var last: RequestError?
        for turn in servers.indices {
            let index = (segment.index + turn) % servers.count
            var core = core(at: servers[index])
            core.destination = .segment(index == known ? segment : segment.withoutVersion)
            state.withLock { $0.servers[segment.index] = core.url }
            do throws(RequestError) {
                try await send(Request<Void>(core: core) { _, _ in })
                return nil
            } catch {
                last = error
                if error.code == .cancelled || error.code == .diskFull { return error }
            }
        }
        return last
    }

    @discardableResult
    private func send(_ request: Request<Void>) async throws(RequestError) -> Response<Void> {
        let operation = manager.operation(request)
        state.withLock { $0.operations.append(operation) }
        manager.enqueue(operation)
        return try await operation.response()
    }

    /// The server cannot be asked for ranges, or told another tale: as any other download.
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
            download.queue.async {
                self.download.commit(head, of: prepared) { continuation.resume(returning: $0) }
            }
        }
        return try result.get()
    }

    private func onQueue<Value: Sendable>(
        _ work: @escaping @Sendable (Download) throws(RequestError) -> Value
    ) async throws(RequestError) -> Value {
        let result: Result<Value, RequestError> = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                download.queue.async {
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

    /// Which server sent which bytes.
    private func told(_ segments: [FileSegment]) -> String {
        let servers = state.withLock { $0.servers }
        return segments.map { segment in
            let server = servers[segment.index]?.redactedString ?? "?"
            return "\(segment.range.lowerBound)-\(segment.range.upperBound - 1) came from \(server)"
        }.joined(separator: ", ")
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
    ///   - mirrors: other URLs of the same file; they need a digest.
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
