// How a group is started: by the operation queue, without a place there.
import Foundation

extension Scheduler {
    /// Has the operation queue start a group when it comes to it.
    ///
    /// The group itself never is in that queue: it would have a place there for as long as it lasts, which its members may
    /// need.
    func startLater(_ group: AnyRequestOperation) {
        let starter = GroupStarter(group) { [self] in
            let suspension = group.suspension
            if change(group, { $0.groupStarts($1, suspension) }) == true { group.start() }
        }
        starter.queuePriority = group.queuePriority
        if let ownQueue { ownQueue.addAtOnce(starter) } else { queue.addOperation(starter) }
    }
}

/// Stands for a group in the operation queue until that has started it.
private final class GroupStarter: Operation, @unchecked Sendable {
    // @unchecked: `Operation` forces it; both properties are constant.
    private let group: AnyRequestOperation
    private let begin: @Sendable () -> Void

    init(_ group: AnyRequestOperation, begin: @escaping @Sendable () -> Void) {
        (self.group, self.begin) = (group, begin)
    }

    override func main() { begin() }

    /// A queue that cancels all it has means the group.
    override func cancel() {
        super.cancel()
        group.cancel()
    }
}
