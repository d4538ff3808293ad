@testable import Convoy

extension OperationWorld.Defect {
    private typealias Event = OperationStateMachine.Event

    private static func dropping(
        _ name: String, _ place: Place = Place(), _ isMeant: @escaping @Sendable (Event) -> Bool
    ) -> Self { Self(name: name, place: place, event: { event, _ in isMeant(event) ? nil : event }) }

    private static func changing(
        _ name: String, _ place: Place = Place(),
        _ change: @escaping @Sendable (Event, inout OperationStateMachine.Effects) -> Void
    ) -> Self { Self(name: name, place: place, effects: change) }

    /// Possible mistakes of the state machine, or of the code that performs its effects.
    static let all: [Self] = [
        dropping("the return of resume() is not noted", .init(pausesInPlace: true)) {
            if case .taskResumed = $0 { true } else { false }
        },
        dropping("a task that holds by itself is not noted", .init(pausesInPlace: true)) {
            if case .taskPaused = $0 { true } else { false }
        },
        dropping("the close of a suspended attempt is not noted") { $0 == .attemptClosed },
        dropping("coming to rest is not noted") { $0 == .cameToRest },
        dropping("the end of the way into a queue is not noted") { $0 == .handoverEnded },
        dropping("a failed way into the next attempt") { if case .putOff = $0 { true } else { false } },
        dropping("asking for a slot is not noted") { if case .queued = $0 { true } else { false } },
        dropping("finishing is forgotten") { $0 == .finished },
        dropping("the end is not told to the delivery") { $0 == .delivery(.endNotified) },
        dropping("the return of a handler is not noted") { $0 == .delivery(.handlerReturned) },
        Self(
            name: "a slot counts though it was suspended since", place: .init(isDeep: true),
            event: { event, machine in
                guard case .slotGiven(let slot?) = event else { return event }
                return .slotGiven(.init(number: slot.number, suspensionChanges: machine.suspensionChanges))
            }),
        Self(
            name: "a slot that was kept begins what waits",
            event: { event, _ in
                guard case .slotKept(let slot) = event else { return event }
                return .slotGiven(slot)
            }),
        Self(
            name: "a task that cannot pause is kept",
            event: { event, _ in
                guard case .taskMade(let attempt, false) = event else { return event }
                return .taskMade(attempt: attempt, pausesInPlace: true)
            }),
        Self(
            name: "the reader is not asked", place: .init(pausesInPlace: true),
            event: { event, _ in if case .adjust = event { .adjust(isPaused: false) } else { event } }),
        Self(
            name: "a cancellation ends what is committed", place: .init(pausesInPlace: true, isCommitting: true),
            event: { event, machine in
                guard event == .end(attempt: nil), case .decoding(let attempt, true) = machine.phase else {
                    return event
                }
                return .end(attempt: attempt)
            }),
        changing("start() is not called again") { event, effects in
            if event == .handoverEnded { effects.starts = false }
        },
        changing("resume() does not look at the task", .init(pausesInPlace: true)) { event, effects in
            if event == .resume { effects.adjusts = false }
        },
        changing("suspend() does not look at the task", .init(pausesInPlace: true)) { event, effects in
            if case .suspend = event { effects.adjusts = false }
        },
        changing("resume() does not launch") { event, effects in if event == .resume { effects.launches = nil } },
        changing("a slot does not launch") { event, effects in
            if case .slotGiven = event { effects.launches = nil }
        },
        changing("a suspended attempt is not ended") { event, effects in
            if case .suspend = event { effects.endsAttempt = false }
        },
        changing("a task is made and not resumed") { event, effects in
            if case .taskMade = event { effects.runsTask = nil }
        },
        changing("what came during resume() is not looked at", .init(pausesInPlace: true)) { event, effects in
            if case .taskResumed = event { effects.adjusts = false }
        },
        changing("handlers are called by each who asks") { event, effects in
            if event == .delivery(.begin) { effects.isTaken = true }
        },
        changing("a second outcome is stored") { event, effects in
            if case .end = event { effects.finishes = true }
        },
        dropping("the outcome is not delivered") { $0 == .delivery(.begin) },
        changing("the slot is never given back") { event, effects in
            if event == .cameToRest { effects.leavesSlot = false }
        },
    ]
}
