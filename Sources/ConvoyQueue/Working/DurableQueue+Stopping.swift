// The end of the work: at once, or when what is under way has ended.
import Convoy
import Foundation

extension DurableQueue {
    /// Stops: what is being sent is broken off and given back, with the leases; what was not settled is sent again by the next
    /// queue, with the same keys.
    ///
    /// Handlers that run are not waited for. The queue can be started again. Again, while it stops: waits for the same end.
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
        // From here on nothing more is sent.
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
            if !rest.isEmpty { _ = try await store.exchange(rest, claiming: nil) }
        } catch { configuration.onError?(error) }
        // Though outcomes could not be written: what is given back is sent again, and with the same keys.
        do throws(QueueError) { try await store.release() } catch { configuration.onError?(error) }
        let waiters = state.withLock { state in
            state.phase = .idle
            defer { state.stopWaiters = [] }
            return state.takeDrainers() + state.stopWaiters + state.takeFinishers(isOver: true)
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Stops when what is being sent has ended, or after a time: for a deployment, which else sends everything in flight twice.
    ///
    /// At once nothing more is claimed or begun, and what only waits for its turn is given back. Requests under way and their
    /// handlers go on; what has not ended in time is broken off, as by ``stop()``. Leases are renewed meanwhile.
    ///
    /// - Parameter patience: how long it may take, by the manager's clock.
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

    /// Stops, and closes the store.
    public func close() async {
        await stop()
        await store.close()
    }
}
