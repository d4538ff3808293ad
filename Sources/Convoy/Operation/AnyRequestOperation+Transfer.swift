// Executing: from start() to a complete body.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

extension AnyRequestOperation {
    /// The first start of an operation without an outcome.
    func execute(_ attempt: Int, _ beginning: OperationState.Beginning) {
        if beginning.isToBeBuilt {
            // Building a chain's link is user code and may take its time.
            onLane { if self.prepare() { self.begin(attempt, self.state.withLock { $0.beginning }) } }
        } else if !beginning.isToBePrepared || prepare() {
            begin(attempt, beginning)
        }
    }

    /// Begins the first attempt.
    private func begin(_ attempt: Int, _ beginning: OperationState.Beginning) {
        armDeadline()
        if beginning.hasAnswer {
            beginning.scheduler?.beginsWithAnswer(self)
        } else if let scheduler = beginning.scheduler, let ticket = beginning.ticket,
            !scheduler.begins(ticket, isSuspended: beginning.isSuspended)
        {
            if state.withLock({ $0.machine.putOff(attempt: attempt) }) { queueAgain() }
            return
        }
        if asksInterceptors {
            onLane { self.launch(attempt) }
        } else if beginning.hasAnswer {
            launch(attempt)
        } else {
            send(attempt)
        }
    }

    /// Builds the request where that is still to be done, and checks it; false when that failed and the outcome is known.
    ///
    /// User code may run here: call it on a lane unless the recipe has its request already.
    func prepare() -> Bool {
        guard var recipe = state.withLock({ $0.recipe }) else { return false }
        do throws(RequestError) {
            if let build = recipe.build {
                do { recipe = try build() } catch let error as RequestError { throw error } catch {
                    throw RequestError(.invalidRequest, "its request could not be built: \(error)", underlying: error)
                }
            }
            guard let core = recipe.core else { return false }
            let prepared = try PreparedRequest(core, baseURL: context.baseURL)
            let replaced: Recipe? = state.withLock { state in
                guard state.recipe != nil else { return nil }
                defer { state.recipe = recipe }
                state.prepared = prepared
                state.progress.expectedSentBytes = prepared.body?.byteCount
                return state.recipe
            }
            // A link's deadline begins when it is known.
            armDeadline()
            // The builder and what it captured go outside the lock.
            return withExtendedLifetime(replaced) { true }
        } catch {
            conclude(AnyOutcome(error: error.with(recipe.core?.summary ?? name.map { RequestSummary(text: $0) })))
            return false
        }
    }

    /// Begins an attempt, unless the operation is suspended or has ended meanwhile.
    ///
    /// - Thread: the operation's lane when there are interceptors.
    func launch(_ number: Int) {
        let pausesInPlace = context.transport.pausesInPlace
        let given: (core: RequestCore, adapted: PreparedRequest?, carried: SharedAnswer?)? = state.withLock { state in
            guard state.mayLaunch(number, pausesInPlace), let core = state.recipe?.core else { return nil }
            return (core, state.course?.adapted, state.course?.carried)
        }
        guard let given else { return leaveSlot() }
        if let carried = given.carried { return takeCarried(carried, attempt: number) }
        guard asksInterceptors else { return send(number) }
        if let adapted = given.adapted, isCurrent(adapted, interceptors(of: given.core)) {
            send(number)
        } else {
            adapt(number, given.core)
        }
    }

