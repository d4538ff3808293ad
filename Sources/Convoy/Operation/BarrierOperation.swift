// A barrier of a manager's own queue, as an operation among its requests.
import Foundation

// A cycle through a barrier is found like any other. Callers never see the barrier.
final class BarrierOperation: AnyRequestOperation, @unchecked Sendable {
    // @unchecked: this class adds only the constant `block`, which has its own lock.

    private static let queue = DispatchQueue(label: "convoy.barriers", attributes: .concurrent)
    private let block: Locked<(@Sendable () -> Void)?>

    init(_ scheduler: Scheduler, block: @escaping @Sendable () -> Void) {
        self.block = Locked(block)
        super.init(requestPlan: .none, scheduler: scheduler, isMonitored: false)
        name = "a barrier"
    }

    /// Ignores a cancellation while the block is running: the barrier finishes after the block.
    override func postpones(_ outcome: AnyOutcome) -> Bool { isExecuting }

    override func begin() {
        // The block may be slow, so it has its own thread.
        Self.queue.async {
            let block = self.block.withLock { block in
                defer { block = nil }
                return block
            }
            block?()
            self.conclude(AnyOutcome(error: nil))
        }
    }
}
