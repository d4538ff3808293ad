// One attempt. It receives a transport's events until it is over.
import Foundation
import Synchronization

final class Attempt: TransportClient {
    struct Receiving {
        enum Phase {
            case receiving
            /// The transport has reported the end, or no more data is needed from the transport.
            case ended(taskHasEnded: Bool)
            /// The operation has left the attempt.
            case over
        }

        var phase = Phase.receiving
        var head: ResponseHead?
        var refusal: RequestError?
        /// Whether only the beginning of the body is kept: the response is refused, or another attempt may follow.
        var isPreview = false
        var progress: TransferProgress
        var firstByteMoment: CompactInstant?
        var bodyLimit = Int64.max
        var answer: DownloadAnswer?
        var sink: (any BodySink)?
        var metrics: CopyOnWrite<TransferMetrics>?
        /// Whether the cache answers, or has not yet used the network.
        var isAnswered: Bool
        /// What follows when the transport's thread has left the sink; nil while it does not use the sink.
        var afterwards: [@Sendable () -> Void]?

        var accepts: Bool { if case .receiving = phase { true } else { false } }
        var isOver: Bool { if case .over = phase { true } else { false } }
        var taskHasEnded: Bool { if case .ended(let taskHasEnded) = phase { taskHasEnded } else { false } }
        /// The complete response, if it is in memory and no other attempt may follow.
        var whole: (MemorySink, ResponseHead)? {
            guard !isPreview, let head, let sink = sink as? MemorySink else { return nil }
            return (sink, head)
        }
        var bodyCount: Int64 { progress.download.completedBytes }
    }

    /// The number of bytes kept of a preview; if the request decodes error bodies, its memory limit applies instead.
    static let previewBytes: Int64 = 64 << 10

    let number: Int
    let request: PreparedRequest
    /// Not the plan with the caller's closures: a transport may retain the attempt after the operation has released
    /// them.
    let rules: AnswerRules
    let started: CompactInstant
    /// A strong reference: the running transfer keeps its operation alive, so the caller need not retain it.
    let operation: AnyRequestOperation
    let download: Download?
    let resumePoint: ResumePoint?
    let receiving: Locked<Receiving>
    /// The first `resume()` of the task.
    enum SetOff: UInt8, AtomicRepresentable {
        case isUnderWay
        /// The task is to be resumed or paused afterwards.
        case adjustsAfterwards
        case isOver
    }
    let setOff = Atomic(SetOff.isUnderWay)
    let ownRateLimit: RateLimit?
    let stallDetector: StallDetector?

    init(
        _ launch: OperationRecord.Launch, of operation: AnyRequestOperation, request: PreparedRequest,
        started: CompactInstant, continuing resumePoint: ResumePoint? = nil
    ) {
        (number, self.operation, self.request, self.started) = (launch.number, operation, request, started)
        (download, self.resumePoint) = (launch.download, resumePoint)
        let core = launch.plan.request
        (ownRateLimit, stallDetector) = core.policyBox.map(operation.makeRateControl) ?? (nil, nil)
        rules = core.answerRules
        var progress = launch.progress
        progress.upload = ByteProgress(totalBytes: request.body?.byteCount)
        receiving = Locked(Receiving(progress: progress, isAnswered: operation.scheduler.cache != nil))
    }

    // Later data is dropped. `afterwards` is called when the sink has discarded its data, or at once without a sink. If
    // the transport's thread is writing, the sink discards its data after that write. So nothing is written to the file
    // after a cancelled download has reported its outcome.
    func close(_ afterwards: (@Sendable () -> Void)? = nil) {
        let (sink, isBusy) = receiving.withLock { receiving -> ((any BodySink)?, Bool) in
            receiving.phase = .over
            if let afterwards { receiving.afterwards?.append(afterwards) }
            // The sink stays stored, so that the `afterwards` of a second `close` is called after the first discard.
            return (receiving.sink, receiving.afterwards != nil)
        }
        if isRateControlled { stopPacing() }
        if isBusy { return }
        if let sink { sink.discard { afterwards?() } } else { afterwards?() }
    }

    /// False if the request body cannot be sent again, or if the reader has received part of the response body.
    var canBeRepeated: Bool {
        if case .chunks(let buffer) = rules.destination, buffer.hasDelivered { return false }
        return operation.withLock { $0.nextRequest }?.body?.canRepeat != false
    }

