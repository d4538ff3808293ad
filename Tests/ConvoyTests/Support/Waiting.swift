// Outcomes and queues in tests.
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
