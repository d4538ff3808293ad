// The end of an attempt: straight to its outcome, or to what may ask for another attempt.
import Foundation

extension Attempt {
    func didFinish(_ error: RequestError?) { end(error, taskHasEnded: true) }

    /// The attempt has come to its end, or enough has been seen of an answer that is only looked at.
    func end(_ error: RequestError?, taskHasEnded: Bool) {
        let isPlain = operation.traits.isPlain
        let received = receiving.withLock { receiving -> Receiving? in
            guard receiving.accepts else { return nil }
            receiving.hasEnded = true
            receiving.taskHasEnded = taskHasEnded
            defer {
                // Nothing else may want it: from here on it is the output's.
                if isPlain, error == nil, receiving.memory != nil, case .inDestination = receiving.keeping {
                    (receiving.sink, receiving.memory) = (nil, nil)
                }
            }
            return receiving
        }
        guard let received else { return }
        stopPacing()
        guard error == nil, let head = received.head, let sink = received.sink else {
            var error = error ?? RequestError(.badResponse, "the transfer ended without a response")
            if error.code == .invalidRequest { error = error.blamed(on: operation.lastRecord, for: request) }
            return decide(received, error.with(response: received.head), isAnswer: false)
        }
        switch received.keeping {
        case .inDestination where isPlain && received.memory != nil:
            learn(statusCode: head.statusCode, nil)
            handOver(sink, head, received.metrics)
        case .inDestination:
            sink.verify { problem in
                if let problem {
                    self.decide(received.starting(over: self.resumePoint, problem), problem, isAnswer: false)
                } else if self.operation.asksInterceptors {
                    self.decide(received, nil, isAnswer: true)
                } else {
                    // The plain case: no policy and no interceptor is asked.
                    self.learn(statusCode: head.statusCode, nil)
                    self.complete(sink, head, received.metrics)
                }
            }
        case .aside:
            guard let refusal = received.refusal else { return decide(received, nil, isAnswer: true) }
            sink.finish { result in
                let isCut = self.core.decodesRefusals && received.asideCount > received.asideLimit
                let cut: RequestError? = isCut ? .tooLarge("its body is larger", limit: received.asideLimit) : nil
                let error = RequestError(
                    refusal.code, refusal.message, response: head, body: try? result.get().data,
                    underlying: cut ?? refusal.underlying,
                    isRetryable: refusal.isRetryable)
                self.decide(received, error, isAnswer: true)
            }
        }
    }

    /// On the operation's lane: what follows may be user code, notifies and makes tasks.
    private func decide(_ received: Receiving, _ error: RequestError?, isAnswer: Bool) {
        learn(statusCode: isAnswer ? received.head?.statusCode : nil, isAnswer ? nil : error)
        let ending = AttemptEnding(
            request: request, head: received.head, error: error?.with(operation.request?.summary),
            metrics: received.metrics, started: started, ended: operation.context.clock.now, isAnswer: isAnswer,
            taskHasEnded: received.taskHasEnded, canStartOver: received.canStartOver)
        operation.onLane { self.operation.attempt(self, didEnd: ending) }
    }

    /// The operation's deadline ends it: a host that has not answered by then is one that does not.
    func learnThatNothingCame() {
        guard receiving.withLock({ $0.accepts && $0.head == nil }) else { return }
        learn(statusCode: nil, RequestError(.deadlineExceeded, "no answer in time"))
    }

    private func learn(statusCode: Int?, _ failure: RequestError?) {
        // A shortage of our own says nothing about the host.
        guard operation.context.samplesHosts, failure?.lacksDescriptors != true,
            let scheduler = operation.state.withLock({ $0.scheduler })
        else { return }
        scheduler.learn(from: operation, started: started, statusCode: statusCode, failure: failure)
    }

    /// It was decided that an acceptable answer is the answer.
    func giveAnswer() {
        let received = receiving.withLock { $0.isOver ? nil : $0 }
        guard let received, let head = received.head, let sink = received.sink else { return }
        switch received.keeping {
        case .inDestination: complete(sink, head, received.metrics)
        case .aside: sink.finish { self.moveToDestination($0, head, received) }
        }
    }

    /// The body that was kept aside, because another attempt might have followed, is wanted after all.
    private func moveToDestination(
        _ kept: Result<ReceivedBody, RequestError>, _ head: ResponseHead, _ received: Receiving
    ) {
        do throws(RequestError) {
            let body = try kept.get().data
            guard received.asideCount <= Self.asideBytes else {
                throw RequestError(
                    .bodyTooLarge, "only \(Self.asideBytes) bytes are kept of an answer that asks for another request")
            }
            guard Int64(body.count) + (received.answer?.offset ?? 0) <= core.bodyLimit ?? .max else { throw tooLarge }
            let sink = try makeLimitedSink(for: head, received.answer)
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

    /// The body is complete, and wanted where it is.
    private func complete(_ sink: any BodySink, _ head: ResponseHead, _ metrics: TransferMetrics?) {
        // Who closes the attempt from now on must not discard what is being put in its place.
        let isOurs = receiving.withLock { receiving in
            defer { if !receiving.isOver { receiving.sink = nil } }
            return !receiving.isOver
        }
        if isOurs { handOver(sink, head, metrics) }
    }

    /// The body goes to the operation, and belongs to the attempt no more.
    private func handOver(_ sink: any BodySink, _ head: ResponseHead, _ metrics: TransferMetrics?) {
        // One that goes to a file cannot be cancelled any more: no download is told to be cancelled whose file is
        // there.
        guard let completion = operation.attempt(number, hasWholeBodyCommitting: core.destination.isFile) else {
            return sink.discard {}
        }
        // A small file that waits for the disk with others needs no place in the network.
        if download != nil, operation.progress.receivedBytes <= Download.smallBytes, !DiskSync.isCrowded {
            operation.state.withLock { $0.scheduler }?.yieldSlot(operation)
        }
        sink.finish { result in
            switch result {
            case .failure(let error): self.conclude(with: error.with(response: head), taskHasEnded: true)
            case .success(let body):
                let answer = CompleteAnswer(body: body, head: head, request: self.request, metrics: metrics)
                // This may be the transport's thread: user code, if there is any, runs on the operation's lane.
                if self.core.decodesAtOnce, self.operation.finishesWithoutUserCode(completion) {
                    self.operation.attempt(self.number, didComplete: answer, completion)
                } else {
                    self.operation.onLane { self.operation.attempt(self.number, didComplete: answer, completion) }
                }
            }
        }
    }
}

extension Attempt.Receiving {
    /// What was put together of old bytes and new ones is not the file: the whole may be.
    fileprivate func starting(over point: ResumePoint?, _ problem: RequestError) -> Self {
        var copy = self
        copy.canStartOver = point != nil && problem.code == .integrityFailed
        return copy
    }
}
