import Foundation
import Testing

@testable import Convoy

/// Tests that a request's settings for its manager apply, however the request reaches the manager.
@Suite(.timeLimit(.minutes(2))) struct WishTests {
    enum Way: CaseIterable { case enqueued, sent, link, linkAfterResult, batch, member, sentByGroup, page }

    static let ways = Way.allCases.flatMap { way in [(way, true), (way, false)] }

    /// A manager, the way in which requests reach it, and their exchanges.
    private final class World {
        let server: StubServer
        let manager: RequestManager
        let way: Way

        init(_ way: Way, isOwn: Bool, configure: (inout RequestManager.Configuration) -> Void = { _ in }) {
            self.way = way
            server = StubServer { if $0.request.url.path == "/root" { $0.answer(200) } }
            manager = server.manager(queue: isOwn ? nil : OperationQueue(), configure: configure)
        }

        var exchanges: [StubExchange] { server.exchanges.events.filter { $0.request.url.path != "/root" } }
        var operations: [AnyRequestOperation] {
            manager.operations.filter { !$0.isGroup && $0.request?.url.path != "/root" }
        }

        func add(_ requests: Request<Data>...) {
            let manager = manager
            switch way {
            case .enqueued: for request in requests { manager.enqueue(request) }
            case .sent: for request in requests { Task { try? await manager.send(request) } }
            case .link, .linkAfterResult:
                let root = manager.operation(Request<Data>.stub("root"))
                for request in requests {
                    manager.enqueue(
                        way == .link
                            ? manager.operation(after: root) { _ in request }
                            : manager.operation(afterResultOf: root) { _ in request })
                }
                manager.enqueue(root)
            case .batch: _ = manager.batch(requests)
            case .member:
                manager.enqueue(
                    manager.operation(named: "group") {
                        for request in requests { $0.enqueue(request, onFailure: .ignore) }
                    })
            case .sentByGroup:
                let group = manager.operation(named: "group") { (group: OperationGroup) in
                    await withTaskGroup(of: Void.self) { tasks in
                        for request in requests { tasks.addTask { _ = try? await group.send(request) } }
                    }
                }
                manager.enqueue(group)
            case .page:
                for request in requests {
                    Task { for try await _ in manager.pages(request, next: { _ in nil }) {} }
                }
            }
        }

        func wait(for count: Int, _ isMeant: (AnyRequestOperation) -> Bool) async -> Bool {
            await turns(within: .seconds(120)) { operations.count(where: isMeant) == count }
        }

        func end() async {
            for exchange in exchanges where !exchange.isCancelled { exchange.answer(200) }
            await manager.cancelAndDrain()
        }
    }

    /// The first request with the name may be enqueued by the manager directly.
    @Test(arguments: ways, [true, false])
    func aNameExcludes(way: (Way, Bool), firstIsPlain: Bool) async {
        let world = World(way.0, isOwn: way.1)
        if firstIsPlain {
            world.manager.enqueue(Request<Data>.stub("plain").mutuallyExclusive("e"))
            await look { world.exchanges.count == 1 }
        } else {
            world.add(.stub("first").mutuallyExclusive("e"))
        }
        world.add(.stub("a").mutuallyExclusive("e"), .stub("b").mutuallyExclusive("e"))
        #expect(await world.wait(for: 2) { world.manager.why($0).hasPrefix("waits for the name") })
        await look { world.exchanges.count == 1 }
        await world.end()
    }

    @Test(arguments: ways)
    func equalRequestsShareATransfer(way: Way, isOwn: Bool) async {
        let world = World(way, isOwn: isOwn)
        let request = Request<Data>.stub("a").coalesced()
        world.add(request, request, request, request)
        #expect(await world.wait(for: 4) { world.manager.why($0).hasPrefix("shares a transfer") })
        await look { world.exchanges.count == 1 }
        world.exchanges.first?.answer(200)
        await world.manager.drain()
        #expect(world.exchanges.count == 1)
    }

    @Test(arguments: ways)
    func thePriorityIsThatOfTheOperation(way: Way, isOwn: Bool) async {
        let world = World(way, isOwn: isOwn)
        world.add(.stub("a").priority(.veryHigh))
        await look { world.exchanges.count == 1 }
        #expect(world.operations.map(\.queuePriority) == [.veryHigh])
        await world.end()
    }

    @Test(arguments: ways)
    func aTagIsFound(way: Way, isOwn: Bool) async {
        let world = World(way, isOwn: isOwn)
        world.add(.stub("a").tagged("some"), .stub("b"))
        await look { world.exchanges.count == 2 }
        world.manager.cancelAll(tagged: "some")
        await look { world.exchanges.count(where: \.isCancelled) == 1 }
        #expect(world.exchanges.filter(\.isCancelled).map(\.request.url.path) == ["/a"])
        await world.end()
    }

    @Test(arguments: ways)
    func itsInterceptorsAreAsked(way: Way, isOwn: Bool) async {
        let (world, count) = (World(way, isOwn: isOwn), EventLog<Void>())
        let counting = Interceptor(adapting: { request, _ in
            count.record(())
            return request
        })
        world.add(.stub("a").intercepted(by: counting))
        await count.wait()
        await look { world.exchanges.count == 1 }
        #expect(count.count == 1)
        await world.end()
    }

    @Test(arguments: ways)
    func itsRetriesCount(way: Way, isOwn: Bool) async {
        let world = World(way, isOwn: isOwn)
        world.add(.stub("a").retries(RetryPolicy(maxRetries: 1, baseDelay: .zero)))
        await look { world.exchanges.count == 1 }
        world.exchanges.first?.answer(503)
        await look { world.exchanges.count == 2 }
        await world.end()
    }

    @Test(arguments: ways)
    func itsDeadlineCounts(way: Way, isOwn: Bool) async {
        let clock = VirtualClock()
        let world = World(way, isOwn: isOwn) { $0.clock = clock }
        world.add(.stub("a").deadline(.seconds(3)))
        await look { world.exchanges.count == 1 }
        clock.advance(by: .seconds(3))
        await look { world.exchanges.first?.isCancelled == true }
        await world.end()
    }

    /// The group occupies the only slot of the queue.
    @Test func aMemberThatSharesRunsInsideItsGroup() async throws {
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = 1
        let manager = StubServer().manager(queue: queue)
        let group = manager.operation(named: "group") { group in
            try await group.send(Request<Data>.stub("a").coalesced()).statusCode
        }
        manager.enqueue(group)
        #expect(try await group.value == 200)
        await manager.drain()
    }
}