    // Whether the task is to be told after its first `resume()`. Otherwise a pause could come before it.
    func adjustsLater() -> Bool {
        setOff.compareExchange(
            expected: .isUnderWay, desired: .adjustsAfterwards, ordering: .acquiringAndReleasing
        ).original != .isOver
    }

    var defaults: RequestDefaults { operation.scheduler.defaults }

    var isAnswered: Bool { receiving.withLock { $0.isAnswered } }

    var progress: TransferProgress { receiving.withLock { $0.progress } }

    var isPaused: Bool { receiving.withLock { $0.sink }?.isPaused ?? false || isThrottled }

    func fail(_ error: RequestError) {
        // Another attempt may follow once a file descriptor is free.
        if error.lacksDescriptors {
            if end(error, taskHasEnded: false) { return }
            // The transport has reported the end. If the sink is already finishing, the sink reports the error to
            // `complete`, and this decision has no effect.
            let received = receiving.withLock { $0.isOver ? nil : $0 }
            if let received { decide(received, error.with(response: received.head), isAnswer: false) }
            return
        }
        let head = receiving.withLock { $0.head }
        close { self.conclude(with: error.with(response: head)) }
    }

    /// Finishes with an error, never on the transport's thread, because finishing notifies observers and cancels a
    /// task.
    func conclude(with error: RequestError, taskHasEnded: Bool = false) {
        operation.onExecutor { self.operation.conclude(error, attempt: self.number, taskHasEnded: taskHasEnded) }
    }
}

extension Attempt {
    func didReceive(_ head: ResponseHead) {
        guard !head.isInformational else { return }
        var head = head
        // These responses have no body, whatever length they declare (RFC 9110, section 6.4.1).
        if rules.method == .head || head.statusCode == 204 || head.statusCode == 304 { head.expectedBytes = nil }
        if !keepsInMemory {
            // The transport may report another head. The body then starts again in a new sink.
            let (begins, old) = receiving.withLock { receiving -> (Bool, (any BodySink)?) in
                guard receiving.accepts else { return (false, nil) }
                receiving.afterwards = []
                defer { receiving.sink = nil }
                return (true, receiving.sink)
            }
            guard begins else { return }
            old?.discard {}
            if !head.hasStoredCookies {
                operation.scheduler.cookies?.store(head.headerFields, from: request.url)
            }
        }
        let (answer, refusal) = judge(head)
        let isPreview = refusal != nil || head.statusCode >= 300 && operation.mayRepeat(after: head, of: request)
        let decodesIt = rules.decodesRefusals && refusal?.code == .unacceptableStatus
        let previewBytes = decodesIt ? rules.memoryLimit(defaults) : Self.previewBytes
        var failure: RequestError?
        var sink: (any BodySink)?
        do throws(RequestError) {
            sink = isPreview ? MemorySink(limit: previewBytes, truncates: true) : try makeSink(for: head, answer)
        } catch {
            failure = error
        }
        let moment = CompactInstant(operation.scheduler.clock.now)
        let isCurrent = leave(sink) { [head] receiving in
            receiving.begin(head, answer)
            receiving.refusal = refusal
            receiving.isPreview = isPreview
            receiving.firstByteMoment = moment
            receiving.bodyLimit = isPreview ? previewBytes : rules.bodyLimit(defaults) ?? .max
        }
        guard isCurrent else { return }
        if let failure { return fail(failure) }
        // A complete response replaces the old partial file. A later attempt may resume the new one.
        if head.statusCode == 200, case .body(0, _)? = answer {
            operation.withLock { if $0.currentAttempt == number { $0.followUp?.history.startsOver = false } }
        }
        operation.emit(.response(head), during: number)
        if stallDetector != nil { watchSpeed() }
    }

    var expectsLargeBody: Bool {
        switch rules.destination {
        case .memory, .nowhere: false
        case .file, .segment, .stream, .chunks: true
        }
    }

