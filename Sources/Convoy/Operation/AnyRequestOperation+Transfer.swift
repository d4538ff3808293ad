// Starts an operation and sends its request. A queue, the caller, or the thread that gave the slot starts it.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

extension AnyRequestOperation {
    /// The task that moves the bytes; nil unless an attempt is running.
    ///
    /// The operation owns the task. Only read the task; call ``cancel()``, ``suspend()`` and ``resume()`` on the
    /// operation instead.
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

    /// Starts the operation on the current thread; false if that is slow or runs user code, or if it was started
    /// before.
    func startInline(at moment: CompactInstant) -> Bool {
        #if !canImport(FoundationNetworking)
            // A KVO observer would run user code.
            if isObservedSynchronously { return false }
        #endif
        let (effects, beginning) = state.withLock { state in
            let effects = state.startsInline ? state.machine.handle(.start(mayBeBlocked: false)) : .dropped
            if effects.begins { state.timings.startedMoment = moment }
            return (effects, state.beginning)
        }
        if effects.begins { begin(beginning) }
        return effects.begins
    }

    /// Lets exactly one of several threads start the operation.
    func claimStart(mayBeBlocked: Bool) -> (OperationStateMachine.Effects, OperationState.Beginning) {
        let now = context.clock.now
        var isObserved = false
        let result = notifying([.isExecuting]) {
            state.withLock { state in
                let event = OperationStateMachine.Event.start(mayBeBlocked: mayBeBlocked && state.hasEdges)
                let effects = state.machine.handle(event)
                if effects.begins {
                    state.timings.startedMoment = CompactInstant(now)
                    isObserved = state.isObserved
                    if isObserved { state.registry?.value.startNotification = .isRunning }
                }
                // The state has changed only if the operation begins.
                return ((effects, state.beginning), effects.begins ? state.notificationTargets : .none)
            }
        }
        let endFollows =
            isObserved
            && state.withLock { state in
                defer { state.registry?.value.startNotification = .none }
                return state.registry?.value.startNotification == .endFollows
            }
        if endFollows { finish(wasExecuting: true) }
        return result
    }

    /// Adds the operation to a queue; false if it has begun.
    func handOver(_ add: (AnyRequestOperation) -> Void) -> Bool {
        let isWaiting = state.withLock { state in
            guard state.machine.handle(.handoverBegan).isTaken else { return false }
            state.isSeen = true
            return true
        }
        guard isWaiting else { return false }
        add(self)
        let (handover, wasUnready) = state.withLock { ($0.machine.handle(.handoverEnded), $0.wasUnready) }
        // If `start()` was called during the handover, the operation starts here, provided that this is fast. Otherwise
        // another thread starts it, because the current thread may be a transport's.
        let hasBegun =
            handover.starts && context.transport.isReentrant
            && startInline(at: CompactInstant(context.clock.now))
        if handover.starts, !hasBegun { context.taskControl.async { self.start() } }
        // The queue may have stored an old value of `isReady` after the change was notified. So notify once more, on
        // another thread, because the current thread may be a transport's.
        if wasUnready { context.taskControl.async { self.notifyReadiness() } }
        return true
    }

    /// Builds the request if necessary, and checks it; nil if the operation has failed or is a group.
    ///
    /// Building the request runs user code. If the request must be built, the caller therefore uses the serial
    /// executor.
    func prepare() -> OperationState.Wish? {
        let (given, wish) = state.withLock { ($0.requestPlan, $0.wish(in: context)) }
        guard var requestPlan = given, wish == nil else { return wish }
        do throws(RequestError) {
            if let build = requestPlan.build {
                do { requestPlan = try build() } catch let error as RequestError { throw error } catch {
                    throw RequestError(.invalidRequest, "its request could not be built: \(error)", underlying: error)
                }
            }
            guard let core = requestPlan.core else { return nil }
            let prepared = try core.prepared(context.defaults)
            if isLink { takePolicies(of: core) }
            let (replaced, wish) = state.withLock { state -> (RequestPlan?, OperationState.Wish?) in
                guard let replaced = state.requestPlan else { return (nil, nil) }
                (state.requestPlan, state.prepared) = (requestPlan, prepared)
                return (replaced, state.wish(in: context))
            }
            // The builder and its captured values are released outside the lock.
            return withExtendedLifetime(replaced) { wish }
        } catch {
            conclude(AnyOutcome(error: error.with(requestPlan.core?.summary ?? name.map { RequestSummary(text: $0) })))
            return nil
        }
    }

    /// Applies the policies of a link's request; values set on the operation itself take precedence.
    private func takePolicies(of core: RequestCore) {
        let box = core.policyBox
        if box != nil || context.defaults.deadline != nil { armDeadline(of: box?.policies) }
        if let quality = box?.policies.qualityOfService, qualityOfService == .default { qualityOfService = quality }
        if let given = core.name, name == nil { name = given }
        // The priority has version 1 until the caller sets it.
        if core.priority != .normal, state.withLock({ $0.priority.version == 1 }) { queuePriority = core.priority }
    }

