import Convoy
import Foundation
import Testing

@Suite struct GroupOperationTests {
    struct Broken: Error {}

    @Test func dependentsOfAGroupWaitForItsLastMember() async throws {
        let (server, manager) = StubServer.held().withManager()
        let log = EventLog<String>()
        let group = manager.operation(named: "sync") { group in
            group.enqueue(.stub("a")) { _ in log.record("a") }
            group.enqueue(.stub("b")) { _ in log.record("b") }
            log.record("function")
            return 2
        }
        let block = BlockOperation { log.record("block") }
        block.addDependency(group)
        let link = manager.operation(after: group) { count in Request<Data>.stub("after\(count)") }
        OperationQueue().addOperation(block)
        manager.enqueue(link, group)
        let exchanges = await server.exchanges.wait(count: 2)
        await log.wait(count: 1)
        #expect(group.isExecuting && group.result == nil && log.events == ["function"])
        // The members start while the group still enqueues, so the requests may be sent in any order.
        for exchange in exchanges where exchange.request.url.path == "/b" { exchange.answer(200) }
        await log.wait(count: 2)
        #expect(log.events == ["function", "b"] && !group.isFinished)
        for exchange in exchanges where exchange.request.url.path == "/a" { exchange.answer(200) }
        #expect(try await group.value == 2)
        await log.wait(count: 4)
        #expect(log.events == ["function", "b", "a", "block"])
        let third = await server.exchanges.wait(count: 3)[2]
        #expect(third.request.url.path == "/after2")
        third.answer(200)
        try await link.response()
    }

    @Test(arguments: [false, true])
    func aLimitOfOneIsEnoughForGroupsInGroups(isForeignQueue: Bool) async throws {
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = 1
        let server = StubServer { $0.answer(200, body: Data($0.request.url.path.utf8)) }
        let manager = server.manager(1, perHost: 1, queue: isForeignQueue ? queue : nil)
        manager.queue.maxConcurrentOperationCount = 1
        let outer = manager.operation(named: "outer") { group in
            let first = try await group.send(Request<String>.get("http://stub/1")).value
            let inner = manager.operation(named: "inner") { group in
                group.enqueue(.stub("3"))
                return try await group.send(Request<String>.get("http://stub/2")).value
            }
            group.enqueue(inner)
            return first + (try await inner.value)
        }
        manager.enqueue(outer)
        #expect(try await outer.value == "/1/2")
        await manager.drain()
        #expect(Set(server.paths) == ["/1", "/2", "/3"])
    }

    @Test func aFunctionThatThrowsStopsItsMembersAndThenFails() async {
        let (server, manager) = StubServer.held().withManager()
        let member = EventLog<RequestError.Code?>()
        let group = manager.operation(named: "sync") { group in
            group.enqueue(.stub("a")) { member.record($0.code) }
            await server.exchanges.wait()
            throw Broken()
        }
        manager.enqueue(group)
        let error = await failure(of: group)
        #expect(error?.code == .groupFailed && error?.underlying is Broken && error?.request == "sync")
        #expect(member.events == [.cancelled])

        let passing = manager.operation(named: "b") { _ in throw RequestError(.integrityFailed, "no") }
        let cancelled = manager.operation(named: "c") { _ in throw CancellationError() }
        manager.enqueue(passing, cancelled)
        #expect(await failure(of: passing)?.code == .integrityFailed)
        #expect(await failure(of: cancelled)?.code == .cancelled)
    }

    @Test func aMemberThatFailsStopsTheGroupUnlessItIsToBeIgnored() async throws {
        let (server, manager) = StubServer { if $0.request.url.path == "/bad" { $0.answer(500) } }.withManager()
        let codes = EventLog<RequestError.Code?>()
        let group = manager.operation(named: "sync") { group in
            group.enqueue(.stub("open")) { codes.record($0.code) }
            group.enqueue(.stub("bad"))
            await codes.wait()
            // A member that is enqueued after the stop is not sent.
            let late = group.enqueue(.stub("late"))
            codes.record(late.error?.code)
            return group.isCancelled && Task.isCancelled
        }
        manager.enqueue(group)
        let error = await failure(of: group)
        #expect(error?.code == .dependencyFailed)
        #expect(error?.message == "bad, one of its members, failed")
        #expect((error?.underlying as? RequestError)?.code == .unacceptableStatus)
        #expect(codes.events == [.cancelled, .cancelled])
        #expect(!server.paths.contains("/late"))

        let patient = manager.operation(named: "sync") { group in
            group.enqueue(.stub("bad"), onFailure: .ignore)
            var code: RequestError.Code?
            do throws(RequestError) { _ = try await group.send(Request<Data>.stub("bad")) } catch { code = error.code }
            return code
        }
        manager.enqueue(patient)
        #expect(try await patient.value == .unacceptableStatus)
    }

