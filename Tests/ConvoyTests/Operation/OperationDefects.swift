@testable import Convoy

extension OperationWorld {
    /// Possible mistakes of the state machine, or of the code that performs its effects; the exploration finds each.
    enum Defect: CaseIterable {
        // Events that are lost.
        case returnOfResume, pause, closeOfASuspendedAttempt, comingToRest, endOfHandover, failedWayIntoTheNextAttempt
        case askingForASlot, finishing, endForTheDelivery, returnOfAHandler, delivery
        // Events that are taken for others.
        case slotCountsThoughSuspendedSince, keptSlotBeginsWhatWaits, taskThatCannotPauseIsKept, readerIsNotAsked
        case cancellationEndsWhatIsCommitted
        // Effects that are lost or doubled.
        case startIsNotCalledAgain, resumeDoesNotLookAtTheTask, suspendDoesNotLookAtTheTask, resumeDoesNotLaunch
        case slotDoesNotLaunch, suspendedAttemptIsNotEnded, taskIsNotResumed, eventsDuringResumeAreNotLookedAt
        case handlersAreCalledByEach, secondOutcomeIsStored, slotIsNeverGivenBack

        /// Whether the exploration finds the defect only after more events than a short run visits.
        var isDeep: Bool { self == .slotCountsThoughSuspendedSince }
        var isCommitting: Bool { self == .cancellationEndsWhatIsCommitted }
        /// Whether the defect needs a transport that can pause.
        var pausesInPlace: Bool {
            switch self {
            case .returnOfResume, .pause, .readerIsNotAsked, .cancellationEndsWhatIsCommitted,
                .resumeDoesNotLookAtTheTask, .suspendDoesNotLookAtTheTask, .eventsDuringResumeAreNotLookedAt:
                true
            default: false
            }
        }

        /// The event that the machine handles instead; nil for none.
        func changed(_ event: OperationStateMachine.Event, _ machine: OperationStateMachine)
            -> OperationStateMachine.Event?
        {
            switch (self, event) {
            case (.returnOfResume, .taskResumed), (.pause, .taskPaused), (.closeOfASuspendedAttempt, .attemptClosed),
                (.comingToRest, .cameToRest), (.endOfHandover, .handoverEnded), (.askingForASlot, .queued),
                (.failedWayIntoTheNextAttempt, .putOff), (.finishing, .finished),
                (.endForTheDelivery, .delivery(.endNotified)), (.returnOfAHandler, .delivery(.handlerReturned)),
                (.delivery, .delivery(.begin)):
                return nil
            case (.slotCountsThoughSuspendedSince, .slotGiven(let slot?)):
                return .slotGiven(.init(number: slot.number, suspensionChanges: machine.suspensionChanges))
            case (.keptSlotBeginsWhatWaits, .slotKept(let slot)): return .slotGiven(slot)
            case (.taskThatCannotPauseIsKept, .taskMade(let attempt, false)):
                return .taskMade(attempt: attempt, pausesInPlace: true)
            case (.readerIsNotAsked, .adjust): return .adjust(isPaused: false)
            case (.cancellationEndsWhatIsCommitted, .end(attempt: nil)):
                guard case .decoding(let attempt, true) = machine.phase else { return event }
                return .end(attempt: attempt)
            default: return event
            }
        }

        func change(_ effects: inout OperationStateMachine.Effects, of event: OperationStateMachine.Event) {
            switch (self, event) {
            case (.startIsNotCalledAgain, .handoverEnded): effects.starts = false
            case (.resumeDoesNotLookAtTheTask, .resume), (.suspendDoesNotLookAtTheTask, .suspend),
                (.eventsDuringResumeAreNotLookedAt, .taskResumed):
                effects.adjusts = false
            case (.resumeDoesNotLaunch, .resume), (.slotDoesNotLaunch, .slotGiven): effects.launches = nil
            case (.suspendedAttemptIsNotEnded, .suspend): effects.endsAttempt = false
            case (.taskIsNotResumed, .taskMade): effects.runsTask = nil
            case (.handlersAreCalledByEach, .delivery(.begin)): effects.isTaken = true
            case (.secondOutcomeIsStored, .end): effects.finishes = true
            case (.slotIsNeverGivenBack, .cameToRest): effects.leavesSlot = false
            default: break
            }
        }
    }
}
