// Writes a body to a part, behind the back of the transport.
import Foundation

/// Takes the body of one attempt of a download.
///
/// The disk is written on the download's lane, so that a slow one holds up no other transfer; at most some MiB wait for it.
/// Where the transport cannot be held, its thread waits for the write. Of a small body the head, the bytes and the end are
/// one work: what a kill would keep of it is not worth more.
final class DownloadSink: BodySink {
    private struct State {
        var backlog = Backlog(highWaterBytes: 2 << 20)
        /// Nothing is written any more: it failed.
        var hasFailed = false
    }

    /// What is written with its end.
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

    var isHeld: Bool { state.withLock { $0.backlog.isHeld } }
    /// An answer that says that nothing is missing has a body too.
    var counts: Bool {
        switch answer {
        case .isWhole, .isUnchanged: false
        case .body, .mismatch, .refused: true
        }
    }

    func write(_ data: Data) throws(RequestError) {
        guard counts else { return }
        state.withLock { $0.backlog.add(data.count) }
        guard !calls.canHold else { return perform(behindHead: true) { self.write(data) { self.calls.fail($0) } } }
        let problem = Locked<RequestError?>(nil)
        download.lane.sync { self.write(data) { error in problem.withLock { $0 = error } } }
        if let problem = problem.withLock({ $0 }) { throw problem }
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
        // Never waited for: this may be that lane.
        perform {
            self.state.withLock { $0.hasFailed = true }
            completion()
        }
    }

    /// Has the lane do something, behind what it has been told before.
    ///
    /// - Parameter behindHead: whether more comes, without which it need not be done.
    private func perform(behindHead: Bool = false, _ work: @escaping @Sendable () -> Void) {
        if behindHead, isSmall, !isHeld { download.lane.beforeNext(work) } else { download.lane.async(work) }
    }

    // MARK: On the lane

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
