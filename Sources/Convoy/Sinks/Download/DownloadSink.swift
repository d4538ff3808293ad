// Writes a body to a partial file, on another thread than the transport's.
import Foundation

// The download's serial executor writes, so that a slow disk delays no other transfer. The transfer pauses when 2 MiB
// wait; if the transport cannot pause, its thread waits for the write. The head, the bytes and the end of a small body
// are handled in one run of the executor: a killed process would lose only these few bytes.
final class DownloadSink: BodySink, @unchecked Sendable {
    // @unchecked: only the download's serial executor uses `hasFailed`.

    static let smallBytes: Int64 = 64 << 10

    private let download: Download
    private let segment: FileSegment?
    private let answer: DownloadAnswer
    private let head: ResponseHead
    private let request: PreparedRequest
    private let calls: SinkCalls
    private let isSmall: Bool
    private let backlog = Locked(Backlog(highWaterBytes: 2 << 20))
    private var hasFailed = false

    init(
        _ download: Download, _ segment: FileSegment?, _ answer: DownloadAnswer, _ head: ResponseHead,
        of request: PreparedRequest, calls: SinkCalls
    ) {
        (self.download, self.segment, self.answer, self.head) = (download, segment, answer, head)
        (self.request, self.calls, isSmall) = (request, calls, head.expectedBytes ?? .max <= Self.smallBytes)
        download.executor.async(waits: isSmall) {
            self.run { () throws(RequestError) in try download.beginBody(answer, head, of: request, in: segment) }
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

    func write(_ data: Data) {
        guard counts else { return }
        let isPaused = backlog.withLock { $0.add(data.count) }
        let piece: @Sendable () -> Void = {
            let isWritten = self.run { () throws(RequestError) in try self.download.write(data, in: self.segment) }
            if isWritten, self.backlog.withLock({ $0.remove(data.count) }) { self.calls.caughtUp() }
        }
        if calls.canPause {
            download.executor.async(waits: isSmall && !isPaused, piece)
        } else {
            download.executor.sync(piece)
        }
    }

    func verify(_ completion: @escaping @Sendable (RequestError?) -> Void) {
        download.executor.async {
            // The error was already reported.
            guard !self.hasFailed else { return }
            do throws(RequestError) {
                if self.answer != .isUnchanged { try self.download.verify(self.segment) }
                completion(nil)
            } catch {
                completion(error)
            }
        }
    }

    func finish(_ completion: @escaping Callback<ReceivedBody>) {
        download.executor.async {
            guard self.segment == nil else { return completion(.success(ReceivedBody())) }
            self.download.commit(self.head, of: self.request) { completion($0.map { ReceivedBody(file: $0) }) }
        }
    }

    /// Ends the body after its queued writes, so that the received bytes need not be requested again.
    func discard(_ completion: @escaping @Sendable () -> Void) {
        // The method never waits, because it may run on the download's serial executor.
        download.executor.async {
            self.hasFailed = true
            completion()
        }
    }

    @discardableResult
    private func run(_ work: () throws(RequestError) -> Void) -> Bool {
        guard !hasFailed else { return false }
        do throws(RequestError) { try work() } catch {
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

    /// - Parameters:
    ///   - isFirst: whether an idle executor runs the code before the code of other downloads.
    ///   - waits: whether an idle executor runs the code only when more was added.
    func async(isFirst: Bool = false, waits: Bool = false, _ piece: @escaping @Sendable () -> Void) {
        if waits { return work.withLock { $0.put(piece) } }
        if work.withLock({ $0.add(piece) }) { Self.executors.submit(self, isFirst: isFirst) }
    }

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