    /// Claims the launch of an attempt: what it sends is completed, and goes.
    private func send(_ number: Int) {
        let pausesInPlace = context.transport.pausesInPlace
        let now = context.clock.now
        let given: (PreparedRequest, RequestCore, (any DownloadTarget)?, asksForWhole: Bool)? = state.withLock {
            state in
            guard state.mayLaunch(number, pausesInPlace), let core = state.recipe?.core,
                let request = state.course?.adapted ?? state.nextRequest
            else { return nil }
            state.isLaunching = true
            state.timings.attemptStarted = now
            state.course?.adapted = nil
            guard core.destination.isFile else { return (request, core, nil, false) }
            let course = state.makeCourse()
            course.download = course.download ?? core.destination.makeDownload()
            return (request, core, course.download, course.startsOver)
        }
        guard let given else { return leaveSlot() }
        var request = given.0
        let core = given.1
        if let cookies = context.cookies, !request.headerFields.contains("Cookie") {
            request.headerFields["Cookie"] = cookies.cookieField(for: request.url)
        }

        guard let download = given.2 else { return transmit(request, number, core) }
        // On its own queue from here: opening and reading files may take its time.
        download.begin(request, asksForWhole: given.asksForWhole) { [request] beginning in
            switch beginning {
            case .success(.send(let request, let point)):
                let transmit: @Sendable () -> Void = {
                    self.transmit(request, number, core, into: download, continuing: point)
                }
                // A loader that makes tasks on its own queue may be waiting there for the file: an attempt before this one
                // may still be writing.
                if self.context.transport.isReentrant, self.context.transport.pausesInPlace {
                    transmit()
                } else {
                    self.context.taskControl.async(execute: transmit)
                }
            case .success(.isThere(let file)):
                self.state.withLock { $0.isLaunching = false }
                self.finishUnsent(number, core, with: file, request)
            case .failure(let error):
                self.state.withLock { $0.isLaunching = false }
                if error.lacksDescriptors, self.putOff(number) { return }
                self.conclude(AnyOutcome(error: error.with(request.summary)), attempt: number)
            }
        }
    }

    /// The file is there already: it is the output, and no answer came with it.
    private func finishUnsent(_ number: Int, _ core: RequestCore, with file: URL, _ request: PreparedRequest) {
        guard let completion = attempt(number, hasWholeBodyCommitting: false, isSent: false) else { return }
        let answer = CompleteAnswer(
            body: ReceivedBody(file: file), head: ResponseHead(statusCode: 304, url: request.url), request: request,
            metrics: nil)
        onLane { self.attempt(number, didComplete: answer, completion) }
    }

    /// Makes a task for an attempt and resumes it.
    private func transmit(
        _ request: PreparedRequest, _ number: Int, _ core: RequestCore, into download: (any DownloadTarget)? = nil,
        continuing point: ResumePoint? = nil
    ) {
        let pausesInPlace = context.transport.pausesInPlace
        let attempt = Attempt(
            number: number, operation: self, core: core, request: request, download: download, continuing: point)
        let task: any TransferTask
        do throws(RequestError) {
            if request.body?.isUsedUp == true { throw .bodyNotReplayable }
            if let defect = attempt.pace.defect(over: context.transport) { throw defect }
            if let direct = context.directTransport {
                task = try direct.makeTransfer(for: request, client: attempt)
            } else {
                task = try context.transport.makeTask(for: request, client: attempt)
            }
        } catch {
            state.withLock { $0.isLaunching = false }
            let error = error.blamed(on: lastRecord, for: request)
            return conclude(AnyOutcome(error: error.with(request.summary)), attempt: number)
        }

        enum Next { case resume, wait, discard }
        let (next, isWatched) = state.withLock { state -> (Next, isWatched: Bool) in
            state.isLaunching = false
            guard state.machine.accepts(attempt: number) else { return (.discard, false) }
            if state.isHeldBack && !pausesInPlace {
                state.isResting = state.machine.nextAttempt() != nil
                return (.discard, false)
            }
            let runs = !state.isHeldBack
            state.transfer = Transfer(attempt: attempt, task: task, isRunning: runs, isSettingOff: runs)
            return (runs ? .resume : .wait, state.isWatched)
        }
        if isWatched { emit(.started(attempt: number)) }
        switch next {
        case .resume:
            task.resume()
            // A suspension meanwhile, or a reader that caught up, has waited for this: the other way round it would be undone.
            let isOutdated = state.withLock { state in
                state.transfer?.isSettingOff = false
                return state.isHeldBack || state.transfer?.isRunning == false
            }
            if isOutdated { adjustTask() }
        case .wait: leaveSlot()
        case .discard:
            attempt.close()
            context.taskControl.async {
                task.cancel()
                self.leaveSlot()
            }
        }
    }
}

extension OperationState {
    /// Whether an attempt may be launched now; one that is only held back is launched when that is over.
    fileprivate mutating func mayLaunch(_ number: Int, _ pausesInPlace: Bool) -> Bool {
        guard machine.accepts(attempt: number), !isLaunching, transfer == nil else { return false }
        isResting = isHeldBack && !pausesInPlace
        return !isResting
    }
}
