// One attempt: what a transport tells, until the attempt is over.
import Foundation

/// Receives one attempt's answer and hands it to the operation.
///
/// Each attempt has a client of its own, so what arrives for one that is over is dropped here (rule 5).
final class Attempt: TransportClient {
    private struct Receiving {
        var isOver = false
        var head: ResponseHead?
        var isAcceptable = true
        var sink: (any BodySink)?
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
                // Who closes it again has nothing to add.
                if let afterwards { receiving.afterwards = afterwards }
                return (nil, true)
            }
            defer { receiving.sink = nil }
            return (receiving.sink, false)
        }
        sink?.discard()
        if !isBusy { afterwards?() }
    }

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
        old?.discard()
        let isAcceptable = core.acceptableStatusCodes(head.statusCode)
        var failure: RequestError?
        var sink: (any BodySink)?
        do throws(RequestError) {
            // An unacceptable answer never reaches the destination: its beginning is kept for the error.
            sink =
                isAcceptable
                ? try core.destination.makeSink(core, for: head) { [weak self] in self?.fail($0) }
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

    func didReceive(_ data: Data) {
        let sink = receiving.withLock { receiving in
            guard !receiving.isOver, let sink = receiving.sink else { return (any BodySink)?.none }
            receiving.isBusy = true
            return sink
        }
        guard let sink else { return }
        var failure: RequestError?
        do throws(RequestError) { try sink.write(data) } catch { failure = error }
        guard leave(sink, with: { _ in }) else { return }
        if let failure { fail(failure) } else { operation.attempt(number, didReceiveBytes: Int64(data.count)) }
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
        sink?.discard()
        // Never on the transport's thread: what follows notifies and calls back.
        if let afterwards { operation.onLane(afterwards) }
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
            received.sink?.discard()
            let error = error ?? RequestError(.badResponse, "the transfer ended without a response")
            return conclude(with: error.with(nil, response: received.head), taskHasEnded: true)
        }
        // From here on the body is complete. One that goes to a file cannot be cancelled any more: nobody is told that a
        // download was cancelled whose file is there.
        guard operation.attempt(number, hasWholeBodyCommitting: received.isAcceptable && core.destination.isFile) else {
            return sink.discard()
        }
        sink.finish { result in
            switch result {
            case .failure(let error): self.conclude(with: error, taskHasEnded: true)
            case .success(let body):
                let transfer = (body: body, head: head, isAcceptable: received.isAcceptable)
                // This may be the transport's thread: user code, if there is any, runs on the operation's lane.
                if self.core.decodesAtOnce, self.operation.finishesWithoutUserCode {
                    self.operation.attempt(self.number, didComplete: transfer)
                } else {
                    self.operation.onLane { self.operation.attempt(self.number, didComplete: transfer) }
                }
            }
        }
    }

    /// The sink or the check of the head failed: ends the transfer.
    private func fail(_ error: RequestError) {
        let head = receiving.withLock { $0.head }
        close()
        conclude(with: error.with(nil, response: head))
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
