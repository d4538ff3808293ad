@testable import Convoy

/// The stages of an operation, and the events that a test combines with each stage.
enum OperationStages {
    typealias Event = OperationStateMachine.Event

    /// Every stage, with the earlier stage and the events that lead from it.
    static let ways: [(name: String, from: String?, events: [Event])] = [
        ("created", nil, []),
        ("on its way into a queue", "created", [.handoverBegan]),
        ("wanted on that way", "on its way into a queue", [.start(mayBeBlocked: false)]),
        ("suspended before its start", "created", [.suspend(pausesInPlace: true)]),
        ("abandoned", "created", [.end(attempt: nil)]),
        ("begun", "created", [.start(mayBeBlocked: false)]),
        ("resting", "begun", [.suspend(pausesInPlace: false), launch(1, false)]),
        ("launching", "begun", [launch(1, true)]),
        ("setting off", "launching", [.taskMade(attempt: 1, pausesInPlace: true)]),
        ("held while setting off", "setting off", [.taskPaused(attempt: 1)]),
        ("running", "setting off", [.taskResumed(attempt: 1)]),
        ("held", "running", [.taskPaused(attempt: 1)]),
        ("suspended", "running", [.suspend(pausesInPlace: true), .adjust(isPaused: false)]),
        ("without its slot", "suspended", [.cameToRest]),
        ("resumed without a slot", "without its slot", [.resume]),
        ("ended by its suspension", "running", [.suspend(pausesInPlace: false)]),
        ("deciding", "running", [.attemptEnded(attempt: 1)]),
        ("waiting", "deciding", [.repeats(attempt: 1)]),
        ("waiting for a slot", "waiting", [.queued(slots: 0)]),
        (
            "in its second attempt", "waiting for a slot",
            [.slotGiven(.init(number: 1, suspensionChanges: 0)), launch(2, true)]
        ),
        ("decoding", "running", [.bodyComplete(attempt: 1, commits: false)]),
        ("committing", "running", [.bodyComplete(attempt: 1, commits: true)]),
        ("finishing", "running", [.end(attempt: 1)]),
        ("finishing unstarted", "abandoned", [.start(mayBeBlocked: false)]),
        ("finished", "finishing", [.finished]),
        ("calling its handlers", "finished", [.delivery(.begin), .delivery(.handlersSent(1))]),
        ("with a handler under way", "calling its handlers", [.delivery(.sentOff)]),
        ("settled", "with a handler under way", [.delivery(.handlerReturned), .delivery(.endNotified)]),
    ]

    /// All events, with different values where they matter.
    static let events: [(name: String, event: Event)] = [
        ("handoverBegan", .handoverBegan), ("handoverEnded", .handoverEnded), ("start", .start(mayBeBlocked: false)),
        ("start, with edges", .start(mayBeBlocked: true)),
        ("suspend", .suspend(pausesInPlace: true)), ("suspend, not in place", .suspend(pausesInPlace: false)),
        ("resume", .resume), ("launch 1", launch(1, true)), ("launch 1, not in place", launch(1, false)),
        ("taskMade 1", .taskMade(attempt: 1, pausesInPlace: true)),
        ("taskMade 1, not in place", .taskMade(attempt: 1, pausesInPlace: false)), ("taskNotMade", .taskNotMade),
        ("taskResumed 1", .taskResumed(attempt: 1)), ("taskPaused 1", .taskPaused(attempt: 1)),
        ("adjust", .adjust(isPaused: false)), ("adjust, held", .adjust(isPaused: true)),
        ("attemptClosed", .attemptClosed),
        ("cameToRest", .cameToRest), ("slotGiven, none needed", .slotGiven(nil)),
        ("slotGiven 2", .slotGiven(.init(number: 2, suspensionChanges: 0))),
        ("slotKept 1", .slotKept(.init(number: 1, suspensionChanges: 2))), ("putOff 1", .putOff(attempt: 1)),
        ("queued", .queued(slots: 0)), ("attemptEnded 1", .attemptEnded(attempt: 1)),
        ("repeats 1", .repeats(attempt: 1)),
        ("bodyComplete 1", .bodyComplete(attempt: 1, commits: false)), ("end", .end(attempt: nil)),
        ("end 1", .end(attempt: 1)), ("endBeforeStart", .endBeforeStart), ("finished", .finished),
        ("delivery.begin", .delivery(.begin)), ("delivery.handlersSent", .delivery(.handlersSent(1))),
        ("delivery.handlerReturned", .delivery(.handlerReturned)),
        ("delivery.sentOff", .delivery(.sentOff)), ("delivery.endNotified", .delivery(.endNotified)),
    ]

    private static func launch(_ attempt: Int, _ pausesInPlace: Bool) -> Event {
        .launch(attempt: attempt, pausesInPlace: pausesInPlace, isClaim: true)
    }

    static func machine(_ name: String) -> OperationStateMachine {
        guard let way = ways.first(where: { $0.name == name }) else { return OperationStateMachine() }
        var machine = way.from.map(machine) ?? OperationStateMachine()
        for event in way.events { _ = machine.handle(event) }
        return machine
    }
}