    private func judge(_ head: ResponseHead) -> (DownloadAnswer?, RequestError?) {
        var plain = head
        // The library added the range. For the original request the result is the complete file, so it counts as a 200.
        if resumePoint != nil, head.statusCode == 206 { plain.statusCode = 200 }
        // 206 is left only if the library did not add the range.
        let refusal = rules.refusal(of: plain, defaults) ?? (plain.statusCode == 206 ? rangeRefusal(head) : nil)
        guard let download else { return (nil, refusal) }
        let answer = download.judge(
            head, continuing: resumePoint, in: rules.destination.segment,
            asksForRange: request.headerFields.contains("Range"), isRefused: refusal != nil)
        switch answer {
        case .body, .isWhole, .isUnchanged: return (answer, nil)
        case .refused: return (answer, refusal)
        case .mismatch(let reason):
            return (
                answer, refusal ?? RequestError(.badResponse, reason, response: head, underlying: UnexpectedRange())
            )
        }
    }

    /// Responses to several ranges, or to another unit, are not checked (RFC 9110, section 15.3.7).
    private func rangeRefusal(_ head: ResponseHead) -> RequestError? {
        guard let asked = request.headerFields["Range"] else {
            // For a download, `download.judge` reports an error of its own.
            guard download == nil else { return nil }
            return RequestError(.badResponse, "the server answered 206 with a part that was not requested")
        }
        guard let range = ByteRange(asked) else { return nil }
        let fields = head.headerFields.values(of: "Content-Range")
        guard fields.count == 1, let content = ContentRange(fields[0]), range.admits(content) else {
            let sent = fields.isEmpty ? "no Content-Range" : fields.joined(separator: ", ").debugDescription
            return RequestError(.badResponse, "the server answered 206 with \(sent) to the request for \(asked)")
        }
        return nil
    }

    func makeSink(for head: ResponseHead, _ answer: DownloadAnswer?) throws(RequestError) -> any BodySink {
        let total = answer.map(\.totalBytes) ?? head.expectedBytes
        if let limit = rules.bodyLimit(defaults), let total, total > limit {
            throw .tooLarge("the server announced \(total) bytes", limit: limit)
        }
        guard let download, let answer else {
            return try rules.destination.makeSink(
                for: head, limit: rules.memoryLimit(defaults),
                queue: operation.withLock { $0.makeFollowUp().streamQueue }, calls: sinkCalls)
        }
        return DownloadSink(download, rules.destination.segment, answer, head, of: request, calls: sinkCalls)
    }

    var tooLarge: RequestError {
        let limit = rules.memoryLimit(defaults)
        return .tooLarge("the body has more than \(limit) bytes", limit: limit)
    }

    private var sinkCalls: SinkCalls {
        SinkCalls(
            fail: { [weak self] in self?.fail($0) },
            caughtUp: { [weak self] in self?.operation.adjustTask() },
            canPause: operation.pausesInPlace)
    }

    /// The head of a response then changes only the attempt's own state, so that `close` may be called meanwhile.
    private var keepsInMemory: Bool {
        if case .memory = rules.destination { operation.scheduler.cookies == nil } else { false }
    }

    func didReceive(_ data: Data) -> Bool {
        var failure: RequestError?
        var (isTooMuch, isToBeWritten) = (false, false)
        let taken = receiving.withLock { receiving -> (any BodySink)? in
            guard receiving.accepts, let sink = receiving.sink else { return nil }
            let count = receiving.bodyCount + (sink.counts ? Int64(data.count) : 0)
            isTooMuch = count > receiving.bodyLimit
            if isTooMuch, !receiving.isPreview {
                failure = tooLarge
                return sink
            }
            receiving.progress.download.completedBytes = count
            if sink is MemorySink {
                do throws(RequestError) { try sink.write(data) } catch { failure = error }
            } else {
                (receiving.afterwards, isToBeWritten) = ([], true)
            }
            return sink
        }
        guard let sink = taken else { return false }
        if isToBeWritten {
            do throws(RequestError) { try sink.write(data) } catch { failure = error }
            guard leave(sink) else { return false }
        }
        if let failure {
            fail(failure)
            return false
        }
        if sink.counts, operation.hasListeners.load(ordering: .relaxed) { operation.hasMoved(self) }
        let isPaid = !isRateControlled || acquire(data.count)
        if isTooMuch { end(nil, taskHasEnded: false) }
        return !isTooMuch && isPaid && !sink.isPaused
    }

    var maxBodyBytes: Int64? {
        receiving.withLock { receiving in
            guard receiving.bodyLimit < .max else { return nil }
            return receiving.bodyLimit - (receiving.isPreview ? 0 : receiving.answer?.offset ?? 0)
        }
    }

