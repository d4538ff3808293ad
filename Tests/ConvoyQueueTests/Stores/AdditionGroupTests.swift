import Convoy
import ConvoyTesting
import Foundation
import Testing

@testable import ConvoyQueue

/// Tests which additions are committed together, and what each caller receives.
@Suite struct AdditionGroupTests {
    /// Records commits, which end when the test calls ``end(_:)``.
    private final class Commits: Sendable {
        typealias Done = @Sendable ([AdditionGroup.Outcome]) -> Void
        private let state = Locked((lists: [[String]](), done: [Done]()))

        var lists: [[String]] { state.withLock { $0.lists } }

        func make() -> AdditionGroup {
            AdditionGroup { [state] lists, done in
                state.withLock { state in
                    state.lists.append(lists.map { $0.map(\.id).joined(separator: "+") })
                    state.done.append(done)
                }
            }
        }

        /// Ends the running commit.
        func end(_ outcomes: [AdditionGroup.Outcome]) { state.withLock { $0.done.removeFirst() }(outcomes) }
    }

    private func added(_ ids: String...) -> AdditionGroup.Outcome {
        .success(ids.map { JobAddition(id: $0, outcome: .added) })
    }

    @Test func thoseThatArriveDuringACommitGoTogether() async throws {
        let commits = Commits()
        let group = commits.make()
        async let first = group.add([.test("a"), .test("b")])
        await look { !commits.lists.isEmpty }
        let others = Told<Result<[JobAddition], QueueError>>()
        await withTaskGroup(of: Void.self) { tasks in
            for id in ["c", "d"] {
                tasks.addTask {
                    let result: Result<[JobAddition], QueueError>
                    do { result = .success(try await group.add([.test(id)])) } catch {
                        result = .failure(error as? QueueError ?? QueueError(.failed, "\(error)"))
                    }
                    others.tell(result)
                }
                // The test waits, so that the callers add in this order.
                await look { group.waitingCount >= (id == "c" ? 1 : 2) }
            }
            #expect(commits.lists == [["a+b"]])
            commits.end([added("a", "b")])
            await look { commits.lists.count >= 2 }
            #expect(commits.lists.last == ["c", "d"])
            commits.end([.failure(QueueError(.unknownJob, "no")), added("d")])
        }
        #expect(try await first.map(\.id) == ["a", "b"])
        #expect(others.all.contains { (try? $0.get().map(\.id)) == ["d"] })
        #expect(
            others.all.contains { result in
                if case .failure(let error) = result { error.code == .unknownJob } else { false }
            })
        // No caller waits, so the next addition is committed at once.
        async let last = group.add([.test("e")])
        await look { commits.lists.count >= 3 }
        commits.end([added("e")])
        #expect(try await last.map(\.id) == ["e"])
    }

    @Test func aGroupIsBounded() async throws {
        let commits = Commits()
        let group = commits.make()
        async let first = group.add([.test("a")])
        await look { !commits.lists.isEmpty }
        let large = try Job.test("large") { $0.request.body = .data(Data(count: 9 << 20)) }
        async let second = group.add([large])
        await look { group.waitingCount >= 1 }
        async let third = group.add([.test("c")])
        await look { group.waitingCount >= 2 }
        for ids in ["a", "large", "c"] {
            await look { commits.lists.last == [ids] }
            commits.end([added(ids)])
        }
        #expect(try await (first + second + third).map(\.id) == ["a", "large", "c"])
    }
}

extension AdditionGroup {
    /// The number of callers that wait for the running commit.
    var waitingCount: Int { state.withLock { $0.calls.count } }
}
