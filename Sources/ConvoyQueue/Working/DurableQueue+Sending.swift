// One attempt of a job, and its result.
import Convoy
import Dispatch
import Foundation

extension DurableQueue {
    /// Sends a claimed job, or passes its waiting result to its handler.
    func send(_ claimed: ClaimedJob) {
        let (isWorking, isFirst, isUnwatched, earlier) = state.withLock { state in
            // If another queue ended the lease of this queue, for example while this process was stopped, an earlier
            // request for the job may still run. It is cancelled below.
            let earlier = state.inFlight[claimed.job.id]?.sending
            state.inFlight[claimed.job.id] = DurableQueueState.InFlight(
                claim: claimed.claim, host: claimed.job.request.host)
            return (state.phase == .working, state.heartbeat == nil, state.silenceTimer == nil, earlier)
        }
        earlier?.operation.cancel()
        guard isWorking else { return end(claimed, .release, attempt: nil) }
        if isFirst { setHeartbeat() }
        if isUnwatched { setSilenceTimer() }
        if claimed.lapseCount > 0, claimed.result == nil, let file = claimed.job.request.destination,
            PartName(file.lastPathComponent).noteGrowth(in: file.deletingLastPathComponent().path)
        {
            // The lost process has received bytes, so its loss does not count. This verdict resets the number of lapses.
            // The job is then claimed again.
            return end(claimed, .retry(after: .zero), attempt: nil, isReported: false)
        }
        if claimed.lapseCount >= max(1, configuration.maxLapses) {
            return end(
                claimed,
                .dead(
                    "\(JobLife.lapses(claimed.lapseCount)): check whether the job or its handler crashes it, and then "
                        + "retry the job"), attempt: nil)
        }
        if let result = claimed.result { return handle(result, of: claimed, attempt: nil) }
        let job = claimed.job
        // The queue retries instead of the manager, because the store saves the wait before a retry. A wait in the
        // manager would not survive a crash.
        var request = job.request.sendable(body: job.request.body)
            .header("Idempotency-Key", job.idempotencyKey).retries(.never).priority(job.priority).named("job \(job.id)")
        if claimed.attemptCount > 0 { request = request.countingAttempts(from: claimed.attemptCount) }
        if let redirects = redirects(of: job) { request = request.redirects(redirects) }
        if let destination = job.request.destination {
            start(manager.internalOperation(request.saved(to: destination)), claimed) { _ in Data() }
        } else if configuration.ignoresBodies {
            start(manager.internalOperation(request.ignoringBody()), claimed) { _ in Data() }
        } else {
            start(manager.internalOperation(request), claimed) { $0 }
        }
    }

    private func start<Output>(
        _ operation: RequestOperation<Output>, _ claimed: ClaimedJob, _ body: @escaping @Sendable (Output) -> Data
    ) {
        let clock = manager.configuration.clock
        let (date, begin) = (clock.date, clock.now)
        operation.onFinish(on: .inPlace) { [weak self] result in
            var attempt = JobAttempt(started: date)
            attempt.milliseconds = Int64(clamping: begin.duration(to: clock.now))
            switch result {
            case .success(let response):
                attempt.statusCode = response.statusCode
                self?.state.withLock { $0.noteAnswer(of: claimed.job.request.host, at: clock.now) }
                let result = JobResult(
                    statusCode: response.statusCode, headerFields: response.headerFields, body: body(response.value))
                self?.handle(result, of: claimed, attempt: attempt)
            case .failure(let error):
                attempt.statusCode = error.response?.statusCode
                if error.response != nil {
                    self?.state.withLock { $0.noteAnswer(of: claimed.job.request.host, at: clock.now) }
                }
                attempt.failure = error.code.rawValue
                attempt.message = error.message
                self?.handle(error, of: claimed, attempt: attempt)
            }
        }
        let sending = DurableQueueState.Sending(operation: operation) { _ = try? await operation.response() }
        state.withLock { state in
            if state.inFlight[claimed.job.id]?.claim == claimed.claim {
                state.inFlight[claimed.job.id]?.sending = sending
            }
        }
        manager.enqueue(operation)
    }

