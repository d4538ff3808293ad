// Stopping at once, or after running jobs have ended.
import Convoy
import Foundation

extension DurableQueue {
    /// Stops the queue at once.
    ///
    /// Cancels running requests and releases their jobs. The queue that claims these jobs next sends them again with
    /// the same `Idempotency-Key`.
    ///
    /// The function does not wait for running handlers. The queue can be started again. A second call during the stop
    /// returns when the first one does.
    public func stop() async {
        await withCheckedContinuation { continuation in
            let isStopping = state.withLock { state in
                guard case .stopping = state.phase else { return false }
                state.stopWaiters.append(continuation)
                return true
            }
            if !isStopping { continuation.resume() }
        }
        let (isMeant, loop, listener) = state.withLock { state in
            guard state.phase == .working || state.phase == .finishing else {
                return (false, Task<Void, Never>?.none, Task<Void, Never>?.none)
            }
            state.phase = .stopping
            state.workTimer?.cancel()
            state.heartbeat?.cancel()
            state.heartbeat = nil
            return (true, state.loop, state.listener)
        }
        guard isMeant else { return }
        listener?.cancel()
        wakeUp.yield()
        await loop?.value
        // The loop has ended, so no new request starts.
        let sendings = state.withLock { $0.inFlight.values.compactMap(\.sending) }
        for sending in sendings { sending.operation.cancel() }
        for sending in sendings { await sending.finish() }
        let rest = state.withLock { state in
            defer {
                state.settlements = []
                state.inFlight = [:]
            }
            return state.settlements
        }
        do throws(QueueError) {
            if !rest.isEmpty { report(rest, try await store.exchange(rest, claiming: nil)) }
        } catch { configuration.onError?(error) }
        // The jobs are released even if outcomes could not be written. A job without a written outcome is sent again
        // with the same `Idempotency-Key`.
        do throws(QueueError) { try await store.release() } catch { configuration.onError?(error) }
        let waiters = state.withLock { state in
            state.phase = .idle
            state.unreported = [:]
            defer { state.stopWaiters = [] }
            return state.takeDrainers() + state.stopWaiters + state.takeFinishers(isOver: true)
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Stops the queue when running jobs have ended, or after a time.
    ///
    /// Use this function before a deployment. With ``stop()``, running jobs would be sent a second time.
    ///
    /// The queue claims and starts nothing more, and releases jobs that have not started. Running requests and their
    /// handlers continue, and their leases are renewed. Requests that have not ended in time are cancelled, as with
    /// ``stop()``.
    ///
    /// - Parameter patience: the maximum time, on the manager's clock.
    public func stop(finishingWithin patience: Duration) async {
        let sendings = state.withLock { state -> [DurableQueueState.Sending]? in
            guard state.phase == .working else { return nil }
            state.phase = .finishing
            return state.inFlight.values.compactMap(\.sending)
        }
        guard let sendings else { return await stop() }
        for sending in sendings where !sending.operation.isExecuting { sending.operation.cancel() }
        let clock = manager.configuration.clock
        let timer = clock.wake(at: clock.now + patience) { [weak self] in
            for finisher in self?.state.withLock({ $0.takeFinishers(isOver: true) }) ?? [] { finisher.resume() }
        }
        await withCheckedContinuation { continuation in
            let finishers = state.withLock { state in
                state.finishers.append(continuation)
                return state.takeFinishers(isOver: state.phase != .finishing)
            }
            for finisher in finishers { finisher.resume() }
        }
        timer.cancel()
        await stop()
    }

    /// Stops the queue, and closes its store.
    public func close() async {
        await stop()
        await store.close()
    }
}
