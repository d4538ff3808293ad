import Convoy
import Foundation
import Testing

/// Tests groups that several threads cancel, suspend, resume and add members to at the same time.
@Suite struct GroupRaceTests {
    @Test(arguments: [UInt64(1), 2, 3])
    func aGroupEndsOnceAfterItsMembersWhateverHappensMeanwhile(seed: UInt64) async {
        var random = SeededGenerator(seed: seed)
        let server = StubServer { exchange in
            exchange.answer(exchange.request.url.path.hasSuffix("7") ? 500 : 200)
        }
        let manager = server.manager(2, perHost: 2)
        for round in 0..<60 {
            let (members, ends) = (EventLog<AnyRequestOperation>(), EventLog<Int>())
            let policy: DependencyPolicy = round % 3 == 0 ? .fail : .ignore
            let group = manager.operation(named: "group \(round)") { group in
                for number in 0..<6 {
                    members.record(
                        group.enqueue(.stub("\(number)"), onFailure: policy) { _ in
                            if number % 2 == 0 { members.record(group.enqueue(.stub("\(number)7"), onFailure: policy)) }
                        })
                }
                let inner = manager.operation(named: "inner") { inner in
                    members.record(inner.enqueue(.stub("8")))
                    _ = try await inner.send(Request<Data>.stub("9"))
                }
                members.record(inner)
                group.enqueue(inner, onFailure: policy)
            }
            group.onFinish { _ in ends.record(members.events.count { !$0.isFinished && $0.error == nil }) }
            let kinds = (0..<3).map { _ in Int.random(in: 0..<5, using: &random) }
            manager.enqueue(group)
            await withTaskGroup { tasks in
                for kind in kinds {
                    tasks.addTask {
                        switch kind {
                        case 0: group.cancel()
                        case 1:
                            group.suspend()
                            group.resume()
                        case 2: members.events.randomElement()?.cancel()
                        case 3: _ = manager.why(group)
                        default: group.start()
                        }
                    }
                }
            }
            await ends.wait()
            #expect(ends.events == [0], "members without an outcome, in round \(round)")
            #expect(group.isFinished && group.result != nil)
        }
        await manager.drain()
        #expect(manager.operations.isEmpty)
    }
}