    func didPause() {
        operation.attemptIsPaused(number)
        operation.noteRunning()
        // The reader of the body may have caught up before the pause was recorded.
        if !isPaused { operation.adjustTask() }
    }

    func didCollect(_ metrics: TransferMetrics) {
        let kept = CopyOnWrite(metrics)
        receiving.withLock { $0.metrics = kept }
    }

    /// False if the attempt was closed meanwhile; this method then does the cleanup that `close` has left.
    private func leave(_ sink: (any BodySink)?, with change: (inout Receiving) -> Void = { _ in }) -> Bool {
        let (isOver, afterwards) = receiving.withLock { receiving in
            receiving.sink = receiving.isOver ? nil : sink
            if !receiving.isOver { change(&receiving) }
            defer { receiving.afterwards = nil }
            return (receiving.isOver, receiving.afterwards ?? [])
        }
        guard isOver else { return true }
        // `afterwards` notifies observers and calls back, so it never runs on the transport's thread.
        let rest: @Sendable () -> Void = { [operation] in for work in afterwards { operation.onExecutor(work) } }
        if let sink { sink.discard(rest) } else { rest() }
        return false
    }

    func didSend(totalBytes: Int64) {
        let hasMoved = receiving.withLock { receiving in
            guard receiving.accepts, receiving.progress.upload.completedBytes != totalBytes else { return false }
            receiving.progress.upload.completedBytes = totalBytes
            return true
        }
        if hasMoved, operation.hasListeners.load(ordering: .relaxed) { operation.hasMoved(self) }
    }
}

extension Attempt.Receiving {
    /// The bytes of an earlier attempt count as received if the response continues them.
    fileprivate mutating func begin(_ head: ResponseHead, _ answer: DownloadAnswer?) {
        var total = head.expectedBytes
        switch answer {
        case .body(let offset, let whole):
            progress.resumedBytes = offset
            total = whole ?? total
        case .isWhole(let byteCount): (progress.resumedBytes, total) = (byteCount, byteCount)
        case .isUnchanged, .mismatch, .refused, nil: progress.resumedBytes = 0
        }
        progress.download = ByteProgress(completedBytes: progress.resumedBytes, totalBytes: total)
        (self.head, self.answer) = (head, answer)
    }

    var resumableBytes: Int64 {
        guard case .body(let offset, _)? = answer, bodyCount > offset, let head,
            offset > 0 || Validator(of: head, now: Date()) != nil
        else { return 0 }
        return bodyCount
    }
}

extension DownloadAnswer {
    var offset: Int64 { if case .body(let offset, _) = self { offset } else { 0 } }

    fileprivate var totalBytes: Int64? {
        switch self {
        case .body(_, let totalBytes): totalBytes
        case .isWhole(let byteCount): byteCount
        case .isUnchanged, .mismatch, .refused: nil
        }
    }
}

extension Attempt {
    private var sharedRateLimit: RateLimit { operation.scheduler.rateLimit }

    var isRateControlled: Bool { ownRateLimit != nil || stallDetector != nil || !sharedRateLimit.isUnlimited }

    var rateLimitDefect: RequestError? {
        guard ownRateLimit != nil || sharedRateLimit.bytesPerSecond != nil else { return nil }
        return RequestError(
            .invalidRequest, "nothing was sent: a rate limit needs a transport that can pause; use libcurl")
    }

    var isThrottled: Bool {
        sharedRateLimit.holds(ObjectIdentifier(self)) || ownRateLimit?.holds(ObjectIdentifier(self)) == true
    }

    var maxChunkBytes: Int { min(sharedRateLimit.pieceBytes, ownRateLimit?.pieceBytes ?? .max) }

    func acquire(_ count: Int) -> Bool {
        stallDetector?.add(count)
        // The caller may set a manager's limit while attempts run that cannot be paused. These attempts are not
        // limited.
        guard operation.pausesInPlace, !isAnswered else { return true }
        let payer = ObjectIdentifier(self)
        let wake: @Sendable () -> Void = { [weak self] in self?.operation.adjustTask() }
        let isWithinShared = sharedRateLimit.charge(count, to: payer, wake: wake)
        let isWithinOwn = ownRateLimit?.charge(count, to: payer, wake: wake) ?? true
        if isWithinShared && isWithinOwn { return true }
        // Another thread may have ended the attempt before this payer was added. So the payer is removed here.
        if !receiving.withLock({ $0.accepts }) { leaveLimits() }
        return false
    }

