import Foundation
import Testing

@testable import Convoy

@Suite struct BatchStateTests {
    /// The state of a stopped batch that pulled one request from its source.
    ///
    /// That request failed.
    private func stopped(announced: Int) throws -> BatchState {
        var state = BatchState(announced: announced, keepsResults: true)
        let began = state.begin(isFromSource: true)
        let member = try #require(began)
        let operation = RequestOperation(Request.stub("0"), transport: StubServer().transport)
        let isToBeCancelled = state.run(member, operation)
        #expect(!isToBeCancelled)
        state.finish(member, AnyOutcome(error: RequestError(.connectionLost, "cut")), nil)
        state.stop()
        let waiters = state.takeFinish()
        #expect(waiters?.isEmpty == true)
        return state
    }

    @Test func announcedRequestsThatWereNotPulledHaveResults() throws {
        let state = try stopped(announced: 1_000)
        let codes = state.outcomes.map { $0?.error?.code }
        #expect(codes.count == 1_000)
        #expect(codes.first == .connectionLost)
        #expect(codes.dropFirst().allSatisfy { $0 == nil })
        #expect(state.meter.progress.finishedCount == 1_000)
        #expect(state.meter.progress.totalCount == 1_000)
        #expect(state.meter.progress.skippedCount == 999)
    }

    /// A lazy collection may announce more results than fit into memory.
    @Test(arguments: [(1 << 22) + 1, Int.max]) func tooManyAnnouncedResultsAreNotListed(announced: Int) throws {
        let state = try stopped(announced: announced)
        #expect(state.outcomes.map { $0?.error?.code } == [.connectionLost])
        #expect(state.meter.progress.finishedCount == 1)
        #expect(state.meter.progress.totalCount == 1)
    }
}
