// Executing: from start() to a complete body.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

extension AnyRequestOperation {
    /// The task that moves the bytes; nil unless an attempt is under way.
    ///
    /// It belongs to the operation: look, and use ``cancel()``, ``suspend()`` and ``resume()`` of the operation instead
    /// of the task's own.
    public var task: URLSessionTask? {
        let (made, task) = state.withLock { ($0.transfer?.sessionTask, $0.transfer?.task) }
        guard made == nil, let fresh = task?.makeSessionTask() else { return made }
        return state.withLock { state in
            guard let transfer = state.transfer, transfer.task === task else { return fresh }
            let sessionTask = transfer.sessionTask ?? fresh
            state.transfer?.sessionTask = sessionTask
            return sessionTask
        }
    }

    /// Begins the first attempt; without a slot it waits for one, as another attempt would.
    func begin(_ attempt: Int, _ beginning: OperationState.Beginning) {
        if options.mayHaveDeadline { armDeadline() }
        // It may have waited for long since the cache was asked.
        let hasAnswer = beginning.hasSharedAnswer || beginning.cacheExchange?.stillAnswers == true
        if hasAnswer {
            beginning.scheduler?.beginsWithAnswer(self)
        } else if let scheduler = beginning.scheduler, let queueEntry = beginning.queueEntry,
            !scheduler.begins(queueEntry, beginning.suspension)
        {
            if state.withLock({ $0.awaitsFirstSlot(attempt) }) { scheduler.requeue(self) }
            return
        }
        if asksInterceptors {
            onExecutor { self.launch(attempt) }
        } else if hasAnswer {
            launch(attempt)
        } else {
            send(attempt)
        }
    }

    /// Builds the request where that is still to be done, and checks it; nil when it has an outcome, that this failed for
    /// example.
    ///
    /// User code may run here: call it on a serial executor unless the plan has its request already.
    func prepare() -> OperationState.Readiness? {
        let (given, readiness) = state.withLock { ($0.requestPlan, $0.readiness) }
        guard var requestPlan = given, readiness == nil else { return readiness }
        do throws(RequestError) {
            if let build = requestPlan.build {
                do { requestPlan = try build() } catch let error as RequestError { throw error } catch {
                    throw RequestError(.invalidRequest, "its request could not be built: \(error)", underlying: error)
                }
            }
            guard let core = requestPlan.core else { return nil }
            let prepared = try core.prepared(context.defaults)
            if options.isLink { takePolicies(of: core) }
            let (replaced, readiness) = state.withLock { state -> (RequestPlan?, OperationState.Readiness?) in
                guard let replaced = state.requestPlan else { return (nil, nil) }
                (state.requestPlan, state.prepared) = (requestPlan, prepared)
                state.progress.upload.totalBytes = prepared.body?.byteCount
                return (replaced, state.readiness)
            }
            // The builder and what it captured go outside the lock.
            return withExtendedLifetime(replaced) { readiness }
        } catch {
            conclude(AnyOutcome(error: error.with(requestPlan.core?.summary ?? name.map { RequestSummary(text: $0) })))
            return nil
        }
    }

    /// Takes over what the request of a link asks of its operation; what was set at the operation itself stays.
    private func takePolicies(of core: RequestCore) {
        let policies = core.policyBox?.policies
        armDeadline(of: policies)
        if let quality = policies?.qualityOfService { qualityOfService = quality }
        if name == nil, let given = core.name { name = given }
        let isChanged = state.withLock { $0.priority.version > 1 }
        if !isChanged, core.priority != queuePriority { queuePriority = core.priority }
    }

    /// Begins an attempt, unless the operation is suspended or has ended meanwhile.
    ///
    /// - Thread: the operation's serial executor when there are interceptors; the one that resumes an operation that was suspended.
    func launch(_ number: Int) {
        let given: (plan: RequestPlan, adapted: PreparedRequest?, sharedAnswer: SharedAnswer?)? = state.withLock {
            state in
            guard state.launches(number, options, isClaim: false), let plan = state.requestPlan else { return nil }
            return (plan, state.followUp?.adapted, state.followUp?.sharedAnswer)
        }
        guard let given else { return leaveSlot() }
        if let sharedAnswer = given.sharedAnswer { return takeSharedAnswer(sharedAnswer, attempt: number) }
        guard asksInterceptors else { return send(number) }
        if let adapted = given.adapted, isCurrent(adapted, interceptors(given.plan.request.policyBox)) {
            send(number)
        } else {
            adapt(number, given.plan.request.policyBox)
        }
    }

