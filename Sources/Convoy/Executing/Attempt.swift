// One attempt: what a transport tells, until the attempt is over.
import Foundation

/// How an attempt ended.
struct AttemptEnding: Sendable {
    /// As it was sent.
    let request: PreparedRequest
    let head: ResponseHead?
    /// Why it failed, or that its status is not acceptable; nil for an acceptable answer.
    let error: RequestError?
    let metrics: TransferMetrics?
    let started: ContinuousClock.Instant
    let ended: ContinuousClock.Instant
    /// Whether an answer arrived, acceptable or not.
    let isAnswer: Bool
    let taskHasEnded: Bool
    /// Whether it was to continue a download, and does not; the whole may be asked for.
    let canStartOver: Bool

    /// Whether what its head says counts: it came whole, or all that is missing is of its body.
    var hasHead: Bool {
        isAnswer || head != nil && (error?.code == .connectionLost || error?.code == .badResponse)
    }
}

/// An answer whose body is complete, and acceptable.
struct CompleteAnswer: Sendable {
    let body: ReceivedBody
    let head: ResponseHead
    let request: PreparedRequest
    let metrics: TransferMetrics?
}

/// Receives one attempt's answer and hands it to the operation.
///
/// Each attempt has a client of its own, so what arrives for one that is over is dropped here (rule 5).
final class Attempt: TransportClient {
    /// Where the body of the answer goes.
    enum Keeping {
        /// Where the request wants it.
        case inDestination
        /// Into memory, its beginning: it is not acceptable, or another attempt may take its place.
        case aside
    }

    struct Receiving {
        /// The attempt was ended from outside: nothing counts any more.
        var isOver = false
        /// The transport has told the end, or nothing more is wanted of it.
        var hasEnded = false
        var taskHasEnded = false
        var head: ResponseHead?
        /// Why the answer is not acceptable; nil for one that is.
        var refusal: RequestError?
        var keeping = Keeping.inDestination
        /// How much of the body is there; of a file, what it continues included.
        var bodyCount: Int64 = 0
        /// What the answer is for a download; nil for another destination.
        var answer: DownloadAnswer?
        /// Whether the whole may be asked for where a part was to be continued.
        var canStartOver = false
        /// How much has come of a body that is only looked at.
        var asideCount: Int64 = 0
        var asideLimit = Attempt.asideBytes
        var sink: (any BodySink)?
        /// The sink, when it takes what it is given at once: it is used under the lock.
        var memory: MemorySink?
        var metrics: TransferMetrics?
        /// The transport's thread is at work with the sink: whoever ends the attempt leaves the rest to it.
        var isBusy = false
        var afterwards: (@Sendable () -> Void)?

        var accepts: Bool { !isOver && !hasEnded }
    }

    /// How much is kept of a body that is only looked at.
    static let asideBytes: Int64 = 64 << 10

    let number: Int
    let request: PreparedRequest
    let core: RequestCore
    let started: ContinuousClock.Instant
    /// Held while the transfer runs: the transfer keeps its operation alive, not the caller.
    let operation: AnyRequestOperation
    /// Where a body that goes into a file is written.
    let download: (any DownloadTarget)?
    /// What of it is to be continued.
    let resumePoint: ResumePoint?
    let receiving = Locked(Receiving())
    /// How fast it may receive, and has to.
    let pace: Pace

    init(
        number: Int, operation: AnyRequestOperation, core: RequestCore, request: PreparedRequest,
        download: (any DownloadTarget)? = nil, continuing resumePoint: ResumePoint? = nil
    ) {
        (self.download, self.resumePoint) = (download, resumePoint)
        pace = Pace(operation, core)
        self.number = number
        self.operation = operation
        self.core = core
        self.request = request
        started = operation.context.clock.now
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
        stopPacing()
        if let sink {
            sink.discard { afterwards?() }
        } else if !isBusy {
            afterwards?()
        }
    }

    /// Whether so much waits to be written, read or paid for that no more should come.
    var isHeld: Bool { receiving.withLock { $0.sink }?.isHeld ?? false || isPaying }

    func didReceive(_ head: ResponseHead) {
        guard !head.isInformational else { return }
        var head = head
        // These have no body, whatever length they declare (RFC 9110, section 6.4.1).
        if core.method == .head || head.statusCode == 204 || head.statusCode == 304 { head.expectedBytes = nil }
        if !keepsInMemory {
            // A response that arrives again starts the body afresh (rule 12).
            let (begins, old) = receiving.withLock { receiving -> (Bool, (any BodySink)?) in
                guard receiving.accepts else { return (false, nil) }
                receiving.isBusy = true
                defer { (receiving.sink, receiving.memory) = (nil, nil) }
                return (true, receiving.sink)
            }
            guard begins else { return }
            old?.discard {}
            operation.context.cookies?.store(head.headerFields, from: request.url)
        }
        let (answer, refusal) = judge(head)
        let asideLimit =
            core.decodesRefusals && refusal?.code == .unacceptableStatus ? core.maximumBodyBytes : Self.asideBytes
        let keeping = refusal == nil && !operation.mayRepeat(after: head, of: request) ? Keeping.inDestination : .aside
        var failure: RequestError?
        var sink: (any BodySink)?
        do throws(RequestError) {
            sink =
                switch keeping {
                case .inDestination: try makeLimitedSink(for: head, answer)
                case .aside: MemorySink(limit: asideLimit, truncates: true)
                }
        } catch {
            failure = error
        }
        let isCurrent = leave(sink) { [head] receiving in
            receiving.head = head
            receiving.refusal = refusal
            receiving.answer = answer
            receiving.canStartOver = resumePoint != nil && answer?.canStartOver == true
            receiving.asideLimit = asideLimit
            receiving.keeping = keeping
            receiving.bodyCount = answer?.offset ?? 0
            receiving.asideCount = 0
        }
        guard isCurrent else { return }
        if let failure { return fail(failure) }
        operation.attempt(number, didReceive: head, for: answer)
        watchSpeed()
    }

