extension OperationStages {
    /// The effects of every event at every stage.
    ///
    /// An event that a stage does not list is dropped and changes nothing.
    static let table = """
        created:
          handoverBegan: handover underWay
          start: executing(attempt: 1) -> begin
          start, with edges: -> look at the graph
          suspend: suspended -> look at the task
          suspend, not in place: suspended -> look at the task
          end: abandoned -> deliver before the start
          endBeforeStart: abandoned -> deliver before the start
          delivery.endNotified: end notified
        on its way into a queue:
          handoverBegan: counts
          handoverEnded: handover none
          start: handover startWanted
          start, with edges: handover startWanted
          suspend: suspended -> look at the task
          suspend, not in place: suspended -> look at the task
          end: abandoned -> deliver before the start
          endBeforeStart: abandoned -> deliver before the start
          delivery.endNotified: end notified
        wanted on that way:
          handoverBegan: handover underWay
          handoverEnded: handover none -> start
          start: counts
          start, with edges: counts
          suspend: suspended -> look at the task
          suspend, not in place: suspended -> look at the task
          end: abandoned -> deliver before the start
          endBeforeStart: abandoned -> deliver before the start
          delivery.endNotified: end notified
        suspended before its start:
          handoverBegan: handover underWay
          start: executing(attempt: 1) -> begin
          start, with edges: -> look at the graph
          resume: not suspended -> look at the task
          end: abandoned -> deliver before the start
          endBeforeStart: abandoned -> deliver before the start
          delivery.endNotified: end notified
        abandoned:
          handoverBegan: handover underWay
          start: finishing(wasExecuting: false) -> finish
          start, with edges: finishing(wasExecuting: false) -> finish
          delivery.begin: handlers sending, 1 running
          delivery.endNotified: end notified
        begun:
          suspend: suspended -> look at the task
          suspend, not in place: suspended -> look at the task
          launch 1: task launching
          launch 1, not in place: task launching
          slotGiven, none needed: counts
          slotGiven 2: counts
          slotKept 1: counts
          putOff 1: waiting(attempt: 1)
          attemptEnded 1: deciding(attempt: 1)
          bodyComplete 1: decoding(attempt: 1, isCommitted: false)
          end: finishing(wasExecuting: true) -> finish
          end 1: finishing(wasExecuting: true) -> finish
          delivery.endNotified: end notified
        resting:
          resume: not suspended, rests no more -> launch 1
          launch 1: task launching, rests no more
          cameToRest: awaits a slot -> give the slot back
          slotGiven, none needed: counts
          slotGiven 2: counts
          slotKept 1: counts
          putOff 1: waiting(attempt: 1)
          attemptEnded 1: deciding(attempt: 1)
          bodyComplete 1: decoding(attempt: 1, isCommitted: false)
          end: finishing(wasExecuting: true) -> finish
          end 1: finishing(wasExecuting: true) -> finish
          delivery.endNotified: end notified
        launching:
          suspend: suspended -> look at the task
          suspend, not in place: suspended -> look at the task
          taskMade 1: task settingOff(runs: true) -> resume the task
          taskMade 1, not in place: task settingOff(runs: true) -> resume the task
          taskNotMade: task none
          attemptClosed: task none -> launch 1
          slotGiven, none needed: counts
          slotGiven 2: counts
          slotKept 1: counts
          putOff 1: waiting(attempt: 1)
          attemptEnded 1: deciding(attempt: 1)
          bodyComplete 1: decoding(attempt: 1, isCommitted: false)
          end: finishing(wasExecuting: true), task none -> finish
          end 1: finishing(wasExecuting: true), task none -> finish
          delivery.endNotified: end notified
        setting off:
          suspend: suspended -> look at the task
          suspend, not in place: executing(attempt: 2), task launching, suspended -> end the attempt
          taskResumed 1: task running
          taskPaused 1: task settingOff(runs: false)
          slotGiven, none needed: counts
          slotGiven 2: counts
          slotKept 1: counts
          putOff 1: waiting(attempt: 1)
          attemptEnded 1: deciding(attempt: 1)
          bodyComplete 1: decoding(attempt: 1, isCommitted: false)
          end: finishing(wasExecuting: true), task none -> finish
          end 1: finishing(wasExecuting: true), task none -> finish
          delivery.endNotified: end notified
        held while setting off:
          suspend: suspended -> look at the task
          suspend, not in place: executing(attempt: 2), task launching, suspended -> end the attempt
          taskResumed 1: task paused -> look at the task
          taskPaused 1: counts
          slotGiven, none needed: -> look at the task
          slotGiven 2: -> look at the task
          slotKept 1: -> look at the task
          putOff 1: waiting(attempt: 1)
          attemptEnded 1: deciding(attempt: 1)
          bodyComplete 1: decoding(attempt: 1, isCommitted: false)
          end: finishing(wasExecuting: true), task none -> finish
          end 1: finishing(wasExecuting: true), task none -> finish
          delivery.endNotified: end notified
        running:
          suspend: suspended -> look at the task
          suspend, not in place: executing(attempt: 2), task launching, suspended -> end the attempt
          taskPaused 1: task paused
          adjust, held: task paused -> suspend the task
          slotGiven, none needed: counts
          slotGiven 2: counts
          slotKept 1: counts
          putOff 1: waiting(attempt: 1)
          attemptEnded 1: deciding(attempt: 1)
          bodyComplete 1: decoding(attempt: 1, isCommitted: false)
          end: finishing(wasExecuting: true), task none -> finish
          end 1: finishing(wasExecuting: true), task none -> finish
          delivery.endNotified: end notified
        held:
          suspend: suspended -> look at the task
          suspend, not in place: executing(attempt: 2), task launching, suspended -> end the attempt
          taskPaused 1: counts
          adjust: task running -> resume the task
          slotGiven, none needed: -> look at the task
          slotGiven 2: -> look at the task
          slotKept 1: -> look at the task
          putOff 1: waiting(attempt: 1)
          attemptEnded 1: deciding(attempt: 1)
          bodyComplete 1: decoding(attempt: 1, isCommitted: false)
          end: finishing(wasExecuting: true), task none -> finish
          end 1: finishing(wasExecuting: true), task none -> finish
          delivery.endNotified: end notified
        suspended:
          resume: not suspended -> look at the task
          taskPaused 1: counts
          cameToRest: awaits a slot -> give the slot back
          slotGiven, none needed: -> look at the task
          slotGiven 2: -> look at the task
          slotKept 1: -> look at the task
          putOff 1: waiting(attempt: 1)
          attemptEnded 1: deciding(attempt: 1)
          bodyComplete 1: decoding(attempt: 1, isCommitted: false)
          end: finishing(wasExecuting: true), task none -> finish
          end 1: finishing(wasExecuting: true), task none -> finish
          delivery.endNotified: end notified
        without its slot:
          resume: not suspended -> look at the task
          taskPaused 1: counts
          cameToRest: -> give the slot back
          slotGiven, none needed: -> look at the task
          slotGiven 2: -> look at the task
          slotKept 1: -> look at the task
          putOff 1: waiting(attempt: 1)
          attemptEnded 1: deciding(attempt: 1)
          bodyComplete 1: decoding(attempt: 1, isCommitted: false)
          end: finishing(wasExecuting: true), task none -> finish
          end 1: finishing(wasExecuting: true), task none -> finish
          delivery.endNotified: end notified
        resumed without a slot:
          suspend: suspended -> look at the task
          suspend, not in place: executing(attempt: 2), task launching, suspended -> end the attempt
          taskPaused 1: counts
          slotGiven, none needed: awaits no slot -> look at the task
          slotGiven 2: -> look at the task
          slotKept 1: awaits no slot -> look at the task
          putOff 1: waiting(attempt: 1)
          attemptEnded 1: deciding(attempt: 1)
          bodyComplete 1: decoding(attempt: 1, isCommitted: false)
          end: finishing(wasExecuting: true), task none -> finish
          end 1: finishing(wasExecuting: true), task none -> finish
          delivery.endNotified: end notified
        ended by its suspension:
          resume: not suspended -> look at the task
          taskMade 1: task none
          taskMade 1, not in place: task none
          taskNotMade: task none
          attemptClosed: task none, rests
          slotGiven, none needed: counts
          slotGiven 2: counts
          slotKept 1: counts
          end: finishing(wasExecuting: true), task none -> finish
          delivery.endNotified: end notified
        deciding:
          suspend: suspended -> look at the task
          suspend, not in place: suspended -> look at the task
          repeats 1: waiting(attempt: 2), task none
          bodyComplete 1: decoding(attempt: 1, isCommitted: false)
          end: finishing(wasExecuting: true), task none -> finish
          end 1: finishing(wasExecuting: true), task none -> finish
          delivery.endNotified: end notified
        waiting:
          suspend: suspended -> look at the task
          suspend, not in place: suspended -> look at the task
          slotGiven, none needed: executing(attempt: 2) -> launch 2
          slotGiven 2: offered a slot
          slotKept 1: counts
          queued: waits for a slot
          end: finishing(wasExecuting: true) -> finish
          delivery.endNotified: end notified
        waiting for a slot:
          suspend: suspended -> look at the task
          suspend, not in place: suspended -> look at the task
          slotGiven, none needed: executing(attempt: 2) -> launch 2
          slotGiven 2: executing(attempt: 2) -> launch 2
          slotKept 1: counts
          queued: counts
          end: finishing(wasExecuting: true) -> finish
          delivery.endNotified: end notified
        in its second attempt:
          suspend: suspended -> look at the task
          suspend, not in place: suspended -> look at the task
          taskMade 1: task none
          taskMade 1, not in place: task none
          taskNotMade: task none
          attemptClosed: task none -> launch 2
          slotGiven, none needed: counts
          slotGiven 2: counts
          slotKept 1: counts
          end: finishing(wasExecuting: true), task none -> finish
          delivery.endNotified: end notified
        decoding:
          suspend: suspended -> look at the task
          suspend, not in place: suspended -> look at the task
          end: finishing(wasExecuting: true), task none -> finish
          end 1: finishing(wasExecuting: true), task none -> finish
          delivery.endNotified: end notified
        committing:
          suspend: suspended -> look at the task
          suspend, not in place: suspended -> look at the task
          end 1: finishing(wasExecuting: true), task none -> finish
          delivery.endNotified: end notified
        finishing:
          finished: finished
          delivery.begin: handlers sending, 1 running
          delivery.endNotified: end notified
        finishing unstarted:
          finished: finished
          delivery.begin: handlers sending, 1 running
          delivery.endNotified: end notified
        finished:
          delivery.begin: handlers sending, 1 running
          delivery.endNotified: end notified
        calling its handlers:
          delivery.handlersSent: 3 running
          delivery.handlerReturned: 1 running
          delivery.sentOff: handlers sent, 1 running
          delivery.endNotified: end notified
        with a handler under way:
          delivery.handlerReturned: 0 running -> settle
          delivery.endNotified: end notified
        settled:
          delivery.endNotified: counts
        """
}