    /// Claims the launch of an attempt: what it sends is completed, and goes.
    private func send(_ number: Int) {
        let now = context.clock.now
        let given: (PreparedRequest, RequestPlan, (any DownloadTarget)?, asksForWhole: Bool)? = state.withLock {
            state in
            guard let plan = state.requestPlan, let request = state.followUp?.adapted ?? state.nextRequest,
                state.launches(number, options, isClaim: true)
            else { return nil }
            state.timings.attemptStartedMoment = CompactInstant(now)
            state.followUp?.adapted = nil
            guard plan.request.destination.isFile else { return (request, plan, nil, false) }
            let followUp = state.makeFollowUp()
            followUp.download = followUp.download ?? plan.request.destination.makeDownload()
            return (request, plan, followUp.download, followUp.startsOver)
        }
        guard let (asked, plan, download, asksForWhole) = given else { return leaveSlot() }
        var request = asked
        if let cookies = context.cookies, !request.headerFields.contains("Cookie") {
            request.headerFields["Cookie"] = cookies.cookieField(for: request.url)
        }
        guard let download else { return transmit(request, number, plan, at: now) }
        // On its own queue from here: opening and reading files may take its time.
        download.begin(request, asksForWhole: asksForWhole) { [request] beginning in
            switch beginning {
            case .success(.send(let request, let point)):
                let transmit: @Sendable () -> Void = {
                    self.transmit(request, number, plan, at: self.context.clock.now, into: download, continuing: point)
                }
                // A loader that makes tasks on its own queue may be waiting there for the file: an attempt before this one
                // may still be writing.
                if self.context.transport.isReentrant, self.options.pausesInPlace {
                    transmit()
                } else {
                    self.context.taskControl.async(execute: transmit)
                }
            case .success(.isThere(let file)):
                self.noTaskMade()
                self.finishUnsent(number, with: file, request)
            case .failure(let error):
                self.noTaskMade()
                if error.lacksDescriptors, self.putOff(number) { return }
                self.conclude(error.with(request.summary), attempt: number)
            }
        }
    }

    /// The file is there already: it is the output, and no answer came with it.
    private func finishUnsent(_ number: Int, with file: URL, _ request: PreparedRequest) {
        let head = ResponseHead(statusCode: 304, url: request.url)
        guard let completion = attempt(number, hasWholeBodyOf: head, to: request, nil, isSent: false) else { return }
        onExecutor { self.complete(completion, with: ReceivedBody(file: file)) }
    }

    /// Makes a task for an attempt and resumes it; the cache is asked first, unless it had the answer before the slot came.
    private func transmit(
        _ request: PreparedRequest, _ number: Int, _ plan: RequestPlan, at now: ContinuousClock.Instant,
        into download: (any DownloadTarget)? = nil, continuing point: ResumePoint? = nil
    ) {
        let send = { @Sendable (exchange: (any CacheExchange)?, hasSlot: Bool) in
            self.transmit(
                request, number, plan, at: now, into: download, continuing: point, through: exchange, hasSlot: hasSlot)
        }
        guard context.cache != nil else { return send(nil, true) }
        let (exchange, scheduler) = state.withLock { ($0.followUp?.cacheExchange, $0.scheduler) }
        guard exchange == nil, let scheduler else { return send(exchange, false) }
        scheduler.lookUp(request, for: self) { send($0, true) }
    }

    private func transmit(
        _ request: PreparedRequest, _ number: Int, _ plan: RequestPlan, at now: ContinuousClock.Instant,
        into download: (any DownloadTarget)?, continuing point: ResumePoint?, through exchange: (any CacheExchange)?,
        hasSlot: Bool
    ) {
        let attempt = Attempt(
            number: number, operation: self, plan: plan, request: request, started: now, download: download,
            continuing: point, isAnswered: exchange?.answers == true)
        let task: any TransferTask
        do throws(RequestError) {
            if request.body?.isUsedUp == true { throw .bodyNotReplayable }
            if !options.pausesInPlace, let defect = attempt.rateControl.defect { throw defect }
            if let exchange {
                let network = CacheNetwork(
                    context.transport, context.directTransport, context.cookies, hasSlot: hasSlot)
                task = try exchange.makeTransfer(for: request, client: attempt, over: network)
            } else if let direct = context.directTransport {
                task = try direct.makeTransfer(for: request, client: attempt)
            } else {
                task = try context.transport.makeTask(for: request, client: attempt)
            }
        } catch {
            noTaskMade()
            let error = error.blamed(on: lastRecord, for: request)
            return conclude(error.with(request.summary), attempt: number)
        }

        let (effects, isWatched) = state.withLock { state in
            let effects = state.machine.handle(.taskMade(attempt: number, pausesInPlace: options.pausesInPlace))
            if effects.isTaken { state.transfer = Transfer(attempt: attempt, task: task) }
            return (effects, state.isWatched)
        }
        guard effects.isTaken else {
            attempt.close()
            return context.taskControl.async {
                task.cancel()
                self.leaveSlot()
            }
        }
        if isWatched { emit(.started(attempt: number)) }
        guard effects.runsTask == true else { return leaveSlot() }
        task.resume()
        if state.withLock({ $0.machine.handle(.taskResumed(attempt: number)) }).adjusts { adjustTask() }
    }

    private func noTaskMade() { _ = state.withLock { $0.machine.handle(.taskNotMade) } }
}
