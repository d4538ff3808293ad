// One attempt: what a transport tells, until the attempt is over.
import Foundation

/// An answer whose body is complete.
struct CompleteAnswer: Sendable {
    let body: ReceivedBody
    let head: ResponseHead
    let isAcceptable: Bool
    let metrics: TransferMetrics?
}

/// Receives one attempt's answer and hands it to the operation.
///
/// Each attempt has a client of its own, so what arrives for one that is over is dropped here (rule 5).
final class Attempt: TransportClient {
    private struct Receiving {
        var isOver = false
        var head: ResponseHead?
        var isAcceptable = true
        var sink: (any BodySink)?
        var metrics: TransferMetrics?
        /// The transport's thread is at work with the sink: whoever ends the attempt leaves the rest to it.
        var isBusy = false
        var afterwards: (@Sendable () -> Void)?
    }

    let number: Int
    private let core: RequestCore
    /// Held while the transfer runs: the transfer keeps its operation alive, not the caller.
    private let operation: AnyRequestOperation
    private let receiving = Locked(Receiving())

    init(number: Int, operation: AnyRequestOperation, core: RequestCore) {
        self.number = number
        self.operation = operation
        self.core = core
    }

    /// Ends the attempt: what arrives later is dropped, what was received is discarded.
    ///
    /// - Parameter afterwards: called when that has been done: now, or, when the transport's thread is just writing,
    ///   after that write. A cancelled download has left no file behind when its outcome is told.
    func close(_ afterwards: (@Sendable () -> Void)? = nil) {
        let (sink, isBusy) = receiving.withLock { receiving -> ((any BodySink)?, Bool) in
            receiving.isOver = true
            if receiving.isBusy {
                let earlier = receiving.afterwards
                receiving.afterwards = {
                    earlier?()
                    afterwards?()
                }
                return (nil, true)
            }
            // Kept: who closes it again comes behind the first discard.
            return (receiving.sink, false)
        }
        if let sink {
            sink.discard { afterwards?() }
        } else if !isBusy {
            afterwards?()
        }
    }

    /// Whether so much waits to be written or read that no more should come.
    var isHeld: Bool { receiving.withLock { $0.sink }?.isHeld ?? false }

    func didReceive(_ head: ResponseHead) {
        guard !head.isInformational else { return }
        var head = head
        // These have no body, whatever length they declare (RFC 9110, section 6.4.1).
        if core.method == .head || head.statusCode == 204 || head.statusCode == 304 { head.expectedBytes = nil }
        // A response that arrives again starts the body afresh (rule 12).
        let (begins, old) = receiving.withLock { receiving -> (Bool, (any BodySink)?) in
            guard !receiving.isOver else { return (false, nil) }
            receiving.isBusy = true
            defer { receiving.sink = nil }
            return (true, receiving.sink)
        }
        guard begins else { return }
        old?.discard {}
        let isAcceptable = core.acceptableStatusCodes(head.statusCode)
        var failure: RequestError?
        var sink: (any BodySink)?
        do throws(RequestError) {
            // An unacceptable answer never reaches the destination: its beginning is kept for the error.
            sink =
                isAcceptable
                ? try core.destination.makeSink(core, for: head, calls: sinkCalls)
                : MemorySink(limit: 64 << 10, truncates: true)
        } catch {
            failure = error
        }
        let isCurrent = leave(sink) { [head] receiving in
            receiving.head = head
            receiving.isAcceptable = isAcceptable
        }
        guard isCurrent else { return }
        if let failure { fail(failure) } else { operation.attempt(number, didReceive: head) }
    }

    private var sinkCalls: SinkCalls {
        SinkCalls(
            fail: { [weak self] in self?.fail($0) },
            caughtUp: { [weak self] in self?.operation.adjustTask() },
            canHold: operation.context.transport.pausesInPlace)
    }

