// Writes a body to a partial file, on another thread than the transport's.
import Foundation

// The download's serial executor writes, so that a slow disk delays no other transfer. The transfer pauses when 2 MiB
// wait; if the transport cannot pause, its thread waits for the write. The head, the bytes and the end of a small body
// are handled in one run of the executor: a killed process would lose only these few bytes.
final class DownloadSink: BodySink, @unchecked Sendable {
    // @unchecked: only the download's serial executor uses `hasFailed`.

    private typealias Work = @Sendable (any DownloadTarget) throws(RequestError) -> Void

    static let smallBytes: Int64 = 64 << 10

    private let download: any DownloadTarget
    private let answer: DownloadAnswer
    private let head: ResponseHead
    private let request: PreparedRequest
    private let calls: SinkCalls
    private let isSmall: Bool
    private let backlog = Locked(Backlog(highWaterBytes: 2 << 20))
    private var hasFailed = false

    init(
        _ download: any DownloadTarget, _ answer: DownloadAnswer, _ head: ResponseHead, of request: PreparedRequest,
        calls: SinkCalls
    ) {
        (self.download, self.answer, self.head, self.request, self.calls) = (download, answer, head, request, calls)
        isSmall = head.expectedBytes.map { $0 <= Self.smallBytes } ?? false
        perform(behindHead: isSmall) {
            self.run { target throws(RequestError) in try target.beginBody(answer, head, of: request) }
        }
    }

    var isPaused: Bool { backlog.withLock { $0.isPaused } }
    /// The body of a 416 or a 304 does not count as received.
    var counts: Bool {
        switch answer {
        case .isWhole, .isUnchanged: false
        case .body, .mismatch, .refused: true
        }
    }

    func write(_ data: Data) { write(data.count) { target throws(RequestError) in try target.write(data) } }

    func write(_ source: FileBytes) {
        write(Int(source.count)) { target throws(RequestError) in try target.write(source) }
    }

    private func write(_ count: Int, _ work: @escaping Work) {
        guard counts else { return }
        let isPaused = backlog.withLock { $0.add(count) }
        let piece: @Sendable () -> Void = {
            if self.run(work), self.backlog.withLock({ $0.remove(count) }) { self.calls.caughtUp() }
        }
        if calls.canPause {
            perform(behindHead: isSmall && !isPaused, piece)
        } else {
            download.executor.sync(piece)
        }
    }

    func verify(_ completion: @escaping @Sendable (RequestError?) -> Void) {
        perform {
            // The error was already reported.
            guard !self.hasFailed else { return }
            if self.answer == .isUnchanged { return completion(nil) }
            do throws(RequestError) { try self.download.verify() } catch { return completion(error) }
            completion(nil)
        }
    }

    func finish(_ completion: @escaping Callback<ReceivedBody>) {
        perform {
            self.download.commit(self.head, of: self.request) { completion($0.map { ReceivedBody(file: $0) }) }
        }
    }

    /// Ends the body after its queued writes, so that the received bytes need not be requested again.
    func discard(_ completion: @escaping @Sendable () -> Void) {
        // The method never waits, because it may run on the download's serial executor.
        perform {
            self.hasFailed = true
            completion()
        }
    }

    /// - Parameter behindHead: whether the code may wait until more code is added.
    private func perform(behindHead: Bool = false, _ work: @escaping @Sendable () -> Void) {
        if behindHead { download.executor.beforeNext(work) } else { download.executor.async(work) }
    }

    @discardableResult
    private func run(_ work: Work) -> Bool {
        guard !hasFailed else { return false }
        do throws(RequestError) { try work(download) } catch {
            hasFailed = true
            calls.fail(error)
        }
        return !hasFailed
    }
}

// A `DispatchQueue` would wake a thread each time, which for a small file costs more than all other work. The code may
// block, and delays other downloads by about four milliseconds (``ExecutorPool``).
final class DiskExecutor: ExecutorMember {
    static let executors = ExecutorPool(extraWorkers: .disk)

    private let work = Locked(ExecutorWork())

    /// - Parameter isFirst: whether an idle executor runs the code before the code of other downloads.
    func async(isFirst: Bool = false, _ piece: @escaping @Sendable () -> Void) {
        if work.withLock({ $0.add(piece) }) { Self.executors.submit(self, isFirst: isFirst) }
    }

    /// Adds code that waits until `async(_:)` adds more, if the executor is idle.
    func beforeNext(_ piece: @escaping @Sendable () -> Void) { work.withLock { $0.put(piece) } }

    /// Code that runs on an executor must not call this method, because it could wait for itself.
    func sync(_ piece: @escaping @Sendable () -> Void) {
        let hasRun = DispatchSemaphore(value: 0)
        async {
            piece()
            hasRun.signal()
        }
        hasRun.wait()
    }

    func runExecutor() {
        while let pieces = work.withLock({ $0.take() }) {
            for piece in pieces { piece() }
        }
    }
}
