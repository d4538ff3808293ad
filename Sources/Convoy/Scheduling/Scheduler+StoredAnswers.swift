// Requests that get a response from the memory of the cache, without an operation.
import Foundation

extension Scheduler {
    /// Sends a request of a manager with a cache, unless the cache has the response in memory.
    func send<Output>(
        _ request: Request<Output>, asking cache: any CacheEngine
    ) async throws(RequestError) -> Response<Output> {
        let isCancelled = Task.isCancelled
        var prepared: PreparedRequest?
        if !isCancelled, let response = storedResponse(to: request, from: cache, &prepared) { return response }
        let operation = RequestOperation(request, of: self, isInternal: true)
        if let prepared { operation.state.withLock { $0.prepared = prepared } }
        if isCancelled { operation.cancel() }
        enqueue(operation)
        return try await operation.response()
    }

    /// The response from the memory of the cache; nil if the request needs an operation.
    ///
    /// Only a plain GET gets such a response, and only if its manager is not suspended and has no monitors or
    /// interceptors. The output is the stored body, so that no user code runs here. The request uses no slot and starts
    /// no operation.
    ///
    /// - Parameter prepared: set to the prepared request if the cache certainly has no response.
    private func storedResponse<Output>(
        to request: Request<Output>, from cache: any CacheEngine, _ prepared: inout PreparedRequest?
    ) -> Response<Output>? {
        let started = context.clock.now
        let core = request.sharedCore
        guard core.value.policyBox == nil, core.value.decodesAtOnce, core.value.method == .get,
            core.value.body == nil, case .memory = core.value.destination,
            context.monitors.isEmpty, context.interceptors.isEmpty, servesAtOnce,
            var asked = try? core.value.prepared(context.defaults)
        else { return nil }
        // The operation adds cookies itself, so `prepared` must not have them.
        let given = asked
        context.cookies?.add(to: &asked)
        let query = CacheQuery(asked, nil, keepsCoding: asked.asksForIdentity, clock: context.clock)
        switch cache.answer(query) {
        case .unknown: return nil
        case .none:
            prepared = given
            return nil
        case .stored(let answer, let body):
            let response = response(to: request, asked, answer, body, started: started)
            // If this method returns no response, the operation delivers the stored response and counts the hit.
            if response != nil { cache.countHit(answer, bytes: Int64(body.count)) }
            return response
        }
    }

    /// Whether a new request may get its response at once.
    ///
    /// False during a suspension, a barrier or a cancellation of many operations, and after a shutdown. Also false with
    /// a limit of the manager's own queue, and with a caller's queue.
    private var servesAtOnce: Bool {
        guard let ownQueue, ownQueue.lastBarrier == nil else { return false }
        return state.withLock { !$0.isHoldingBack && !$0.isShutDown && !$0.isQueueLimited }
    }

    /// The response with a stored body; nil if the request does not accept it.
    private func response<Output>(
        to request: Request<Output>, _ sent: PreparedRequest, _ answer: StoredAnswer, _ body: Data,
        started: ContinuousClock.Instant
    ) -> Response<Output>? {
        let rules = request.sharedCore.value.answerRules
        guard rules.refusal(of: answer.head, context.defaults) == nil,
            body.count <= rules.memoryLimit(context.defaults),
            let value = try? answer.decode(body, for: request, context.defaults.decoder)
        else { return nil }
        var (timings, transfer) = (Timings(), TransferProgress())
        let moment = CompactInstant(started)
        (timings.queuedMoment, timings.startedMoment, timings.attemptStartedMoment) = (moment, moment, moment)
        let end = CompactInstant(context.clock.now)
        (timings.firstByteMoment, timings.finishedMoment) = (end, end)
        transfer.download = ByteProgress(
            completedBytes: Int64(body.count), totalBytes: answer.head.expectedBytes)
        return Response(
            value: value,
            exchange: Exchange(
                request: sent, head: answer.head, timings: timings, transfer: transfer, metrics: answer.metrics,
                earlierAttempts: []))
    }
}
