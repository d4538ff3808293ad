import Convoy

extension SchedulerWorld {
    /// A defect that the exploration must find: a wrong report to the state, or wrong effects.
    enum Defect: CaseIterable {
        case lateWordsOfDependenciesCount, lateWordsOfSuspensionCount, lateWordsOfPriorityCount
        case theEndOfDependenciesIsNotTold, resumingIsNotTold, prioritiesAreNotTold
        case theEndIsNotTold, theLastCallbackIsNotTold, theAbandonedAreNotTold, theAbandonedAreNotStarted
        case nothingIsPrepared, aKeptSlotIsNotTold, nothingIsHandedOverAfterAnEvent, handingOverNeverEnds
        case limitIsExceeded, hostLimitIsExceeded, suspensionOfTheManagerIsIgnored, suspensionOfTheQueueIsIgnored
        case slotsAreKeptDuringWaits, waitsAreForgotten, whatMayNotBeginBegins, theNextHostIsNotTold
        case aHoldIsLiftedEarly, aHoldIsNeverLifted
        case aSharedTransferIsNotLeft, answersAreNotTold, theQueueIsNotGivenWhatEnters
        case exclusionsAreIgnored
    }
}
