// Writes a body to a part, behind the back of the transport.
import Foundation

/// Takes the body of one attempt of a download.
///
/// The disk is written on the download's own queue, so that a slow one holds up no other transfer; at most some MiB wait
/// for it. Where the transport cannot be held, its thread waits for the write.
final class DownloadSink: BodySink {
    private enum Work {
        case write(Data)
        /// Something else with the disk.
        case perform(@Sendable () -> Void)
    }

    private struct State {
        /// What is to be done, in order.
        var works: [Work] = []
        var backlog = Backlog(highWaterBytes: 2 << 20)
        /// Whether the queue has been told, or is at it.
        var isWorking = false
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
        perform {
            do throws(RequestError) { try download.beginBody(answer, head, of: request) } catch {
                if self.fails() { calls.fail(error) }
            }
        }
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
        let begins = add(.write(data))
        guard calls.canHold else {
            var problem: RequestError?
            download.queue.sync { work { problem = $0 } }
            if let problem { throw problem }
            return
        }
        if begins { workLater() }
    }

    func verify(_ completion: @escaping @Sendable (RequestError?) -> Void) {
        perform {
            // What failed to be written has been told.
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

    /// What has come is written: it need not be asked for again.
    func discard(_ completion: @escaping @Sendable () -> Void) {
        // Never waited for: this may be that queue.
        perform {
            self.state.withLock { $0.hasFailed = true }
            completion()
        }
    }

    // MARK: On the queue

    /// Has the queue do something, behind what it has been told before.
    private func perform(_ work: @escaping @Sendable () -> Void) { if add(.perform(work)) { workLater() } }

    /// Notes what is to be done; whether the queue has to be told.
    ///
    /// It is told once for all that comes before it is done: the head, the body and the end of a small file are one change
    /// of thread.
    private func add(_ work: Work) -> Bool {
        state.withLock { state in
            state.works.append(work)
            if case .write(let data) = work { state.backlog.add(data.count) }
            defer { state.isWorking = true }
            return !state.isWorking
        }
    }

    private func workLater() { download.queue.async { self.work { self.calls.fail($0) } } }

    /// Works until nothing waits.
    ///
    /// - Parameter tell: called, once for all works, with why something cannot be written.
    private func work(_ tell: (RequestError) -> Void) {
        while true {
            let works = state.withLock { state in
                defer { state.works = [] }
                if state.works.isEmpty { state.isWorking = false }
                return state.works
            }
            if works.isEmpty { return }
            for work in works {
                switch work {
                case .perform(let work): work()
                case .write(let data): write(data, tell)
                }
            }
        }
    }

    private func write(_ data: Data, _ tell: (RequestError) -> Void) {
        guard !state.withLock({ $0.hasFailed }) else { return }
        do throws(RequestError) { try download.write(data) } catch {
            if fails() { tell(error) }
            return
        }
        if state.withLock({ $0.backlog.remove(data.count) }) { calls.caughtUp() }
    }

    /// Notes that writing has failed; whether it is the first time.
    private func fails() -> Bool {
        state.withLock { state in
            defer { state.hasFailed = true }
            return !state.hasFailed
        }
    }
}
