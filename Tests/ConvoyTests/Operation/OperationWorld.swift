@testable import Convoy

/// One operation without threads: its state machine, its pending steps, its task, its slot and its owner.
///
/// Threads perform some steps outside the operation's lock. These steps may run later and in any order.
///
/// A world is a value, so the exploration can copy it. The exploration tries all possible next steps of each world, and
/// visits each world once.
struct OperationWorld: Hashable {
    enum Step: Hashable {
        case endHandover
        case start
        case begin
        case launch(Int)
        case makeTask(Int)
        case resumeTask(Int)
        case adjust
        case leaveSlot
        case notifyScheduler
        case endSuspendedAttempt
        case closeSuspendedAttempt
        case decide(Int)
        case queueAgain
        case decode(Int)
        case resumeAttempt(OperationStateMachine.Event)
        case finish
        case deliver
        case sendOff
        case handlerReturns
    }

    enum Slot: Hashable {
        case none, queued, taken
        /// The slot was released because of a suspension; a resume queues the operation again.
        case givenBack
        /// The slot was released after an attempt that another one follows, or because a suspension put off an attempt.
        ///
        /// The step `queueAgain` requests another slot, or a later resume does.
        case aside
        case over
    }

    enum TaskState: Hashable { case none, made, running, paused, cancelled, ended }

    struct Bounds: Hashable {
        var attempts = 2
        var suspensions = 2
        var holds = 1
        var handlers = 1
    }

    let bounds: Bounds
    let pausesInPlace: Bool
    let isCommitting: Bool
    var machine = OperationStateMachine()
    /// The pending steps, which have no order; they are sorted, so that equal worlds are equal.
    var steps: [Step] = []
    var slot = Slot.none
    var slotCount: UInt32 = 0
    /// The number of suspensions of which the scheduler was notified.
    var toldSuspensions: UInt32 = 0
    var task = TaskState.none
    var taskAttempt = 0
    var isReaderBehind = false
    var suspendCount = 0
    var holdCount = 0
    var isCancelled = false
    var isInQueue = false
    var startedByHand = false
    var outcomes = 0
    var deliveries = 0
    var settlements = 0
    var handlersRun = 0
    var isFinishedTold = false
    /// The first broken invariant; nil if there is none.
    var violation: String?

    init(_ bounds: Bounds = Bounds(), pausesInPlace: Bool, isCommitting: Bool = false) {
        (self.bounds, self.pausesInPlace, self.isCommitting) = (bounds, pausesInPlace, isCommitting)
    }

    /// All worlds that can follow, each with the name of its event.
    func successors() -> [(String, OperationWorld)] {
        var result: [(String, OperationWorld)] = []
        func add(_ name: String, _ change: (inout OperationWorld) -> Void) {
            var next = self
            change(&next)
            next.steps.sort { $0.hashValue < $1.hashValue }
            result.append((name, next))
        }
        for (index, step) in steps.enumerated() where !steps[..<index].contains(step) {
            add("\(step)") {
                $0.steps.remove(at: index)
                $0.perform(step)
            }
        }
        addOwner(add)
        addSurroundings(add)
        return result
    }

    private func addOwner(_ add: (String, (inout OperationWorld) -> Void) -> Void) {
        if slot == .none, machine.isWaitingToStart { add("enqueue") { $0.enqueue() } }
        if !isCancelled { add("cancel") { $0.cancel() } }
        if !startedByHand, slot == .none { add("start by hand") { $0.startByHand() } }
        if !machine.isSuspended, suspendCount < bounds.suspensions { add("suspend") { $0.suspend() } }
        if machine.isSuspended { add("resume") { $0.resume() } }
    }

    /// Adds the actions of the scheduler, the queue, the transport and the reader of the body.
    private func addSurroundings(_ add: (String, (inout OperationWorld) -> Void) -> Void) {
        if slot == .queued { add("slot") { $0.giveSlot() } }
        if isInQueue, machine.isWaitingToStart, !steps.contains(.start) {
            add("queue starts") { $0.steps.append(.start) }
        }
        if task == .running {
            add("task ends") { $0.endTask() }
            if pausesInPlace, !isReaderBehind, holdCount < bounds.holds {
                add("reader falls behind") { $0.hold() }
            }
        }
        if isReaderBehind {
            add("reader catches up") {
                $0.isReaderBehind = false
                $0.steps.append(.adjust)
            }
        }
    }

    // MARK: The state machine

    mutating func handle(_ event: OperationStateMachine.Event) -> OperationStateMachine.Effects {
        let effects = machine.handle(event)
        if effects.finishes || effects.abandons {
            if case .start = event {} else { outcomes += 1 }
            if outcomes > 1 { violation = "two outcomes" }
        }
        if effects.settles {
            settlements += 1
            if settlements > 1 { violation = "settled twice" }
            if handlersRun < bounds.handlers { violation = "settled before a handler had returned" }
        }
        return effects
    }

    mutating func fail(_ text: String) { violation = violation ?? text }
}
