// Writes a body to a partial file, on another thread than the transport's.
import Foundation

/// Receives the body of one attempt of a download.
///
/// The download's serial executor writes to the disk, so that a slow disk delays no other transfer. The transfer pauses
/// when 2 MiB wait. If the transport cannot pause, its thread waits for the write. The head, the bytes and the end of a
/// small body are written together, because a killed process would lose little.
final class DownloadSink: BodySink {
    private typealias Work = @Sendable (any DownloadTarget) throws(RequestError) -> Void

    private struct State {
        var backlog = Backlog(highWaterBytes: 2 << 20)
        /// Whether writing failed, after which nothing is written.
        var hasFailed = false
    }

    /// The maximum size of a body that is written together with its end.
    private static let smallBytes: Int64 = 64 << 10

    private let download: any DownloadTarget
    private let answer: DownloadAnswer
    private let head: ResponseHead
    private let request: PreparedRequest
    private let calls: SinkCalls
    private let isSmall: Bool
    private let state = Locked(State())

    init(
        _ download: any DownloadTarget, _ answer: DownloadAnswer, _ head: ResponseHead, of request: PreparedRequest,
        calls: SinkCalls
    ) {
        self.download = download
        self.answer = answer
        self.head = head
        self.request = request
        self.calls = calls
        isSmall = head.expectedBytes.map { $0 <= Self.smallBytes } ?? false
        perform(behindHead: true) {
            do throws(RequestError) { try download.beginBody(answer, head, of: request) } catch {
                if self.fails() { calls.fail(error) }
            }
        }
    }

    var isPaused: Bool { state.withLock { $0.backlog.isPaused } }
    /// The body of a 416 or a 304 does not count as received.
    var counts: Bool {
        switch answer {
        case .isWhole, .isUnchanged: false
        case .body, .mismatch, .refused: true
        }
    }

    func write(_ data: Data) throws(RequestError) {
        try write(data.count) { target throws(RequestError) in try target.write(data) }
    }

    /// Writes bytes of a file.
    func write(_ source: FileBytes) throws(RequestError) {
        try write(Int(source.count)) { target throws(RequestError) in try target.write(source) }
    }

    private func write(_ count: Int, _ work: @escaping Work) throws(RequestError) {
        guard counts else { return }
        state.withLock { $0.backlog.add(count) }
        guard !calls.canPause else {
            return perform(behindHead: true) { self.write(count, work) { self.calls.fail($0) } }
        }
        let problem = Locked<RequestError?>(nil)
        download.executor.sync { self.write(count, work) { error in problem.withLock { $0 = error } } }
        if let problem = problem.withLock({ $0 }) { throw problem }
    }

    func verify(_ completion: @escaping @Sendable (RequestError?) -> Void) {
        perform {
            // The error was already reported.
            guard !self.state.withLock({ $0.hasFailed }) else { return }
            do throws(RequestError) { try self.download.verify() } catch { return completion(error) }
            completion(nil)
        }
    }

    func finish(_ completion: @escaping @Sendable (Result<ReceivedBody, RequestError>) -> Void) {
        perform {
            self.download.commit(self.head, of: self.request) { result in
                completion(result.map { ReceivedBody(file: $0) })
            }
        }
    }

    /// Ends the body after its queued writes, so that the received bytes need not be requested again.
    func discard(_ completion: @escaping @Sendable () -> Void) {
        // The method never waits, because it may run on the download's serial executor.
        perform {
            self.state.withLock { $0.hasFailed = true }
            completion()
        }
    }

    /// Runs code on the serial executor, after the code that was added before.
    ///
    /// - Parameter behindHead: whether the code may wait until more code is added.
    private func perform(behindHead: Bool = false, _ work: @escaping @Sendable () -> Void) {
        if behindHead, isSmall, !isPaused { download.executor.beforeNext(work) } else { download.executor.async(work) }
    }

    // MARK: On the serial executor

    private func write(_ count: Int, _ work: Work, _ tell: (RequestError) -> Void) {
        guard !state.withLock({ $0.hasFailed }) else { return }
        do throws(RequestError) { try work(download) } catch {
            if fails() { tell(error) }
            return
        }
        if state.withLock({ $0.backlog.remove(count) }) { calls.caughtUp() }
    }

    /// Records that writing failed.
    ///
    /// Returns whether this is the first failure.
    private func fails() -> Bool {
        state.withLock { state in
            defer { state.hasFailed = true }
            return !state.hasFailed
        }
    }
}