    /// Begins an attempt, unless the operation is suspended or has finished.
    func launch(_ number: Int) {
        let given: (plan: RequestPlan, adapted: PreparedRequest?, sharedAnswer: SharedAnswer?)? = state.withLock {
            state in
            let launch = OperationStateMachine.Event.launch(
                attempt: number, pausesInPlace: pausesInPlace, isClaim: false)
            guard state.machine.handle(launch).isTaken, let plan = state.requestPlan else { return nil }
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

    /// Sends the request of an attempt, with cookies and with the fields that resume a download.
    ///
    /// - Parameter moment: the current time, if the caller has read the clock.
    func send(_ number: Int, at moment: CompactInstant? = nil) {
        let now = moment ?? CompactInstant(context.clock.now)
        let given: (PreparedRequest, RequestPlan, (any DownloadTarget)?, asksForWhole: Bool)? = state.withLock {
            state in
            let claim = OperationStateMachine.Event.launch(
                attempt: number, pausesInPlace: pausesInPlace, isClaim: true)
            guard let plan = state.requestPlan, let request = state.followUp?.adapted ?? state.nextRequest,
                state.machine.handle(claim).isTaken
            else { return nil }
            state.timings.attemptStartedMoment = now
            state.followUp?.adapted = nil
            guard plan.request.destination.isFile else { return (request, plan, nil, false) }
            let followUp = state.makeFollowUp()
            followUp.download = followUp.download ?? plan.request.destination.makeDownload()
            return (request, plan, followUp.download, followUp.startsOver)
        }
        guard let (asked, plan, download, asksForWhole) = given else { return leaveSlot() }
        var request = asked
        context.cookies?.add(to: &request)
        guard let download else { return transmit(request, number, plan, at: now) }
        // The rest runs on the download's own serial executor, because opening and reading files may be slow.
        download.begin(request, asksForWhole: asksForWhole) { [request] beginning in
            switch beginning {
            case .success(.send(let request, let point)):
                let transmit: @Sendable () -> Void = {
                    let now = CompactInstant(self.context.clock.now)
                    self.transmit(request, number, plan, at: now, into: download, continuing: point)
                }
                // A transport that makes tasks on its own queue may block there until an earlier attempt has finished
                // writing. So the queue `taskControl` makes the task.
                if self.context.transport.isReentrant, self.pausesInPlace {
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

    /// Finishes a download without a request, because the existing file is the output.
    private func finishUnsent(_ number: Int, with file: URL, _ request: PreparedRequest) {
        let head = ResponseHead(statusCode: 304, url: request.url)
        guard let completion = attempt(number, hasWholeBodyOf: head, to: request, nil, isSent: false) else { return }
        complete(completion, with: ReceivedBody(file: file))
    }

    /// Makes the task of an attempt and resumes the task.
    ///
    /// - Parameter found: the result of the lookup in the cache; nil before the lookup.
    private func transmit(
        _ request: PreparedRequest, _ number: Int, _ plan: RequestPlan, at now: CompactInstant,
        into download: (any DownloadTarget)? = nil, continuing point: ResumePoint? = nil,
        through found: (exchange: (any CacheExchange)?, hasSlot: Bool)? = nil
    ) {
        if found == nil, context.cache != nil {
            let send = { @Sendable (exchange: (any CacheExchange)?, hasSlot: Bool) in
                self.transmit(
                    request, number, plan, at: now, into: download, continuing: point, through: (exchange, hasSlot))
            }
            let (exchange, scheduler) = state.withLock { ($0.followUp?.cacheExchange, $0.scheduler) }
            guard exchange == nil, let scheduler else { return send(exchange, false) }
            return scheduler.lookUp(request, for: self) { send($0, true) }
        }
        let exchange = found?.exchange
        let attempt = Attempt(
            number: number, operation: self, plan: plan, request: request, started: now, download: download,
            continuing: point, isAnswered: exchange?.answers == true)
        let task: any TransferTask
        do throws(RequestError) {
            if request.body?.isUsedUp == true { throw .bodyNotReplayable }
            if !pausesInPlace, let defect = attempt.rateLimitDefect { throw defect }
            if let exchange {
                let network = CacheNetwork(context, hasSlot: found?.hasSlot ?? true)
                task = try exchange.makeTransfer(for: request, client: attempt, over: network)
            } else if let direct = context.directTransport {
                task = try direct.makeTransfer(for: request, client: attempt)
            } else {
                task = try context.transport.makeTask(for: request, client: attempt)
            }
        } catch {
            noTaskMade()
            let error = error.blamed(on: lastRecord, for: request)
            // This thread may be a transport's, which must not notify observers.
            return onExecutor { self.conclude(error.with(request.summary), attempt: number) }
        }

        let (effects, isWatched) = state.withLock { state in
            let effects = state.machine.handle(.taskMade(attempt: number, pausesInPlace: pausesInPlace))
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
