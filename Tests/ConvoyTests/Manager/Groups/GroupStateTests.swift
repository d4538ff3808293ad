import Foundation
import Testing

@testable import Convoy

@Suite struct GroupStateTests {
    private enum Step: CaseIterable { case begin, add, addOther, leave, leaveOther, fail, returned, threw, stop, end }

    private let members = (RequestOperation(Request<Data>.stub("a")), RequestOperation(Request<Data>.stub("b")))
    private let value = AnyOutcome(error: nil)
    private let failure = AnyOutcome(error: RequestError(.cancelled, ""))

    /// The state after one order of events.
    private struct Run {
        var state = GroupState { _ in AnyOutcome(error: nil) }
        var (starts, outcomes, stops) = (0, [AnyOutcome](), 0)
        var (hasBegun, hasReturned, wasStopped, hasEnded) = (false, false, false, false)
    }

    /// Tries every possible order of up to seven events.
    @Test func aGroupEndsOnceAndOnlyAfterItsFunctionAndItsMembers() {
        var count = 0
        explore(Run(), depth: 7, &count)
        #expect(count > 5_000)
    }

    private func explore(_ run: Run, depth: Int, _ count: inout Int) {
        count += 1
        guard depth > 0 else { return }
        for step in Step.allCases {
            var next = run
            guard perform(step, &next) else { continue }
            check(next)
            explore(next, depth: depth - 1, &count)
        }
    }

    private func check(_ run: Run) {
        let isReady = run.hasReturned && run.state.members.isEmpty
        #expect(run.starts <= 1 && run.outcomes.count <= 1)
        #expect(run.outcomes.isEmpty || run.hasReturned)
        #expect(!isReady || run.outcomes.count == 1 || run.hasEnded)
        #expect(run.state.isStopped == run.wasStopped)
    }

    /// Performs a step; returns false if the step is not possible now.
    private func perform(_ step: Step, _ run: inout Run) -> Bool {
        func take(_ effects: GroupState.Effects?) {
            guard let effects else { return }
            if let outcome = effects.outcome {
                #expect(outcome === (run.wasStopped ? failure : value))
                run.outcomes.append(outcome)
            }
        }
        let isOver = run.hasEnded || !run.outcomes.isEmpty
        switch step {
        case .begin:
            guard !run.hasBegun, !run.hasEnded else { return false }
            run.hasBegun = true
            if run.state.begin() != nil { run.starts += 1 } else { #expect(run.wasStopped) }
        case .add, .addOther:
            guard run.starts > 0 else { return false }
            let member = step == .add ? members.0 : members.1
            let isMember = run.state.members[ObjectIdentifier(member)] != nil
            switch run.state.add(member) {
            case .joined(let isStopped): #expect(isStopped == run.wasStopped && !isMember && !isOver)
            case .isMember: #expect(isMember)
            case .late: #expect(isOver)
            }
        case .leave, .leaveOther, .fail:
            let member = step == .leaveOther ? members.1 : members.0
            guard run.state.members[ObjectIdentifier(member)] != nil else { return false }
            if step == .fail { run.wasStopped = true }
            take(run.state.leave(member, step == .fail ? failure : nil))
        case .returned, .threw:
            guard run.starts > 0, !run.hasReturned else { return false }
            run.hasReturned = true
            if step == .threw { run.wasStopped = true }
            take(run.state.returned(step == .threw ? failure : value))
        case .stop:
            let effects = run.state.stop(failure)
            #expect((effects == nil) == (run.starts == 0 || isOver))
            if !isOver {
                let isFirst = !run.wasStopped
                run.wasStopped = true
                if let effects { #expect(effects.members.count == (isFirst ? run.state.members.count : 0)) }
            }
        case .end:
            // The operation was never started, or it has ended.
            guard !run.hasEnded, run.starts == 0 || !run.outcomes.isEmpty else { return false }
            run.hasEnded = true
            #expect(run.state.end() != nil && run.state.work == nil)
        }
        return true
    }
}
