import Foundation
import Testing

@testable import Convoy

@Suite struct DependencyTests {
    @Test func dependentSeesResultOfItsDependency() async throws {
        let manager = StubServer { $0.answer(200, body: Data($0.request.url.path.utf8)) }.manager()
        let first = manager.operation(Request<String>.get("http://stub/a"))
        let second = manager.operation(after: first) { Request<String>.get("http://stub\($0.value)/b") }
        let third = manager.operation(after: second) { Request<String>.get("http://stub\($0.value)/c") }
        manager.enqueue(third, second, first)
        #expect(try await third.response().value == "/a/b/c")
        // Several responses make one request, in their order.
        let parts = (0..<20).map { manager.operation(Request<String>.get("http://stub/\($0)")) }
        let whole = manager.operation(after: parts) { parts in
            Request<String>.get("http://stub" + parts.map(\.value).joined())
        }
        manager.enqueue(whole)
        manager.enqueue(contentsOf: parts.reversed())
        #expect(try await whole.response().value == (0..<20).map { "/\($0)" }.joined())
    }

    @Test func aFailureEndsTypedDependentsWithoutSendingThem() async throws {
        struct Refusal: Error {}
        let (server, manager) = StubServer { $0.answer($0.request.url.path == "/bad" ? 500 : 200) }.withManager()
        let bad = manager.operation(.stub("bad"))
        let second = manager.operation(after: bad) { _ in Request<Data>.stub("second") }
        let third = manager.operation(after: second) { _ in Request<Data>.stub("third") }
        let plain = manager.operation(.stub("plain"))
        plain.addDependency(third)
        let refusing = manager.operation(after: plain) { _ throws -> Request<Data> in throw Refusal() }
        let last = manager.operation(after: refusing) { _ in Request<Data>.stub("last") }
        manager.enqueue(last, refusing, plain, third, second, bad)
        await manager.drain()
        #expect(second.error?.code == .dependencyFailed && third.error?.code == .dependencyFailed)
        #expect((third.error?.underlying as? RequestError)?.code == .unacceptableStatus)
        #expect(second.error?.message.contains("bad") == true)
        #expect(plain.error == nil)
        #expect(refusing.error?.code == .invalidRequest && refusing.error?.underlying is Refusal)
        #expect(last.error?.code == .dependencyFailed)

        // A dependency on a finished operation is met, or fails at once.
        let next = manager.operation(after: plain) { _ in Request<Data>.stub("next") }
        let never = manager.operation(after: bad) { _ in Request<Data>.stub("never") }
        manager.enqueue(next, never)
        _ = try await next.response()
        #expect(never.error?.code == .dependencyFailed)
        #expect(server.paths == ["/bad", "/plain", "/next"])
    }

