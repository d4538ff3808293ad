import Foundation
import Testing

@testable import Convoy

@Suite struct OperationStateTests {
    private static func handler(_ place: CallbackPlace) -> FinishHandler { FinishHandler(place: place) { _ in } }

    /// Each row has the requested place, the place that is used, and the number of handlers on the serial executor.
    @Test func anInTurnHandlerNeedsTheExecutorOnlyAfterOthers() {
        var state = OperationState(requestPlan: TypedRequestPlan(Request<Data>.get("http://stub/")), isMonitored: false)
        let rows: [(place: CallbackPlace, isExecutor: Bool, isHere: Bool, count: Int)] = [
            (.inTurn, false, true, 0), (.here, false, true, 0), (.elsewhere { work, _ in work() }, false, false, 0),
            (.executor, true, false, 1), (.inTurn, true, false, 2), (.here, false, true, 2),
            (.executor, true, false, 3),
        ]
        for row in rows {
            state.handlers = [Self.handler(row.place)]
            let handlers = state.takeHandlers()
            #expect(handlers.map(\.place.isExecutor) == [row.isExecutor])
            #expect(handlers.map(\.place.isHere) == [row.isHere])
            #expect(state.executorHandlers == row.count)
        }
        // The handlers on the serial executor have returned.
        state.executorHandlers = 0
        state.handlers = [Self.handler(.inTurn)]
        let handlers = state.takeHandlers()
        #expect(handlers.map(\.place.isHere) == [true])
    }

    /// The size of the body is known before the start, and the request of a link may be prepared after it.
    @Test func theProgressHasTheSizeOfTheBody() throws {
        let request = Request<Data>.post("http://stub/").body(Data(count: 7))
        for isStarted in [false, true] {
            var state = OperationState(requestPlan: TypedRequestPlan(request), isMonitored: false)
            #expect(state.progress.upload.totalBytes == nil)
            if isStarted { state.timings.startedMoment = CompactInstant(ContinuousClock.now) }
            state.prepared = try request.core.prepared(.standard)
            #expect((state.execution != nil) == isStarted)
            #expect(state.progress.upload.totalBytes == 7)
            state.progress.upload.completedBytes = 3
            #expect(state.progress.upload == ByteProgress(completedBytes: 3, totalBytes: 7))
        }
    }

    @Test func theTimingsKeepTheMomentOfQueueing() {
        let moment = CompactInstant(ContinuousClock.now)
        var state = OperationState(requestPlan: .none, isMonitored: false)
        state.queuedMoment = moment
        #expect(state.timings.queuedMoment == moment)
        state.timings.startedMoment = moment
        #expect(state.timings.queuedMoment == moment && state.timings.startedMoment == moment)
    }

    #if canImport(Glibc)
        /// Many operations may be queued.
        ///
        /// The numbers are those of 64-bit Linux, with the allocator's rounding. The allocator may return a larger block
        /// that it reuses, so the smallest of several blocks counts.
        @Test func aQueuedOperationIsSmall() throws {
            let symbol = try #require(dlsym(nil, "malloc_usable_size"))
            let usableSize = unsafeBitCast(symbol, to: (@convention(c) (UnsafeMutableRawPointer) -> Int).self)
            func byteCount(_ make: () -> AnyObject) -> Int {
                let objects = (0..<50).map { _ in make() }
                return objects.map { usableSize(Unmanaged.passUnretained($0).toOpaque()) }.min() ?? 0
            }
            let operation = RequestOperation(Request<Data>.get("http://stub/"))
            #expect(byteCount { RequestOperation(Request<Data>.get("http://stub/")) } <= 200)
            #expect(byteCount { QueueEntry(operation) } <= 152)
            #expect(byteCount { TypedRequestPlan(Request<Data>.get("http://stub/")) } <= 56)
            // With the object's header and the mutex, 264 bytes.
            #expect(MemoryLayout<OperationState>.size <= 208)
            #expect(MemoryLayout<RequestCore>.size <= 64)
        }
    #endif
}
