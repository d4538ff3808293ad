import Foundation
import Testing

@testable import Convoy

@Suite struct BatchStateTests {
    /// The state of a batch that took one request of its source, which failed, and was stopped.
    private func stopped(announced: Int) throws -> BatchState<Data> {
        var state = BatchState<Data>(announced: announced, keepsResults: true)
        let began = state.begin(isFromSource: true)
        let member = try #require(began)
        let operation = RequestOperation(Request.stub("0"), transport: StubServer().transport)
        let isToBeCancelled = state.run(member, operation)
        #expect(!isToBeCancelled)
        state.settle(member, .failure(RequestError(.connectionLost, "cut")))
        state.stop()
        let waiters = state.takeFinish()
        #expect(waiters?.isEmpty == true)
        return state
    }

    @Test func whatWasAnnouncedAndNotTakenHasResults() throws {
        let state = try stopped(announced: 1_000)
        let codes = state.results.map(\.code)
        #expect(codes.count == 1_000)
        #expect(codes.first == .connectionLost)
        #expect(codes.dropFirst().allSatisfy { $0 == .cancelled })
        #expect(state.meter.progress.finishedCount == 1_000)
        #expect(state.meter.progress.totalCount == 1_000)
        #expect(state.meter.progress.skippedCount == 999)
    }

    /// A lazy collection may announce more results than there is memory for.
    @Test(arguments: [(1 << 22) + 1, Int.max]) func whatCannotBeListedIsNot(announced: Int) throws {
        let state = try stopped(announced: announced)
        #expect(state.results.map(\.code) == [.connectionLost])
        #expect(state.meter.progress.finishedCount == 1)
        #expect(state.meter.progress.totalCount == 1)
    }
}