    @Test func aLinkIsNamedAfterItsDependencyUntilItsRequestIsBuilt() async throws {
        let manager = StubServer { $0.answer($0.request.url.path == "/bad" ? 500 : 200) }.manager()
        let bad = manager.operation(Request<Data>.get("http://stub/bad"))
        let second = manager.operation(after: bad) { _ in Request<Data>.get("http://stub/b") }
        let third = manager.operation(after: [second, second]) { _ in Request<Data>.get("http://stub/c") }
        let named = manager.operation(after: bad) { _ in Request<Data>.get("http://stub/d") }
        named.name = "the bill"
        let fourth = manager.operation(after: named) { _ in Request<Data>.get("http://stub/e") }
        // The closure rethrows the error of another request. The operation does not adopt the name in that error.
        let passing = manager.operation(afterResultOf: bad) { result in
            _ = try result.get()
            return Request<Data>.get("http://stub/f")
        }
        #expect(second.description == "the link after GET http://stub/bad (not started)")
        #expect(third.description == "link 2 after GET http://stub/bad and 1 more (not started)")
        #expect(named.description == "the bill (not started)")
        #expect(manager.why(fourth) == "waits for: the bill (not enqueued)")
        manager.enqueue(bad, second, third, named, fourth, passing)
        await manager.drain()
        #expect(second.error?.request == "the link after GET http://stub/bad")
        #expect(fourth.error?.request == "the link after the bill")
        #expect(fourth.error?.message == "nothing was sent: the bill, which it depends on, failed")
        for link in [second, passing] { #expect(link.description == "the link after GET http://stub/bad (finished)") }

        let good = manager.operation(Request<Data>.get("http://stub/a"))
        let built = manager.operation(after: good) { _ in Request<Data>.get("http://stub/b") }
        let cancelled = manager.operation(after: built) { _ in Request<Data>.get("http://stub/c") }
        cancelled.cancel()
        manager.enqueue(good, built)
        try await built.response()
        #expect(built.description.hasPrefix("GET http://stub/b ("))
        #expect(cancelled.error?.request == "link 2 after GET http://stub/a")
    }

    @Test func aCancelledDependencyEndsItsTypedDependents() async {
        let manager = StubServer().manager()
        manager.isSuspended = true
        let first = manager.operation(.stub("first"))
        let second = manager.operation(after: first) { _ in Request<Data>.stub("second") }
        let told = EventLog<RequestError.Code?>()
        second.onFinish { told.record($0.code) }
        manager.enqueue(first, second)
        first.cancel()
        // The dependent also fails in a suspended queue.
        #expect(await told.wait() == [.dependencyFailed])
        manager.isSuspended = false
        await manager.drain()
    }

    /// `Trampoline.run` defers nested work until its closure has returned.
    ///
    /// A new dependent of a failed operation must still fail at once.
    @Test func aDependencyOnAFailedOperationFailsAtOnceInACascade() async {
        let (server, manager) = StubServer().withManager()
        let (root, late) = (manager.operation(.stub("root")), manager.operation(.stub("late")))
        root.cancel()
        Trampoline.run {
            late.addDependency(root, onFailure: .fail)
            #expect(late.error?.code == .dependencyFailed)
            manager.enqueue(late)
        }
        await manager.drain()
        #expect(server.exchanges.count == 0)
    }

    @Test func anotherManagersOperationCanBeADependency() async throws {
        let server = StubServer()
        let (one, other) = (server.manager(), server.manager())
        let first = one.operation(.stub("first"))
        let second = other.operation(after: first) { _ in Request<Data>.stub("second") }
        other.enqueue(second)
        #expect(other.why(second) == "waits for: first (not enqueued)")
        one.enqueue(first)
        _ = try await second.response()
        #expect(server.paths == ["/first", "/second"])
    }

    /// Where a request is cancelled, or fails, that no queue has and that other requests depend on.
    enum CancelledDependency: String, CaseIterable {
        case beforeTheEdge, afterTheEdge, afterItsDependentWasEnqueued, beforeItIsEnqueued, afterItsDependentsEnd
        case ofAnOptionalLink, ofALinkOfItsResult, ofALinkOfAGroup, ofAGroup, ofAMember, ofSeveral, ofSeveralRequests
        case ofAnotherManager, ofNoManager, whoseOwnDependencyFails, thatIsRemoved, beforeABarrier

        /// Makes and enqueues the requests that depend on a request that no queue has.
        func dependents(_ manager: RequestManager) -> [AnyRequestOperation] {
            let (first, second) = (manager.operation(.stub("first")), manager.operation(.stub("second")))
            let group = manager.operation(named: "group") { _ in 1 }
            /// Makes `second` depend on a request, and cancels that.
            func cancel(_ dependency: AnyRequestOperation, isFirst: Bool = false) {
                if isFirst { dependency.cancel() }
                second.addDependency(dependency)
                if !isFirst { dependency.cancel() }
            }
            func enqueued(_ operations: AnyRequestOperation...) -> [AnyRequestOperation] {
                manager.enqueue(contentsOf: operations)
                return operations
            }
            switch self {
            case .beforeTheEdge: cancel(first, isFirst: true)
            case .afterTheEdge: cancel(first)
            case .beforeItIsEnqueued:
                cancel(first, isFirst: true)
                manager.enqueue(first)
            case .afterItsDependentsEnd:
                cancel(first, isFirst: true)
                second.onFinish { [weak manager] _ in manager?.enqueue(first) }
                return enqueued(second) + [first]
            case .beforeABarrier:
                cancel(first, isFirst: true)
                manager.enqueue(second)
                manager.queue.addBarrierBlock {}
                return enqueued(manager.operation(.stub("behind the barrier"))) + [second]
            case .afterItsDependentWasEnqueued:
                second.addDependency(first)
                manager.enqueue(second)
                first.cancel()
                return [second]
            case .ofAnOptionalLink:
                first.cancel()
                return enqueued(manager.operation(after: first.optional) { Request<Data>.stub("\($0 == nil)") })
            case .ofALinkOfItsResult:
                let link = manager.operation(after: first.asResult) { Request<Data>.stub($0.code?.rawValue ?? "") }
                first.cancel()
                return enqueued(link)
            case .ofALinkOfAGroup:
                let link = manager.operation(after: group.asResult) { Request<Data>.stub($0.code?.rawValue ?? "") }
                manager.enqueue(link)
                group.cancel()
                return [link]
            case .ofAGroup:
                first.cancel()
                group.addDependency(first)
                second.addDependency(group)
                manager.enqueue(group)
            case .ofAMember:
                cancel(first, isFirst: true)
                let owner = manager.operation(named: "owner") { group in
                    group.enqueue(second)
                    _ = try await second.response()
                }
                return enqueued(owner) + [second]
            case .ofSeveral:
                let others = (0..<100).map { manager.operation(.stub("\($0)")) }
                for other in others { other.addDependency(first) }
                first.cancel()
                for other in others { second.addDependency(other) }
                manager.enqueue(contentsOf: others)
                return enqueued(second) + others
            case .ofSeveralRequests:
                for number in 0..<100 { cancel(manager.operation(.stub("\(number)")), isFirst: number < 50) }
            case .ofAnotherManager: cancel(StubServer().manager().operation(.stub("first")), isFirst: true)
            case .ofNoManager: cancel(RequestOperation(Request<Data>.stub("first"), transport: StubServer().transport))
            case .whoseOwnDependencyFails:
                let middle = manager.operation(.stub("middle"))
                middle.addDependency(first, onFailure: .fail)
                second.addDependency(middle)
                first.cancel()
            case .thatIsRemoved:
                second.addDependency(manager.enqueue(.stub("other")))
                cancel(first)
                second.removeDependency(first)
            }
            return enqueued(second)
        }
    }

    /// A request that was cancelled outside of a queue blocks nothing, because nothing might ever start it.
    @Test(arguments: CancelledDependency.allCases, [true, false])
    func aDependencyThatIsCancelledInNoQueueIsNotWaitedFor(
        dependency: CancelledDependency, isOwnQueue: Bool
    ) async {
        let manager = StubServer().manager(queue: isOwnQueue ? nil : OperationQueue())
        let dependents = dependency.dependents(manager)
        await look(within: .seconds(30)) { dependents.allSatisfy(\.isFinished) }
        for operation in dependents where operation.name != "first" {
            #expect(operation.error == nil, "\(manager.why(operation))")
        }
        await manager.cancelAndDrain()
    }

    /// As with Foundation's operations, a dependent waits until a queue has started a cancelled request that it has.
    @Test(arguments: [true, false])
    func aDependencyThatIsCancelledInAQueueIsWaitedFor(isEnqueued: Bool) async {
        let queue = OperationQueue()
        queue.isSuspended = true
        let manager = StubServer().manager(queue: isEnqueued ? queue : nil)
        let (first, second) = (manager.operation(.stub("first")), manager.operation(.stub("second")))
        if isEnqueued { manager.enqueue(first) } else { queue.addOperation(first) }
        first.cancel()
        second.addDependency(first)
        #expect(!second.isReady && manager.why(second) == "waits for: first (ended before its start)")
        queue.isSuspended = false
        manager.enqueue(second)
        await manager.drain()
        #expect(second.error == nil)
    }

    @Test func aCycleIsAnErrorThatNamesIt() async {
        let manager = StubServer().manager()
        let operations = (0..<4).map { manager.operation(.stub("n\($0)")) }
        for index in 1..<4 { operations[index].addDependency(operations[index - 1]) }
        operations[0].addDependency(operations[3])
        #expect(operations[0].error?.code == .dependencyCycle)
        #expect(
            operations[0].error?.message
                == "n0 would wait for itself: n3 waits for n2, which waits for n1, which waits for n0, which waits for "
                + "n3")
        manager.enqueue(contentsOf: operations)
        await manager.drain()
        let itself = manager.operation(.stub("a"))
        itself.addDependency(itself)
        #expect(itself.error?.code == .dependencyCycle)
        // Plain dependents continue, because the cycle was never created.
        #expect(operations[1...].allSatisfy { $0.error == nil })
    }