    private func handle(_ error: RequestError, of claimed: ClaimedJob, attempt: JobAttempt) {
        // After the manager's shutdown nothing can be sent, so callers of `drain` no longer wait. A cancelled request
        // has no result, so its job is released.
        if error.code == .managerShutDown {
            let drainers = state.withLock { state in
                state.isManagerShutDown = true
                return state.takeDrainers()
            }
            for drainer in drainers { drainer.resume() }
        }
        if error.code == .cancelled || error.code == .managerShutDown {
            return end(claimed, .release, attempt: nil)
        }
        // Another download is writing the same file, so nothing was sent. The job is retried without limit, until the
        // file is free or the job expires.
        if error.code == .destinationInUse {
            return end(claimed, .retry(after: heartbeatInterval), attempt: attempt, isCounted: false)
        }
        let (number, policy) = (claimed.attemptCount + 1, configuration.retries)
        if isTransient(error) {
            guard number <= policy.maxRetries else {
                var result = failure(of: claimed, error)
                result.failure = "given up after \(number) attempts: \(error.message)"
                return handle(result, of: claimed, attempt: attempt)
            }
            let date = manager.configuration.clock.date
            let asked = error.response.flatMap { policy.retryAfter(in: $0, now: date) }
            let wait = asked ?? policy.delay(beforeRetry: number, unit: manager.configuration.jitter())
            return end(claimed, .retry(after: wait), attempt: attempt)
        }
        handle(failure(of: claimed, error), of: claimed, attempt: attempt)
    }

    private func failure(of claimed: ClaimedJob, _ error: RequestError) -> JobResult {
        JobResult(
            statusCode: error.response?.statusCode, headerFields: error.response?.headerFields ?? [:],
            body: error.body ?? Data(), isBodyCut: error.body?.count ?? 0 >= 65_536,
            failure: JobRedirects.failure(error, of: claimed.job) ?? error.message)
    }

    /// Whether a later attempt may succeed, for example after the network, the server or a full disk was repaired.
    private func isTransient(_ error: RequestError) -> Bool {
        if error.code == .unacceptableStatus {
            return error.response.map { configuration.retries.statusCodes.contains($0.statusCode) } ?? false
        }
        return error.isRetryable || error.code.facts.contains(.mendable)
            || configuration.retries.errorCodes.contains(error.code)
    }

    /// Passes the result to its handler.
    ///
    /// Without a handler, a success waits in the store, and a failure becomes a dead letter.
    private func handle(_ result: JobResult, of claimed: ClaimedJob, attempt: JobAttempt?) {
        let handler = state.withLock { state in
            if state.inFlight[claimed.job.id]?.claim == claimed.claim { state.inFlight[claimed.job.id]?.sending = nil }
            return state.handler(of: claimed.job.kind)
        }
        guard let handler else {
            if let failure = result.failure { return end(claimed, .dead(failure), attempt: attempt) }
            var kept = result
            kept.isBodyCut = result.isBodyCut || result.body.count > configuration.maxWaitingResultBytes
            // The store saves no secrets, such as cookies that a response sets.
            let fields = result.headerFields.filter { !$0.isSecret }
            kept.headerFields = HeaderFields(fields.map { ($0.name, $0.value) })
            kept.body = result.body.prefix(configuration.maxWaitingResultBytes)
            return end(claimed, .answered(kept), attempt: attempt)
        }
        var told = result
        told.attemptCount = claimed.attemptCount + (attempt == nil ? 0 : 1)
        told.isGivenUp = told.attemptCount > configuration.retries.maxRetries || told.isExpired
        Task { [told] in
            switch await handler(claimed.job, told) {
            case .done: end(claimed, .done, attempt: attempt)
            case .retry where told.isGivenUp:
                let reason =
                    told.failure ?? "given up after \(told.attemptCount) attempts: its handler asked for another"
                end(claimed, .dead(reason), attempt: attempt)
            case .retry(let delay): end(claimed, .retry(after: max(.zero, delay)), attempt: attempt)
            case .fail(let reason): end(claimed, .dead(reason), attempt: attempt)
            }
        }
    }

    /// Removes a claimed job from the running jobs, and records its verdict for the next exchange.
    ///
    /// - Parameters:
    ///   - isCounted: whether the store records and counts the attempt; otherwise only ``Configuration/onOutcome``
    ///     receives the attempt.
    ///   - isReported: whether ``Configuration/onOutcome`` receives the verdict; it never receives a release.
    private func end(
        _ claimed: ClaimedJob, _ verdict: JobVerdict, attempt: JobAttempt?, isCounted: Bool = true,
        isReported: Bool = true
    ) {
        let settlement = Settlement(claimed.claim, verdict, attempt: isCounted ? attempt : nil)
        let limit = configuration.maxClaimedJobCount
        let isReported = isReported && verdict != .release && configuration.onOutcome != nil
        let (telling, finishers) = state.withLock { state in
            let telling = state.end(settlement, limit: limit)
            if telling != .never, isReported { state.unreported[claimed.claim] = (claimed.job, attempt) }
            return (telling, state.takeFinishers())
        }
        defer { for finisher in finishers { finisher.resume() } }
        switch telling {
        case .now: wakeUp.yield()
        case .soon:
            // Outcomes of the next 4 ms are written in the same commit. The delay uses the system's clock instead of
            // the manager's clock, because no rule of the queue depends on the delay.
            DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(4)) { [weak self] in
                guard let self, state.withLock({ $0.settle(from: claimed.claim) }) else { return }
                wakeUp.yield()
            }
        case .never, .withOthers: break
        }
    }
}