    @Test func anAdditionAfterTheEndFails() async throws {
        let (server, manager) = StubServer().withManager()
        let group = manager.operation(named: "sync") { $0 }
        manager.enqueue(group)
        let scope = try await group.value
        let late = scope.enqueue(.stub("late"))
        let link = manager.operation(after: late) { _ in Request<Data>.stub("after") }
        manager.enqueue(link)
        await manager.drain()
        #expect(late.error?.code == .invalidRequest && late.isFinished)
        #expect(late.error?.message == "nothing was sent: its group, sync, had ended before it was added")
        #expect(link.error?.code == .dependencyFailed)
        await #expect(throws: RequestError.self) { try await scope.send(Request<Data>.stub("late")) }
        #expect(server.paths.isEmpty && group.error == nil)
    }

    @Test(arguments: [(false, false), (true, false), (true, true)])
    func aGroupThatIsCancelledBeforeItsStartNeverRuns(isForeignQueue: Bool, byQueue: Bool) async {
        let manager = StubServer().manager(queue: isForeignQueue ? OperationQueue() : nil)
        manager.queue.isSuspended = true
        let called = EventLog<Void>()
        let group = manager.operation(named: "sync") { _ in called.record(()) }
        manager.enqueue(group)
        #expect(manager.why(group) == "waits for the \(isForeignQueue ? "queue" : "manager"): it is suspended")
        let told = EventLog<RequestError.Code?>()
        group.onFinish { told.record($0.code) }
        if byQueue { manager.queue.cancelAllOperations() } else { group.cancel() }
        await told.wait()
        // In a foreign queue the group finishes only when Foundation starts it.
        #expect(told.events == [.cancelled] && group.isFinished == !isForeignQueue && group.isCancelled)
        manager.queue.isSuspended = false
        await manager.drain()
        #expect(called.count == 0)
    }

    @Test func aGroupThatIsCancelledEndsAfterItsFunctionAndItsMembers() async {
        let (server, manager) = StubServer.held().withManager()
        let (gate, log) = (EventLog<Void>(), EventLog<String>())
        let group = manager.operation(named: "sync") { group in
            group.enqueue(.stub("a")) { log.record("a \($0.code?.rawValue ?? "")") }
            await gate.wait()
            log.record("function \(Task.isCancelled)")
        }
        group.onFinish { log.record("group \($0.code?.rawValue ?? "")") }
        manager.enqueue(group)
        await server.exchanges.wait()
        group.cancel()
        await log.wait(count: 1)
        #expect(log.events == ["a cancelled"] && !group.isFinished && group.isCancelled)
        #expect(manager.why(group).contains("its function"))
        gate.record(())
        await log.wait(count: 3)
        #expect(log.events == ["a cancelled", "function true", "group cancelled"])
    }

    @Test func aSuspendedGroupDoesNotStart() async throws {
        let manager = StubServer().manager()
        let group = manager.operation(named: "sync") { try await $0.send(Request<Data>.stub("a")).statusCode }
        group.suspend()
        manager.enqueue(group)
        await look { manager.why(group) == "waits for its owner: it is suspended" }
        #expect(!group.isExecuting)
        group.resume()
        #expect(try await group.value == 200)
    }

    /// A member runs when neither its own caller nor its group has suspended it.
    @Test func theWishesOfAGroupAndOfItsMembersCallersAreKeptApart() async throws {
        let (server, manager) = StubServer.held().withManager()
        let members = (0..<4).map { manager.operation(.stub("\($0)")) }
        let group = manager.operation(named: "sync") { $0.enqueue(contentsOf: members) }
        manager.enqueue(group)
        await server.exchanges.wait(count: 4)
        members[0].suspend()
        group.suspend()
        await manager.tasksAreAdjusted()
        #expect(members.map(\.isSuspended) == [true, true, true, true])
        members[1].suspend()
        members[2].resume()
        #expect(members.map(\.isSuspended) == [true, true, true, true])
        group.resume()
        await manager.tasksAreAdjusted()
        #expect(members.map(\.isSuspended) == [true, true, false, false])
        for member in members { member.resume() }
        #expect(members.map(\.isSuspended) == [false, false, false, false])
        for exchange in server.exchanges.events { exchange.answer(200) }
        try await group.value
    }

    @Test func aCopyOfAGroupIsAnotherThatHasNotRun() async throws {
        let manager = StubServer().manager()
        let calls = EventLog<Void>()
        let group = manager.operation(named: "sync") { group in
            calls.record(())
            return try await group.send(Request<Data>.stub("a")).statusCode
        }
        let copy = try #require((group as AnyRequestOperation).copy() as? GroupOperation<Int>)
        #expect(copy !== group && copy.name == "sync")
        for (count, operation) in [group, copy].enumerated() {
            #expect(operation.result == nil && calls.count == count)
            manager.enqueue(operation)
            #expect(try await operation.value == 200)
            await manager.drain()
        }
        // The group releases its function when it ends.
        let late = (group as AnyRequestOperation).copy()
        manager.enqueue(late)
        await manager.drain()
        #expect(late !== group && late.error?.code == .invalidRequest && calls.count == 2)
        #expect(late.error?.message.contains("copy of a finished operation") == true)
    }

