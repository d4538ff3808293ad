// The error of a result, and a wait for a queue with a time limit.
import Foundation
import Testing

extension Result {
    var failure: (any Error)? { if case .failure(let error) = self { error } else { nil } }
}

extension OperationQueue {
    /// Waits until every operation in the queue has finished.
    func waitUntilAllOperationsAreFinished(within bound: Duration) async {
        let isEmpty = EventLog<Void>()
        addBarrierBlock { isEmpty.record(()) }
        await isEmpty.wait(within: bound)
    }
}