    private func leaveLimits() {
        sharedRateLimit.leave(ObjectIdentifier(self))
        ownRateLimit?.leave(ObjectIdentifier(self))
    }

    func watchSpeed() {
        guard let watch = stallDetector else { return }
        watch.begin { [weak self] error in self?.end(error, taskHasEnded: false) }
        operation.noteRunning()
    }

    func stopPacing() {
        leaveLimits()
        stallDetector?.stop()
    }
}

extension AnyRequestOperation {
    func makeRateControl(_ box: RequestCore.PolicyBox) -> (RateLimit?, StallDetector?) {
        let policies = box.policies
        let detector = policies.minimumSpeed.map { StallDetector($0, clock: scheduler.clock) }
        guard let rate = policies.maxBytesPerSecond, policies.sharedRateLimit == nil else {
            return (policies.sharedRateLimit, detector)
        }
        let fresh = RateLimit(rate, clock: scheduler.clock)
        let own = withLock { state in
            let followUp = state.makeFollowUp()
            followUp.rateLimit = followUp.rateLimit ?? fresh
            return followUp.rateLimit
        }
        return (own, detector)
    }

    /// Called after each change; the stall detector ignores a report that is older than the last one.
    func noteRunning() {
        let (transfer, isPaused) = withLock { ($0.transfer, $0.taskPhase == .paused) }
        guard let transfer, let watch = transfer.attempt.stallDetector else { return }
        watch.note(isRunning: !isPaused, change: transfer.runningChanges)
    }
}

extension Attempt {
    func didFinish(_ error: RequestError?) { end(error, taskHasEnded: true) }

    /// Ends the attempt; false if it has ended or was closed before.
    @discardableResult
    func end(_ error: RequestError?, taskHasEnded: Bool) -> Bool {
        let isPlain = error == nil && !operation.asksInterceptors
        let ended = receiving.withLock { receiving -> Receiving? in
            guard receiving.accepts else { return nil }
            receiving.phase = .ended(taskHasEnded: taskHasEnded)
            let received = receiving
            // The operation takes the body from the sink. So closing the attempt must not discard it.
            if isPlain, received.whole != nil { receiving.sink = nil }
            return received
        }
        guard let received = ended else { return false }
        if isRateControlled { stopPacing() }
        if isPlain, let (sink, head) = received.whole {
            sample(received, statusCode: head.statusCode)
            operation.attempt(
                number, hasReceived: sink.body, head, to: request, received, decodesAtOnce: rules.decodesAtOnce)
        } else {
            end(with: received, error)
        }
        return true
    }

    private func end(with received: Receiving, _ error: RequestError?) {
        guard error == nil, let head = received.head, let sink = received.sink else {
            var error = error ?? RequestError(.badResponse, "the transfer ended without a response")
            if error.code == .invalidRequest { error = error.blamed(on: operation.lastRecord, for: request) }
            return decide(received, error.with(response: received.head), isAnswer: false)
        }
        if received.isPreview {
            guard let refusal = received.refusal else { return decide(received, nil, isAnswer: true) }
            sink.finish { result in
                let isCut = self.rules.decodesRefusals && received.bodyCount > received.bodyLimit
                let cut: RequestError? = isCut ? .tooLarge("its body is larger", limit: received.bodyLimit) : nil
                let error = RequestError(
                    refusal.code, refusal.message, response: head, body: try? result.get().data,
                    underlying: cut ?? refusal.underlying, isRetryable: refusal.isRetryable)
                self.decide(received, error, isAnswer: true)
            }
        } else {
            sink.verify { problem in
                if let problem {
                    self.decide(received, problem, isAnswer: false)
                } else if self.operation.asksInterceptors {
                    self.decide(received, nil, isAnswer: true)
                } else {
                    self.sample(received, statusCode: head.statusCode)
                    self.complete(sink, head, received)
                }
            }
        }
    }

