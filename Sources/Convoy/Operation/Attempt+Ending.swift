// The end of an attempt: it produces an outcome, or a decision about another attempt.
import Foundation

extension Attempt {
    func didFinish(_ error: RequestError?) { end(error, taskHasEnded: true) }

    /// Ends the attempt; false if it has ended or was closed before.
    @discardableResult
    func end(_ error: RequestError?, taskHasEnded: Bool) -> Bool {
        let isPlain = error == nil && !operation.asksInterceptors
        var isOver = false
        let whole = receiving.withLock { receiving -> (MemorySink, ResponseHead, CopyOnWrite<TransferMetrics>?)? in
            guard receiving.accepts else {
                isOver = true
                return nil
            }
            (receiving.hasEnded, receiving.taskHasEnded) = (true, taskHasEnded)
            // The operation takes the body from the sink. So closing the attempt must not discard it.
            if isPlain, !receiving.isPreview, let head = receiving.head, let sink = receiving.sink as? MemorySink {
                receiving.sink = nil
                return (sink, head, receiving.metrics)
            }
            return nil
        }
        if isOver { return false }
        if isRateControlled { stopPacing() }
        if let (sink, head, metrics) = whole {
            if operation.context.samplesHosts { sample(statusCode: head.statusCode, nil) }
            if let completion = operation.attempt(number, hasWholeBodyOf: head, to: request, metrics) {
                operation.complete(completion, with: sink.body, decodesAtOnce: rules.decodesAtOnce)
            }
        } else {
            end(with: receiving.withLock { $0 }, error)
        }
        return true
    }

    /// Ends an attempt that `end(_:taskHasEnded:)` could not complete at once: judges what was received.
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
                    if self.operation.context.samplesHosts { self.sample(statusCode: head.statusCode, nil) }
                    self.complete(sink, head, received.metrics)
                }
            }
        }
    }

    /// Decides what follows the attempt, on the operation's serial executor.
    func decide(
        _ received: Receiving, _ error: RequestError?, isAnswer: Bool, lacksNetwork: Bool? = nil
    ) {
        if lacksNetwork == nil, error?.isUnconnected == true {
            let decide = { @Sendable (isConnected: Bool) in
                self.decide(received, error, isAnswer: isAnswer, lacksNetwork: !isConnected)
            }
            let scheduler = operation.state.withLock { $0.scheduler }
            if scheduler?.lookForNetwork(to: request.hostKey, decide) == true { return }
        }
        let isOffline = lacksNetwork == true
        // Without a network, the failure says nothing about its host.
        if !isOffline { sample(statusCode: isAnswer ? received.head?.statusCode : nil, isAnswer ? nil : error) }
        // One lost connection says nothing about the range. Another one, in a retry, may be the answer to the range.
        let retryCount = operation.state.withLock { $0.followUp?.retryCount ?? 0 }
        let isLostAgain =
            received.head == nil && error?.code == .connectionLost && retryCount > 0 && download is Download
        // If the head or the digest does not match the partial file, the next attempt may request the complete file.
        let isMisfit = received.answer?.canStartOver == true || error?.code == .integrityFailed || isLostAgain
        let ending = AttemptEnding(
            attempt: self, head: received.head, error: error?.with(operation.request?.summary),
            metrics: received.metrics, ended: operation.context.clock.now, isAnswer: isAnswer,
            taskHasEnded: received.taskHasEnded, canStartOver: resumePoint != nil && isMisfit,
            resumableBytes: received.resumableBytes, lacksNetwork: isOffline)
        operation.onExecutor { self.operation.attemptEnded(ending) }
    }

    /// Called when the deadline passes.
    ///
    /// If no response has arrived, the limits of the host count a failure.
    func learnThatNothingCame() {
        guard receiving.withLock({ $0.accepts && $0.head == nil }) else { return }
        sample(statusCode: nil, RequestError(.deadlineExceeded, "no response in time"))
    }

    private func sample(statusCode: Int?, _ failure: RequestError?) {
        // The descriptor limit of this process says nothing about the host.
        guard !isAnswered, failure?.lacksDescriptors != true,
            let scheduler = operation.state.withLock({ $0.scheduler })
        else { return }
        scheduler.sample(from: operation, started: started.instant, statusCode: statusCode, failure: failure)
    }

    /// Delivers an acceptable response, after the decision that it is the outcome.
    func giveAnswer() {
        let received = receiving.withLock { $0.isOver ? nil : $0 }
        guard let received, let head = received.head, let sink = received.sink else { return }
        guard received.isPreview else { return complete(sink, head, received.metrics) }
        sink.finish { self.moveToDestination($0, head, received) }
    }

    /// Writes a body to its destination, after the decision that no other attempt follows.
    ///
    /// Until that decision, the attempt has kept the body in memory.
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
                guard let problem else { return self.complete(sink, head, received.metrics) }
                self.conclude(with: problem.with(response: head), taskHasEnded: received.taskHasEnded)
            }
        } catch {
            conclude(with: error.with(response: head), taskHasEnded: received.taskHasEnded)
        }
    }

    /// Passes a complete body to the operation, unless the attempt is over.
    private func complete(_ sink: any BodySink, _ head: ResponseHead, _ metrics: CopyOnWrite<TransferMetrics>?) {
        // From now on, closing the attempt must not discard the file that is being moved.
        let isOurs = receiving.withLock { receiving in
            defer { if !receiving.isOver { receiving.sink = nil } }
            return !receiving.isOver
        }
        guard isOurs else { return }
        // A download to a file cannot be cancelled from here on. Otherwise a download could report a cancellation
        // although its file exists.
        let commits = rules.destination.isFile
        guard let completion = operation.attempt(number, hasWholeBodyOf: head, to: request, metrics, commits: commits)
        else { return sink.discard {} }
        // A small file that waits for the disk needs no slot.
        let byteCount = completion.exchange.transfer.download.completedBytes
        if download != nil, byteCount <= Download.smallBytes, !DiskSync.isCrowded {
            let scheduler = operation.state.withLock { $0.scheduler }
            scheduler?.yieldSlot(operation, isUnsent: false)
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
