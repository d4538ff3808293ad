import Testing

@testable import Convoy

@Suite struct OperationStateMachineTests {
    typealias Phase = OperationStateMachine.Phase

    /// Every phase, with the events that lead there.
    static let phases: [(String, OperationStateMachine)] = [
        ("pending", make { _ in }),
        ("abandoned", make { _ = $0.claim() }),
        ("executing", make { _ = $0.start() }),
        (
            "second attempt",
            make {
                _ = $0.start()
                _ = $0.nextAttempt()
            }
        ),
        (
            "decoding",
            make {
                _ = $0.start()
                _ = $0.bodyComplete(attempt: 1)
            }
        ),
        (
            "committed",
            make {
                _ = $0.start()
                _ = $0.bodyComplete(attempt: 1, commits: true)
            }
        ),
        (
            "finishing",
            make {
                _ = $0.start()
                _ = $0.claim()
            }
        ),
        (
            "finishing unstarted",
            make {
                _ = $0.claim()
                _ = $0.start()
            }
        ),
        (
            "finished",
            make {
                _ = $0.start()
                _ = $0.claim()
                $0.commit()
            }
        ),
    ]

    static func make(_ body: (inout OperationStateMachine) -> Void) -> OperationStateMachine {
        var machine = OperationStateMachine()
        body(&machine)
        return machine
    }

    static func machine(_ name: String) -> OperationStateMachine {
        phases.first { $0.0 == name }?.1 ?? OperationStateMachine()
    }

    @Test(arguments: [
        ("pending", OperationStateMachine.StartEffect.execute(attempt: 1), Phase.executing(attempt: 1)),
        ("abandoned", .finish, .finishing(wasExecuting: false)),
        ("executing", .ignore, .executing(attempt: 1)),
        ("second attempt", .ignore, .executing(attempt: 2)),
        ("decoding", .ignore, .decoding(attempt: 1, isCommitted: false)),
        ("committed", .ignore, .decoding(attempt: 1, isCommitted: true)),
        ("finishing", .ignore, .finishing(wasExecuting: true)),
        ("finishing unstarted", .ignore, .finishing(wasExecuting: false)),
        ("finished", .ignore, .finished),
    ])
    func startExecutesOnceOrFinishesWhatWasAbandoned(
        name: String, effect: OperationStateMachine.StartEffect, next: Phase
    ) {
        var machine = Self.machine(name)
        #expect(machine.start() == effect)
        #expect(machine.phase == next)
    }

    @Test(arguments: [
        ("pending", OperationStateMachine.ClaimEffect.abandon, Phase.abandoned),
        ("abandoned", .ignore, .abandoned),
        ("executing", .finish, .finishing(wasExecuting: true)),
        ("second attempt", .finish, .finishing(wasExecuting: true)),
        ("decoding", .finish, .finishing(wasExecuting: true)),
        ("committed", .ignore, .decoding(attempt: 1, isCommitted: true)),
        ("finishing", .ignore, .finishing(wasExecuting: true)),
        ("finishing unstarted", .ignore, .finishing(wasExecuting: false)),
        ("finished", .ignore, .finished),
    ])
    func onlyTheFirstClaimWins(name: String, effect: OperationStateMachine.ClaimEffect, next: Phase) {
        var machine = Self.machine(name)
        #expect(machine.claim() == effect)
        #expect(machine.phase == next)
        #expect(machine.claim() == .ignore)
    }

    @Test(arguments: [
        ("pending", false), ("abandoned", false), ("executing", true), ("second attempt", false), ("decoding", true),
        ("committed", true),
        ("finishing", false), ("finishing unstarted", false), ("finished", false),
    ])
    func theEndOfAnAttemptCountsOnlyWhileThatAttemptIsTheLast(name: String, counts: Bool) {
        var machine = Self.machine(name)
        #expect(machine.claim(attempt: 1) == (counts ? .finish : .ignore))
    }

    @Test(arguments: phases.map(\.0))
    func aBodyIsCompleteOnlyForTheAttemptUnderWay(name: String) {
        for attempt in 1...3 {
            var machine = Self.machine(name)
            let isCurrent = machine.phase == .executing(attempt: attempt)
            #expect(machine.accepts(attempt: attempt) == isCurrent)
            #expect(machine.bodyComplete(attempt: attempt) == isCurrent)
            #expect(
                machine.phase
                    == (isCurrent ? .decoding(attempt: attempt, isCommitted: false) : Self.machine(name).phase))
        }
    }

    @Test(arguments: phases.map(\.0))
    func attemptsAreNumberedUpwardsWhileExecuting(name: String) {
        var machine = Self.machine(name)
        let before = machine.currentAttempt
        #expect(machine.nextAttempt() == before.map { $0 + 1 })
        #expect(machine.currentAttempt == before.map { $0 + 1 })
    }

    @Test(arguments: phases.map(\.0))
    func commitFinishesOnlyWhatIsFinishing(name: String) {
        var machine = Self.machine(name)
        machine.commit()
        #expect(machine.isFinished == name.hasPrefix("finish"))
        if machine.isFinished { #expect(!machine.isExecuting) }
    }

    @Test(arguments: [
        ("pending", false), ("abandoned", false), ("executing", true), ("second attempt", true), ("decoding", true),
        ("committed", true),
        ("finishing", true), ("finishing unstarted", false), ("finished", false),
    ])
    func isExecutingFromStartToCommit(name: String, isExecuting: Bool) {
        #expect(Self.machine(name).isExecuting == isExecuting)
    }

    @Test(arguments: phases.map(\.0))
    func abandoningWorksOnlyBeforeTheStart(name: String) {
        var machine = Self.machine(name)
        #expect(machine.abandon() == (name == "pending" ? .abandon : .ignore))
    }
}