    /// Decides what follows the attempt, on the operation's serial executor.
    func decide(_ received: Receiving, _ error: RequestError?, isAnswer: Bool) {
        sample(received, statusCode: isAnswer ? received.head?.statusCode : nil, isAnswer ? nil : error)
        // One lost connection says nothing about the range. Another one, in a retry, may be the answer to the range.
        let last = operation.lastRecord
        let isLostAgain =
            received.head == nil && error?.code == .connectionLost
            && last?.failure == .connectionLost && last?.response == nil
        // If the head or the digest does not match the partial file, the next attempt may request the complete file.
        let isMisfit = received.answer?.isMismatch == true || error?.code == .integrityFailed || isLostAgain
        let ending = AttemptEnding(
            attempt: self, head: received.head, error: error?.with(operation.request?.summary),
            metrics: received.metrics, ended: operation.scheduler.clock.now, isAnswer: isAnswer,
            taskHasEnded: received.taskHasEnded,
            canStartOver: resumePoint != nil && rules.destination.segment == nil && isMisfit,
            resumableBytes: received.resumableBytes)
        operation.onExecutor { self.operation.attemptEnded(ending) }
    }

    /// If no response has arrived when the deadline passes, the limits of the host count a failure.
    func recordMissingResponse() {
        let received = receiving.withLock { $0 }
        guard received.accepts, received.head == nil else { return }
        sample(received, statusCode: nil, RequestError(.deadlineExceeded, "no response in time"))
    }

    private func sample(_ received: Receiving, statusCode: Int?, _ failure: RequestError? = nil) {
        // A lack of descriptors in this process says nothing about the host.
        guard operation.scheduler.samplesHosts, !isAnswered, failure?.lacksDescriptors != true else { return }
        let answered = received.firstByteMoment?.instant ?? operation.scheduler.clock.now
        let latency = started.instant.duration(to: answered)
        operation.scheduler.record(
            HostSample(latency: latency, statusCode: statusCode, failure: failure?.code), of: operation)
    }

    func acceptResponse() {
        let received = receiving.withLock { $0.isOver ? nil : $0 }
        guard let received, let head = received.head, let sink = received.sink else { return }
        guard received.isPreview else { return complete(sink, head, received) }
        sink.finish { self.moveToDestination($0, head, received) }
    }

    /// Until no other attempt may follow, the attempt keeps the body in memory.
    private func moveToDestination(
        _ kept: Result<ReceivedBody, RequestError>, _ head: ResponseHead, _ received: Receiving
    ) {
        do throws(RequestError) {
            let body = try kept.get().data
            guard received.bodyCount <= Self.previewBytes else {
                throw RequestError(
                    .bodyTooLarge,
                    "only \(Self.previewBytes) bytes are kept of a response that asks for another request"
                )
            }
            guard Int64(body.count) + (received.answer?.offset ?? 0) <= rules.bodyLimit(defaults) ?? .max else {
                throw tooLarge
            }
            let sink = try makeSink(for: head, received.answer)
            let isOver = receiving.withLock { receiving in
                receiving.sink = sink
                return receiving.isOver
            }
            guard !isOver else { return sink.discard {} }
            try sink.write(body)
            sink.verify { problem in
                guard let problem else { return self.complete(sink, head, received) }
                self.conclude(with: problem.with(response: head), taskHasEnded: received.taskHasEnded)
            }
        } catch {
            conclude(with: error.with(response: head), taskHasEnded: received.taskHasEnded)
        }
    }

    private func complete(_ sink: any BodySink, _ head: ResponseHead, _ received: Receiving) {
        // From now on, closing the attempt must not discard the file that is being moved.
        let isOurs = receiving.withLock { receiving in
            defer { if !receiving.isOver { receiving.sink = nil } }
            return !receiving.isOver
        }
        guard isOurs else { return }
        // A download to a file cannot be cancelled from here on. Otherwise a download could report a cancellation
        // although its file exists.
        let commits = rules.destination.isFile
        let completion = operation.attempt(
            number, hasWholeBodyOf: head, to: request, received.metrics, received, commits: commits)
        guard let completion else { return sink.discard {} }
        // A small file that waits for the disk needs no slot.
        let byteCount = completion.exchange.transfer.download.completedBytes
        if download != nil, byteCount <= Download.smallBytes, !DiskSync.isCrowded {
            operation.schedule { $0.queues.release(operation) }
        }
        sink.finish { result in
            switch result {
            case .failure(let error): self.conclude(with: error.with(response: head), taskHasEnded: true)
            case .success(let body):
                self.operation.complete(completion, with: body, decodesAtOnce: self.rules.decodesAtOnce)
            }
        }
    }
}