    /// What the head means for a download, and why it is not acceptable.
    private func judge(_ head: ResponseHead) -> (DownloadAnswer?, RequestError?) {
        var plain = head
        // We have asked for a range, not the caller: to him it is the whole that comes.
        if resumePoint != nil, head.statusCode == 206 { plain.statusCode = 200 }
        let refusal = core.refusal(of: plain)
        guard let download else { return (nil, refusal) }
        let answer = download.judge(
            head, continuing: resumePoint, asksForRange: request.headerFields.contains("Range"),
            isRefused: refusal != nil)
        switch answer {
        case .body, .isWhole, .isUnchanged: return (answer, nil)
        case .refused: return (answer, refusal)
        case .lie(let reason, _):
            return (
                answer, refusal ?? RequestError(.badResponse, reason, response: head, underlying: UnexpectedRange())
            )
        }
    }

    func makeSink(for head: ResponseHead, _ answer: DownloadAnswer?) throws(RequestError) -> any BodySink {
        guard let download, let answer else {
            return try core.destination.makeSink(core, for: head, calls: sinkCalls)
        }
        return DownloadSink(download, answer, head, of: request, calls: sinkCalls)
    }

    var sinkCalls: SinkCalls {
        SinkCalls(
            fail: { [weak self] in self?.fail($0) },
            caughtUp: { [weak self] in self?.operation.adjustTask() },
            canHold: operation.context.transport.pausesInPlace,
            queue: { [operation] in operation.state.withLock { $0.makeCourse().streamQueue } })
    }

    /// Whether neither its head nor its body leads to more than a change of its own state.
    private var keepsInMemory: Bool {
        if case .memory = core.destination { operation.context.cookies == nil } else { false }
    }

    /// Takes a piece into memory, in one look at the state; nil when it goes elsewhere.
    private func takeIntoMemory(_ data: Data) -> Result<Bool, RequestError>? {
        receiving.withLock { receiving in
            guard let memory = receiving.memory, case .inDestination = receiving.keeping else { return nil }
            guard receiving.accepts else { return .success(false) }
            receiving.bodyCount += Int64(data.count)
            guard receiving.bodyCount <= core.bodyLimit ?? .max else { return .failure(tooLarge) }
            do throws(RequestError) { try memory.write(data) } catch { return .failure(error) }
            return .success(true)
        }
    }

    func didReceive(_ data: Data) -> Bool {
        if let taken = takeIntoMemory(data) {
            switch taken {
            case .success(false): return false
            case .failure(let error):
                fail(error)
                return false
            case .success(true):
                operation.attempt(number, didReceiveBytes: Int64(data.count))
                return pay(for: data.count)
            }
        }
        let (sink, isTooMuch) = receiving.withLock { receiving -> ((any BodySink)?, Bool) in
            guard receiving.accepts, let sink = receiving.sink else { return (nil, false) }
            receiving.isBusy = true
            guard case .inDestination = receiving.keeping, sink.counts else { return (sink, false) }
            receiving.bodyCount += Int64(data.count)
            return (sink, receiving.bodyCount > core.bodyLimit ?? .max)
        }
        guard let sink else { return false }
        var failure = isTooMuch ? tooLarge : nil
        do throws(RequestError) { if failure == nil { try sink.write(data) } } catch { failure = error }
        var isEnough = false
        let isCurrent = leave(sink) { receiving in
            guard case .aside = receiving.keeping else { return }
            receiving.asideCount += Int64(data.count)
            isEnough = receiving.asideCount > receiving.asideLimit
        }
        guard isCurrent else { return false }
        if let failure {
            fail(failure)
            return false
        }
        if sink.counts { operation.attempt(number, didReceiveBytes: Int64(data.count)) }
        let isPaid = pay(for: data.count)
        if isEnough { end(nil, taskHasEnded: false) }
        return !isEnough && isPaid && !sink.isHeld
    }

    func didHold() {
        operation.attemptIsHeld(number)
        operation.noteRunning()
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
            receiving.memory = receiving.sink as? MemorySink
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
        guard receiving.withLock({ $0.accepts }) else { return }
        operation.attempt(number, didSendTotal: totalBytes)
    }

    /// The sink or the check of the head failed: ends the transfer.
    func fail(_ error: RequestError) {
        // It may be begun again.
        if error.lacksDescriptors { return end(error, taskHasEnded: false) }
        let head = receiving.withLock { $0.head }
        close { self.conclude(with: error.with(response: head)) }
    }

    /// Never on the transport's thread: ending an operation notifies, and cancels a task.
    func conclude(with error: RequestError, taskHasEnded: Bool = false) {
        operation.onLane {
            self.operation.conclude(
                AnyOutcome(error: error.with(self.operation.request?.summary)),
                attempt: self.number, taskHasEnded: taskHasEnded)
        }
    }
}