    func didReceive(_ data: Data) -> Bool {
        let sink = receiving.withLock { receiving in
            guard !receiving.isOver, let sink = receiving.sink else { return (any BodySink)?.none }
            receiving.isBusy = true
            return sink
        }
        guard let sink else { return false }
        var failure: RequestError?
        do throws(RequestError) { try sink.write(data) } catch { failure = error }
        guard leave(sink, with: { _ in }) else { return false }
        if let failure {
            fail(failure)
            return false
        }
        operation.attempt(number, didReceiveBytes: Int64(data.count))
        return !sink.isHeld
    }

    func didHold() {
        operation.attemptIsHeld(number)
        // Whoever takes the bytes may have caught up before that was noted.
        if !isHeld { operation.adjustTask() }
    }

    func didCollect(_ metrics: TransferMetrics) {
        receiving.withLock { $0.metrics = metrics }
    }

    /// The transport's thread is done with the sink; false when the attempt was ended meanwhile, which is completed here.
    private func leave(_ sink: (any BodySink)?, with change: (inout Receiving) -> Void) -> Bool {
        let (isOver, afterwards) = receiving.withLock { receiving in
            receiving.isBusy = false
            receiving.sink = receiving.isOver ? nil : sink
            if !receiving.isOver { change(&receiving) }
            defer { receiving.afterwards = nil }
            return (receiving.isOver, receiving.afterwards)
        }
        guard isOver else { return true }
        // Never on the transport's thread: what follows notifies and calls back.
        let rest: @Sendable () -> Void = { [operation] in if let afterwards { operation.onLane(afterwards) } }
        if let sink { sink.discard(rest) } else { rest() }
        return false
    }

    func didSend(totalBytes: Int64) {
        guard !receiving.withLock({ $0.isOver }) else { return }
        operation.attempt(number, didSendTotal: totalBytes)
    }

    func didFinish(_ error: RequestError?) {
        let received = receiving.withLock { receiving -> Receiving? in
            guard !receiving.isOver else { return nil }
            receiving.isOver = true
            defer { receiving.sink = nil }
            return receiving
        }
        guard let received else { return }
        guard let head = received.head, let sink = received.sink, error == nil else {
            let error = error ?? RequestError(.badResponse, "the transfer ended without a response")
            let rest: @Sendable () -> Void = {
                self.conclude(with: error.with(nil, response: received.head), taskHasEnded: true)
            }
            if let sink = received.sink { return sink.discard(rest) } else { return rest() }
        }
        // From here on the body is complete. One that goes to a file cannot be cancelled any more: nobody is told that a
        // download was cancelled whose file is there.
        guard operation.attempt(number, hasWholeBodyCommitting: received.isAcceptable && core.destination.isFile) else {
            return sink.discard {}
        }
        sink.finish { result in
            switch result {
            case .failure(let error): self.conclude(with: error, taskHasEnded: true)
            case .success(let body):
                let answer = CompleteAnswer(
                    body: body, head: head, isAcceptable: received.isAcceptable, metrics: received.metrics)
                // This may be the transport's thread: user code, if there is any, runs on the operation's lane.
                if self.core.decodesAtOnce, self.operation.finishesWithoutUserCode {
                    self.operation.attempt(self.number, didComplete: answer)
                } else {
                    self.operation.onLane { self.operation.attempt(self.number, didComplete: answer) }
                }
            }
        }
    }

    /// The sink or the check of the head failed: ends the transfer.
    private func fail(_ error: RequestError) {
        let head = receiving.withLock { $0.head }
        close { self.conclude(with: error.with(nil, response: head)) }
    }

    /// Never on the transport's thread: ending an operation notifies, and cancels a task.
    private func conclude(with error: RequestError, taskHasEnded: Bool = false) {
        operation.onLane {
            self.operation.conclude(
                AnyOutcome(error: error.with(self.operation.request?.summary)),
                attempt: self.number, taskHasEnded: taskHasEnded)
        }
    }
}
