// Executing: from start() to a complete body.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

extension AnyRequestOperation {
    /// The first start of an operation without an outcome.
    func execute() {
        // The flag turns true inside the pair; a second thread that comes this way finds `.ignore` or `.finish`.
        let effect = notifying([.isExecuting]) {
            state.withLock { state in
                if state.machine.phase == .pending { state.timings.started = .now }
                return state.start()
            }
        }
        switch effect {
        case .finish: finish(wasExecuting: false)
        case .ignore: break
        case .execute(let attempt):
            if request != nil {
                launch(attempt)
            } else if state.withLock({ $0.recipe?.build == nil }) {
                if prepare() { launch(attempt) }
            } else {
                // Building a chain's link is user code and may take its time.
                onLane { if self.prepare() { self.launch(attempt) } }
            }
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
            // The builder and what it captured go outside the lock.
            return withExtendedLifetime(replaced) { true }
        } catch {
            conclude(AnyOutcome(error: error.with(recipe.core?.summary ?? name.map { RequestSummary(text: $0) })))
            return false
        }
    }

    /// Makes a task for an attempt and resumes it, unless the operation is suspended or has ended meanwhile.
    func launch(_ number: Int) {
        let pausesInPlace = context.transport.pausesInPlace
        let given: (PreparedRequest, RequestCore)? = state.withLock { state in
            guard state.machine.accepts(attempt: number), !state.isLaunching, state.transfer == nil,
                pausesInPlace || !state.isSuspended, let prepared = state.prepared, let core = state.recipe?.core
            else { return nil }
            state.isLaunching = true
            return (prepared, core)
        }
        guard let (request, core) = given else { return }

        let attempt = Attempt(number: number, operation: self, core: core)
        let task: URLSessionTask
        do throws(RequestError) {
            try core.destination.checkWritable()
            task = try context.transport.makeTask(for: request, client: attempt)
        } catch {
            state.withLock { $0.isLaunching = false }
            return conclude(AnyOutcome(error: error.with(request.summary)), attempt: number)
        }

        enum Next { case resume, wait, discard }
        let next: Next = state.withLock { state in
            state.isLaunching = false
            guard state.machine.accepts(attempt: number) else { return .discard }
            if state.isSuspended && !pausesInPlace {
                _ = state.machine.nextAttempt()
                return .discard
            }
            let runs = !state.isSuspended
            state.transfer = Transfer(attempt: attempt, task: task, isRunning: runs, isSettingOff: runs)
            return runs ? .resume : .wait
        }
        switch next {
        case .resume:
            emit(.started(attempt: number))
            task.resume()
            // A suspension meanwhile, or a reader that caught up, has waited for this: the other way round it would be undone.
            let isOutdated = state.withLock { state in
                state.transfer?.isSettingOff = false
                return state.isSuspended || state.transfer?.isRunning == false
            }
            if isOutdated { adjustTask() }
        case .wait:
            emit(.started(attempt: number))
        case .discard:
            attempt.close()
            context.taskControl.async { task.cancel() }
        }
    }

    /// Suspends this operation: a queued one is passed over by its manager, a running one moves no more bytes.
    ///
    /// A running one keeps its slot. Where the transport cannot pause a transfer (URLSession on Linux starts it over
    /// by itself and lets its timeout run) the attempt is ended and ``resume()`` begins another: its body starts afresh.
    /// Suspending twice, or after the end, has no effect.
    ///
    /// - Thread: any.
    public final func suspend() { setSuspended(true) }

    /// Undoes ``suspend()``.
    ///
    /// Without effect on an operation that is not suspended; it does not start one.
    ///
    /// - Thread: any.
    public final func resume() { setSuspended(false) }

    /// Whether ``suspend()`` was called and ``resume()`` was not.
    public final var isSuspended: Bool { state.withLock { $0.isSuspended } }

    private func setSuspended(_ isSuspended: Bool) {
        enum Effect {
            case none
            case end(Transfer)
            case launch(Int)
            case adjust
        }
        let pausesInPlace = context.transport.pausesInPlace
        let (changed, effect, scheduler): (Bool, Effect, Scheduler?) = state.withLock { state in
            guard state.isSuspended != isSuspended, state.outcome == nil else { return (false, .none, nil) }
            state.isSuspended = isSuspended
            var effect = Effect.none
            if pausesInPlace {
                effect = .adjust
            } else if isSuspended, let transfer = state.transfer, state.machine.nextAttempt() != nil {
                state.transfer = nil
                effect = .end(transfer)
            } else if !isSuspended, let attempt = state.machine.currentAttempt, state.prepared != nil {
                effect = .launch(attempt)
            }
            return (true, effect, state.scheduler)
        }
        guard changed else { return }
        emit(isSuspended ? .suspended : .resumed)
        scheduler?.suspensionChanged(of: self)
        switch effect {
        case .none: break
        case .end(let transfer):
            transfer.attempt.close()
            context.taskControl.async { transfer.task.cancel() }
        case .launch(let attempt): launch(attempt)
        case .adjust: adjustTask()
        }
    }

    /// Brings the task to where it should be: its owner suspended or resumed it, or the reader of its body fell behind or
    /// caught up.
    ///
    /// Two calls cannot be performed in the wrong order: each looks when its turn on the serial queue comes, not when it
    /// was asked for.
    func adjustTask() {
        guard context.transport.pausesInPlace else { return }
        context.taskControl.async {
            let isHeld = self.state.withLock { $0.transfer?.attempt }?.isHeld ?? false
            let action: (task: URLSessionTask, run: Bool)? = self.state.withLock { state in
                let runs = !state.isSuspended && !isHeld
                guard let transfer = state.transfer, !transfer.isSettingOff, transfer.isRunning != runs else {
                    return nil
                }
                state.transfer?.isRunning = runs
                return (transfer.task, runs)
            }
            guard let action else { return }
            if action.run { action.task.resume() } else { action.task.suspend() }
        }
    }
}