    /// `last` waits for `closing`, which waits for its member `other`, which waits for `last`.
    @Test func aMemberThatWaitsForItsGroupIsACycle() async {
        let manager = StubServer().manager()
        let (last, other) = (manager.operation(.stub("last")), manager.operation(.stub("other")))
        other.addDependency(last)
        let closing = manager.operation(named: "closing") { $0.enqueue(other) }
        last.addDependency(closing)
        manager.enqueue(closing, other, last)
        #expect(await failure(of: closing)?.code == .dependencyCycle)
        #expect(
            closing.error?.message
                == "closing would wait for itself: other waits for last, which waits for closing, which waits for other"
        )
        await manager.drain()
        #expect(last.isFinished && other.isFinished)
    }

    @Test func aDependencyOnTheGroupOfAnOperationIsACycle() async throws {
        let manager = StubServer().manager()
        let (gate, added) = (BlockOperation {}, EventLog<RequestOperation<Data>>())
        let group = manager.operation(named: "sync") { group in
            let member = manager.operation(.stub("a"))
            member.addDependency(gate)
            group.enqueue(member)
            added.record(member)
        }
        manager.enqueue(group)
        let member = await added.wait()[0]
        let next = manager.operation(.stub("b"))
        next.addDependency(group)
        member.addDependency(next)
        #expect(member.error?.code == .dependencyCycle)
        manager.enqueue(next)
        await manager.drain()
        #expect(group.error?.code == .dependencyFailed)
        #expect(next.isFinished && next.error == nil)
    }

    /// The barrier also waits for the group's members, even for those that are added after the barrier.
    @Test(arguments: [nil, -1, 1])
    func aBarrierWaitsForAGroup(queueLimit: Int?) async throws {
        let queue = queueLimit.map { limit in
            let queue = OperationQueue()
            queue.maxConcurrentOperationCount = limit
            return queue
        }
        let manager = StubServer().manager(queue: queue)
        let (gate, log) = (EventLog<Void>(), EventLog<String>())
        let group = manager.operation(named: "sync") { group in
            await gate.wait()
            group.enqueue(.stub("a")) { _ in log.record("member") }
            _ = try await group.send(.stub("b"))
        }
        manager.enqueue(group)
        manager.queue.addBarrierBlock { log.record("barrier") }
        manager.enqueue(.stub("behind")) { _ in log.record("behind") }
        gate.record(())
        try await group.value
        #expect(await log.wait(count: 3) == ["member", "barrier", "behind"])
    }

    @Test func aGroupWaitsForItsDependenciesAndFailsWithThem() async {
        let manager = StubServer { $0.answer(500) }.manager()
        let bad = manager.operation(.stub("bad"))
        let called = EventLog<Void>()
        let group = manager.operation(named: "sync") { _ in called.record(()) }
        group.addDependency(bad, onFailure: .fail)
        let block = BlockOperation { called.record(()) }
        block.addDependency(bad)
        let patient = manager.operation(named: "patient") { _ in bad.error?.code }
        patient.addDependency(bad)
        patient.addDependency(block)
        manager.enqueue(patient, group, bad)
        #expect(manager.why(patient).hasPrefix("waits for"))
        OperationQueue().addOperation(block)
        #expect(await failure(of: group)?.code == .dependencyFailed)
        #expect(try! await patient.value == .unacceptableStatus)
        #expect(called.count == 1)
    }

    @Test func cancellingAllAndShuttingDownEndGroups() async {
        let (server, manager) = StubServer.held().withManager()
        let make = {
            manager.operation(named: "sync") { group in
                while !group.isCancelled { try await group.send(Request<Data>.stub("a")) }
            }
        }
        for count in 1...2 {
            let group = make()
            manager.enqueue(group)
            await server.exchanges.wait(count: count)
            if count == 1 { manager.cancelAll() } else { manager.shutDown() }
            #expect(await failure(of: group)?.code == .cancelled)
        }
        let late = make()
        manager.enqueue(late)
        #expect(await failure(of: late)?.code == .managerShutDown)
        await manager.drain()
        #expect(manager.operations.isEmpty)
    }

    @Test func anEndedGroupLetsGoOfItsFunctionAndItsMembers() async {
        final class Held: Sendable {}
        let check = LeakCheck()
        let manager = StubServer().manager()
        func make(_ name: String) -> GroupOperation<Void> {
            let held = check.watch(Held())
            return manager.operation(named: name) { group in
                for number in 0..<20 { _ = check.watch(group.enqueue(.stub("\(number)"))) }
                _ = held
            }
        }
        let (run, cancelled) = (make("run"), make("cancelled"))
        func drop() { _ = check.watch(make("dropped")) }
        drop()
        cancelled.cancel()
        manager.enqueue(run, cancelled)
        await manager.drain()
        await check.expectAllGone()
        #expect(run.error == nil && cancelled.error?.code == .cancelled)
    }

    private func failure<Output>(of group: GroupOperation<Output>) async -> RequestError? {
        do throws(RequestError) {
            _ = try await group.value
            return nil
        } catch { return error }
    }
}
