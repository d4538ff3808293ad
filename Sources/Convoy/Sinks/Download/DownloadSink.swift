// Writes a body to a part, behind the back of the transport.
import Foundation

/// Takes the body of one attempt of a download.
///
/// The disk is written on the download's own queue, so that a slow one holds up no other transfer; at most some MiB wait
/// for it. Where the transport cannot be held, its thread waits for the write.
final class DownloadSink: BodySink {
    private struct State {
        var waiting: [Data] = []
        var backlog = Backlog(highWaterBytes: 2 << 20)
        var isWriting = false
        /// Nothing is written any more: it failed.
        var hasFailed = false
    }

    private let download: any DownloadTarget
    private let answer: DownloadAnswer
    private let head: ResponseHead
    private let request: PreparedRequest
    private let calls: SinkCalls
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
        perform { download throws(RequestError) in try download.beginBody(answer, head, of: request) }
    }

    var isHeld: Bool { state.withLock { $0.backlog.isHeld } }
    /// An answer that says that nothing is missing has a body too.
    var counts: Bool {
        switch answer {
        case .isWhole, .isUnchanged: false
        case .body, .lie, .refused: true
        }
    }

    func write(_ data: Data) throws(RequestError) {
        guard counts else { return }
        let begins = state.withLock { state in
            state.waiting.append(data)
            state.backlog.add(data.count)
            defer { state.isWriting = true }
            return !state.isWriting
        }
        guard calls.canHold else {
            let problem: RequestError? = download.queue.sync { writeWaiting() }
            if let problem { throw problem }
            return
        }
        if begins { download.queue.async { if let problem = self.writeWaiting() { self.calls.fail(problem) } } }
    }

    func verify(_ completion: @escaping @Sendable (RequestError?) -> Void) {
        download.queue.async {
            // What failed to be written has been told.
            guard !self.state.withLock({ $0.hasFailed }) else { return }
            do throws(RequestError) { try self.download.verify() } catch { return completion(error) }
            completion(nil)
        }
    }

    func finish(_ completion: @escaping @Sendable (Result<ReceivedBody, RequestError>) -> Void) {
        download.queue.async {
            self.download.commit(self.head, of: self.request) { result in
                completion(result.map { ReceivedBody(file: $0) })
            }
        }
    }

    /// What has come is written: it need not be asked for again.
    func discard(_ completion: @escaping @Sendable () -> Void) {
        // Never waited for: this may be that queue.
        download.queue.async {
            _ = self.writeWaiting()
            self.state.withLock { $0.hasFailed = true }
            completion()
        }
    }

    /// Does something with the disk, in order; its failure ends the attempt.
    private func perform(_ work: @escaping @Sendable (any DownloadTarget) throws(RequestError) -> Void) {
        download.queue.async {
            do throws(RequestError) { try work(self.download) } catch {
                if self.fails() { self.calls.fail(error) }
            }
        }
    }

    /// Notes that writing has failed; whether it is the first time.
    private func fails() -> Bool {
        state.withLock { state in
            defer { state.hasFailed = true }
            return !state.hasFailed
        }
    }

    /// Writes until nothing waits; the result is why that cannot be done, once.
    ///
    /// - Thread: the queue.
    private func writeWaiting() -> RequestError? {
        while true {
            let pieces: [Data] = state.withLock { state in
                defer { state.waiting = [] }
                if state.waiting.isEmpty || state.hasFailed { state.isWriting = false }
                return state.hasFailed ? [] : state.waiting
            }
            if pieces.isEmpty { return nil }
            for piece in pieces {
                do throws(RequestError) { try download.write(piece) } catch { return fails() ? error : nil }
                if state.withLock({ $0.backlog.remove(piece.count) }) { calls.caughtUp() }
            }
        }
    }
}
