// What arrives for an attempt: the head, the body, and where that goes.
import Foundation

extension Attempt {
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
            return try core.destination.makeSink(
                for: head, limit: core.maximumBodyBytes, calls: sinkCalls)
        }
        return DownloadSink(download, answer, head, of: request, calls: sinkCalls)
    }

    var sinkCalls: SinkCalls {
        SinkCalls(
            fail: { [weak self] in self?.fail($0) },
            caughtUp: { [weak self] in self?.operation.adjustTask() },
            canHold: operation.context.transport.pausesInPlace,
            queue: { [operation] in operation.state.withLock { $0.makeFollowUp().streamQueue } })
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
        // The reader of the body may have caught up before that was noted.
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
}
