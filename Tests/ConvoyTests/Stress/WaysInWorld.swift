import Convoy
import ConvoyTesting
import Foundation
import Testing

/// A manager with two queues that several threads use.
final class WaysInWorld: Sendable {
    private struct State {
        /// The requests; `ends` counts the calls of their completion blocks.
        var members: [TortureMember] = []
        /// The operations that were added, each with the number of operations before it.
        var entered: [(operation: Operation, after: Int)] = []
        var others: [AnyRequestOperation] = []
        var batches: [Batch<Data>] = []
    }

    let label: String
    let threads: Int
    let manager: RequestManager
    /// The manager's queue, and a queue that the manager does not know.
    let queues: [OperationQueue]
    private let foreign = OperationQueue()
    let stub: TortureStub
    let check = LeakCheck()
    private let seed: Int
    /// Whether each exclusive request uses a different name.
    private let areNamesIgnored: Bool
    private let state = Locked(State())

    /// - Parameter excess: by how much the manager's limits are above those that the stub checks. Above 0, exclusion
    ///   names exclude nothing.
    init(seed: Int, excess: Int) {
        var random = SeededGenerator(seed: UInt64(seed) &+ 0x77_61_79)
        let (slots, perHost) = (Int.random(in: 1...6, using: &random), Int.random(in: 1...3, using: &random))
        let queueLimit = [nil, -1, -1, 1, 2, 5][Int.random(in: 0..<6, using: &random)]
        stub = TortureStub(limits: (slots, perHost))
        areNamesIgnored = excess > 0
        threads = Int.random(in: 2...4, using: &random)
        let configuration = RequestManager.Configuration(
            maxConcurrentOperationCount: slots + excess, maxConcurrentPerHost: perHost + excess,
            transport: .custom(stub.transport))
        let other = OperationQueue()
        other.maxConcurrentOperationCount = [-1, 1, 3][Int.random(in: 0..<3, using: &random)]
        manager = RequestManager(queueLimit: queueLimit, configuration: configuration)
        queues = [manager.queue, other]
        self.seed = seed
        label = "seed \(seed): \(slots) slots, \(perHost) a host, queue \(queueLimit.map { "\($0)" } ?? "own")"
    }

    func torment(_ thread: Int) {
        var random = SeededGenerator(seed: UInt64(seed) &* 8 &+ UInt64(thread))
        for number in 0..<70 {
            switch Int.random(in: 0..<24, using: &random) {
            case 0..<14: enter("\(thread)-\(number)", &random)
            case 14: addBlock(&random)
            case 15: queues.randomElement(using: &random)?.addBarrierBlock {}
            case 16: addGroup(&random)
            case 17:
                (state.withLock { $0.entered.randomElement(using: &random) }?.operation as? AnyRequestOperation)?
                    .cancel()
            case 18 where Int.random(in: 0..<4, using: &random) == 0:
                queues.randomElement(using: &random)?.cancelAllOperations()
            case 19: queues.randomElement(using: &random)?.isSuspended = Bool.random(using: &random)
            case 20: manager.isSuspended = Bool.random(using: &random)
            case 21: queues.last?.maxConcurrentOperationCount = Int.random(in: 1...4, using: &random)
            case 22: for operation in manager.operations.prefix(4) { _ = manager.why(operation) }
            default: change(&random)
            }
        }
    }

    /// Adds a new request in one of the ways.
    private func enter(_ name: String, _ random: inout SeededGenerator) {
        var request = Request<Data>.get("http://h\(Int.random(in: 0..<2, using: &random))/\(name)").named(name)
        switch Int.random(in: 0..<8, using: &random) {
        case 0: request = .get("http://h0/shared").coalesced().named(name)
        case 1: request = .get("http://h1/exclusive").mutuallyExclusive(areNamesIgnored ? name : "it").named(name)
        case 2: request = request.priority(.veryHigh)
        default: break
        }
        // An operation depends only on earlier operations, so there is no cycle, not even through a barrier.
        let (earlier, count) = state.withLock {
            ($0.entered.suffix(12).randomElement(using: &random)?.operation, $0.entered.count)
        }
        let operation: RequestOperation<Data>
        if let link = earlier as? RequestOperation<Data>, Int.random(in: 0..<6, using: &random) == 0 {
            operation = manager.operation(afterResultOf: link) { [request] _ in request }
        } else {
            operation = manager.operation(request)
            if let earlier, Int.random(in: 0..<4, using: &random) == 0 { operation.addDependency(earlier) }
        }
        let member = TortureMember(check.watch(operation))
        operation.completionBlock = { [ends = member.ends] in ends.withLock { $0 += 1 } }
        state.withLock { $0.members.append(member) }
        switch Int.random(in: 0..<8, using: &random) {
        case 0: queues[0].addOperation(operation)
        case 1: queues[1].addOperation(operation)
        case 2 where operation.isReady: operation.start()
        default: manager.enqueue(operation)
        }
        state.withLock { $0.entered.append((operation, count)) }
    }

    /// Adds a plain operation that may depend on an earlier one.
    ///
    /// Its queue has no barriers and is not cancelled: on Linux, Foundation crashes when a plain operation is freed
    /// before its dependencies finish.
    private func addBlock(_ random: inout SeededGenerator) {
        let block = BlockOperation {}
        let (earlier, count) = state.withLock {
            ($0.entered.suffix(12).randomElement(using: &random)?.operation, $0.entered.count)
        }
        if let earlier { block.addDependency(earlier) }
        foreign.addOperation(block)
        state.withLock { $0.entered.append((block, count)) }
    }

    private func addGroup(_ random: inout SeededGenerator) {
        let requests = (0..<4).map { Request<Data>.get("http://h\($0 % 2)/member") }
        guard Bool.random(using: &random) else {
            let batch = manager.batch(requests)
            return state.withLock { $0.batches.append(batch) }
        }
        let group = manager.operation(named: "group") { (group: OperationGroup) in
            for request in requests { group.enqueue(request, onFailure: .ignore) }
        }
        manager.enqueue(group)
        state.withLock { $0.others.append(group) }
    }

    /// Changes the priority of the last operation, gives it a dependency, and sometimes removes the dependency.
    private func change(_ random: inout SeededGenerator) {
        let pair = state.withLock { state -> (Operation, Operation)? in
            guard let last = state.entered.last, last.after > 0 else { return nil }
            return (
                last.operation,
                state.entered[Int.random(in: max(0, last.after - 12)..<last.after, using: &random)].operation
            )
        }
        guard let (last, earlier) = pair, let later = last as? AnyRequestOperation else { return }
        later.queuePriority = [.veryLow, .normal, .veryHigh][Int.random(in: 0..<3, using: &random)]
        later.addDependency(earlier)
        if Bool.random(using: &random) { later.removeDependency(earlier) }
    }

    func letGo() {
        manager.isSuspended = false
        for queue in queues { queue.isSuspended = false }
    }

    var hasEnded: Bool {
        state.withLock { state in
            state.members.allSatisfy {
                $0.calls.withLock { $0 } != [0] && $0.ends.withLock { $0 } > 0 && $0.operation.isFinished
            } && state.others.allSatisfy(\.isFinished)
        } && manager.leftovers == [0, 0, 0]
    }

    func expectAllTold() {
        let members = state.withLock { $0.members }
        for member in members {
            let told = member.calls.withLock { $0 } + [member.ends.withLock { $0 }]
            #expect(told == [1, 1] && member.operation.result != nil, "\(told), \(member.operation), \(label)")
        }
        #expect(queues.map(\.operationCount) == [0, 0], "\(label)")
    }

    func forget() { state.withLock { $0 = State() } }
}