    @Test func edgesMadeAtTheSameTimeCloseNoCycle() async {
        for _ in 0..<100 {
            let manager = StubServer().manager()
            let operations = (0..<6).map { manager.operation(.stub("\($0)")) }
            await withTaskGroup(of: Void.self) { group in
                for index in 0..<6 {
                    group.addTask { operations[index].addDependency(operations[(index + 1) % 6]) }
                }
            }
            #expect(operations.contains { $0.error?.code == .dependencyCycle })
            manager.enqueue(contentsOf: operations)
            await manager.drain()
        }
    }

    @Test(arguments: [LongRuns.count(15_000, long: 100_000)])
    func aLongChainFailsAndIsFreedWithoutRecursion(length: Int) async {
        let check = LeakCheck()
        do {
            let manager = StubServer().manager()
            let first = manager.operation(.stub("0"))
            let last = await offPool {
                var last = first
                for _ in 1..<length {
                    last = manager.operation(after: last) { _ in Request<Data>.stub("n") }
                    manager.enqueue(last)
                }
                first.cancel()
                return last
            }
            _ = check.watch(last)
            #expect(await last.resultCode() == .dependencyFailed)
            await manager.drain()
        }
        await check.expectAllGone()
    }

    @Test func aLongChainThatWasNeverRunIsFreed() async {
        let check = LeakCheck()
        await offPool {
            let manager = StubServer().manager()
            var last = check.watch(manager.operation(.stub("0")))
            for _ in 1..<LongRuns.count(15_000, long: 100_000) {
                last = manager.operation(after: last) { _ in Request<Data>.stub("n") }
            }
            _ = check.watch(last)
        }
        await check.expectAllGone()
    }
}

extension RequestOperation {
    func resultCode() async -> RequestError.Code? { await failure()?.code }

    func failure() async -> RequestError? {
        do throws(RequestError) { _ = try await response() } catch { return error }
        return nil
    }
}
