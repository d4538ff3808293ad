import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// Calls managers, operations, batches and streams from several threads at the same time, with a seed.
///
/// Nothing may crash, hang, be lost, reported twice or remain, and no limit may be exceeded. `CONVOY_TORTURE=2000` in
/// the environment runs as many seeds as for the published measurements. The tests also run under the sanitizers.
@Suite(.serialized, .timeLimit(.minutes(60))) struct TortureTests {
    @Test func everythingAtOnceOverAStub() async {
        for seed in TorturePlan.seeds(25) {
            let plan = TorturePlan(seed: seed)
            let stub = TortureStub(plan, limits: (plan.limit + (plan.isCalm ? 0 : 2), plan.perHost))
            let isOver = await torment(plan, .custom(stub.transport), hosts: ["http://h0", "http://h1"]) {
                stub.know($0, as: $1)
            } forget: {
                stub.forget()
            }
            #expect(stub.faults == [], "\(plan.label)")
            guard isOver, stub.faults.isEmpty else { return }
        }
    }

    @Test func everythingAtOnceOverLibcurl() async throws {
        for seed in TorturePlan.seeds(10) {
            guard try await tormentOverLoopback(TorturePlan(seed: seed)) else { return }
        }
    }

    private func tormentOverLoopback(_ plan: TorturePlan) async throws -> Bool {
        let server = try TestServer(recording: .none)
        let state = Locked((asked: [String: Int](), under: 0, most: 0))
        server.respond { request in
            let time = state.withLock { state in
                state.asked[request.target, default: 0] += 1
                state.under += 1
                state.most = max(state.most, state.under)
                return state.asked[request.target] ?? 0
            }
            defer { state.withLock { $0.under -= 1 } }
            let answer = plan.answer(to: request.target, time: time)
            return switch answer.statusCode {
            case 0: .raw("", closes: true)
            case 302: .redirect(to: request.target + "/r")
            default: .status(answer.statusCode, body: Data(count: 2_000))
            }
        }
        let hosts = ["http://127.0.0.1:\(server.port)"]
        let isOver = await torment(plan, .automatic, hosts: hosts, know: { _, _ in }, forget: { server.shutDown() })
        let most = state.withLock { $0.most }
        if plan.isCalm { #expect(most <= min(plan.limit, plan.perHost), "\(most) at once, \(plan.label)") }
        return isOver
    }

    /// Runs one random plan; returns false if an operation is stuck.
    private func torment(
        _ plan: TorturePlan, _ transport: TransportChoice, hosts: [String],
        know: @escaping @Sendable (TortureMember, String) -> Void, forget: () -> Void
    ) async -> Bool {
        let check = LeakCheck()
        let isOver = await run(plan, transport, check, hosts: hosts, know: know)
        forget()
        await check.expectAllGone(plan.label)
        return isOver
    }

    private func run(
        _ plan: TorturePlan, _ transport: TransportChoice, _ check: LeakCheck, hosts: [String],
        know: @escaping @Sendable (TortureMember, String) -> Void
    ) async -> Bool {
        let monitor = TortureMonitor()
        let manager = check.watch(
            RequestManager(queueLimit: plan.queueLimit, configuration: plan.configuration(transport, monitor)))
        _ = check.watch(manager.scheduler)
        let tormentor = Tormentor(plan, manager, check, hosts, know)
        let isOver = await runThreads(plan.threads, on: manager, plan.label) {
            tormentor.torment($0)
        } letGo: {
            tormentor.letGo()
        } end: {
            await tormentor.end()
        }
        guard isOver else { return false }
        await withCheckedContinuation { continuation in
            manager.scheduler.monitorQueue.async { continuation.resume() }
        }
        #expect(monitor.faults == [], "\(plan.label)")
        tormentor.expectAllTold(monitor, plan)
        return true
    }
}

/// Calls functions of a manager, its queue, its batches and its operations at random.
private final class Tormentor: Sendable {
    private struct State {
        var members: [TortureMember] = []
        var enqueued: [TortureMember] = []
        var batches: [Batch<Data>] = []
        var tasks: [Task<Void, Never>] = []
        var barriers = (added: 0, run: 0)
        var lastNumber = 0
    }

    private let plan: TorturePlan
    private let manager: RequestManager
    private let check: LeakCheck
    private let hosts: [String]
    private let know: @Sendable (TortureMember, String) -> Void
    private let state = Locked(State())

    init(
        _ plan: TorturePlan, _ manager: RequestManager, _ check: LeakCheck, _ hosts: [String],
        _ know: @escaping @Sendable (TortureMember, String) -> Void
    ) {
        (self.plan, self.manager, self.check, self.hosts, self.know) = (plan, manager, check, hosts, know)
    }

    func torment(_ thread: Int) {
        var random = SeededGenerator(seed: UInt64(plan.seed) &* 8 &+ UInt64(thread))
        for _ in 0..<60 {
            switch Int.random(in: 0..<20, using: &random) {
            case 0..<7: enqueue(&random)
            case 7..<13: use(&random)
            case 13..<17: look(&random)
            default: command(&random)
            }
        }
        if plan.shutsDown, thread == 0 { manager.shutDown() }
    }

    private func request(_ name: String, _ random: inout SeededGenerator) -> Request<Data> {
        var request = Request<Data>.get("\(hosts.randomElement(using: &random) ?? "")/\(name)")
        let priorities: [Operation.QueuePriority] = [.veryLow, .low, .normal, .normal, .high, .veryHigh]
        request = request.priority(priorities.randomElement(using: &random) ?? .normal)
        if Int.random(in: 0..<4, using: &random) == 0 { request = request.tagged("some") }
        if Int.random(in: 0..<5, using: &random) == 0 { request = request.withoutInterceptors() }
        if !plan.isCalm, Int.random(in: 0..<20, using: &random) == 0 { request = request.deadline(.milliseconds(3)) }
        return request
    }

    private func makeMember(_ random: inout SeededGenerator) -> TortureMember {
        let name = state.withLock { state in
            state.lastNumber += 1
            return "m\(state.lastNumber)"
        }
        let operation = check.watch(manager.operation(request(name, &random).named(name)))
        // Only operations that are in no queue are started by hand, as `start()` requires.
        let member = TortureMember(
            operation, isObserved: Int.random(in: 0..<3, using: &random) == 0,
            startsByHand: !plan.isCalm && Int.random(in: 0..<20, using: &random) == 0)
        know(member, name)
        // Another thread may add an operation to Foundation's queue after a barrier that waits for this one. The queue
        // would then wait for itself.
        let mustBeEnqueued = plan.hasBarriers && plan.queueLimit != nil
        let others = state.withLock { state in
            let others = (mustBeEnqueued ? state.enqueued : state.members).suffix(8)
            state.members.append(member)
            return Array(others)
        }
        if Int.random(in: 0..<4, using: &random) == 0, let other = others.randomElement(using: &random) {
            operation.addDependency(other.operation, onFailure: Bool.random(using: &random) ? .fail : .ignore)
        }
        if Int.random(in: 0..<10, using: &random) == 0 {
            let foreign = BlockOperation {}
            operation.addDependency(foreign)
            OperationQueue().addOperation(foreign)
        }
        return member
    }

    private func enqueue(_ random: inout SeededGenerator) {
        switch Int.random(in: 0..<10, using: &random) {
        case 0:
            let name = "s\(Int.random(in: 0..<9, using: &random))"
            let request = request(name, &random).coalesced()
            let task = Task { [manager] in _ = try? await manager.send(request) }
            if !plan.isCalm, Bool.random(using: &random) { task.cancel() }
            state.withLock { $0.tasks.append(task) }
        case 1:
            let requests = (0..<Int.random(in: 0..<12, using: &random)).map { request("b\($0)", &random) }
            let batch = manager.batch(requests, failFast: !plan.isCalm && Bool.random(using: &random))
            let more = request("b", &random)
            batch.add(more)
            state.withLock { $0.batches.append(batch) }
        case 2:
            let chunks = manager.chunks(of: request("c", &random))
            let isPatient = plan.isCalm || Bool.random(using: &random)
            state.withLock { state in
                state.tasks.append(
                    Task {
                        guard isPatient else { return chunks.operation.cancel() }
                        do { for try await _ in chunks {} } catch {}
                    })
            }
        default:
            let member = makeMember(&random)
            if member.wasStartedByHand { member.operation.start() }
            manager.enqueue(member.operation)
            state.withLock { $0.enqueued.append(member) }
        }
    }

    private func use(_ random: inout SeededGenerator) {
        guard let member = pick(&random) else { return }
        let operation = member.operation
        let call = Int.random(in: 0..<14, using: &random)
        // These calls would change the number of running operations that the limits bound.
        if plan.isCalm, call < 5 { return member.addHandler() }
        switch call {
        case 0, 1: operation.cancel()
        case 2, 3: operation.suspend()
        case 4: operation.resume()
        case 6, 7: operation.queuePriority = [.veryLow, .normal, .veryHigh][Int.random(in: 0..<3, using: &random)]
        case 8 where plan.changesDependencies:
            if let other = pick(&random) { operation.addDependency(other.operation, onFailure: .ignore) }
        case 9 where plan.changesDependencies:
            if let other = pick(&random) { operation.removeDependency(other.operation) }
        case 10: member.addHandler()
        case 11: operation.onProgress { [manager, weak operation] _ in if let operation { _ = manager.why(operation) } }
        case 12:
            let events = operation.events
            state.withLock { $0.tasks.append(Task { for await _ in events {} }) }
        default:
            state.withLock { $0.tasks.append(Task { _ = try? await operation.response() }) }
        }
    }

    private func look(_ random: inout SeededGenerator) {
        for operation in manager.operations { _ = (operation.attempt, operation.progress.download.completedBytes) }
        if let operation = pick(&random)?.operation {
            _ = (operation.description, manager.why(operation), operation.isReady, operation.attempts.count)
            _ = (operation.task?.state, operation.timings.queued, operation.estimatedTimeLeft, operation.dependencies)
        }
    }

    private func command(_ random: inout SeededGenerator) {
        switch Int.random(in: 0..<12, using: &random) {
        case 0, 1: manager.isSuspended = true
        case 2, 3, 4: manager.isSuspended = false
        case 5 where !plan.isCalm:
            manager.maxConcurrentOperationCount = plan.limit + Int.random(in: 0...2, using: &random)
        case 6 where !plan.isCalm: manager.cancelAll(tagged: "some")
        case 7 where !plan.isCalm && Int.random(in: 0..<6, using: &random) == 0: manager.cancelAll()
        case 8 where !plan.isCalm: manager.cancelAll { $0.attempt == 2 }
        case 9 where plan.hasBarriers:
            state.withLock { $0.barriers.added += 1 }
            manager.queue.addBarrierBlock { self.state.withLock { $0.barriers.run += 1 } }
        case 10: manager.queue.addOperation { [manager] in _ = manager.operations.count }
        default:
            guard let batch = state.withLock({ $0.batches.last }) else { return }
            _ = batch.currentProgress
            if !plan.isCalm, Bool.random(using: &random) { batch.cancel() }
            batch.add(request("b", &random))
        }
    }

    private func pick(_ random: inout SeededGenerator) -> TortureMember? {
        state.withLock { $0.members }.suffix(24).randomElement(using: &random)
    }

    /// Resumes and enqueues everything that still waits for its owner.
    func letGo() {
        manager.isSuspended = false
        let members = state.withLock { $0.members }
        for member in members { member.operation.resume() }
        manager.enqueue(contentsOf: members.map(\.operation))
    }

    func end() async {
        let (batches, tasks, members) = state.withLock { ($0.batches, $0.tasks, $0.members) }
        for batch in batches { _ = await batch.results.count }
        for task in tasks { await task.value }
        for member in members { _ = try? await member.operation.response() }
        await offPool { [manager] in manager.queue.waitUntilAllOperationsAreFinished() }
    }

    func expectAllTold(_ monitor: TortureMonitor, _ plan: TorturePlan) {
        let (members, barriers) = state.withLock { ($0.members, $0.barriers) }
        for member in members {
            let (operation, calls) = (member.operation, member.calls.withLock { $0 })
            #expect(operation.isFinished && operation.result != nil, "\(operation), \(plan.label)")
            #expect(calls.allSatisfy { $0 == 1 }, "\(calls) calls, \(operation), \(plan.label)")
            let ends = member.observation.withLock { $0 } == nil ? 1 : member.ends.withLock { $0 }
            #expect(ends == 1, "told of the end, \(operation), \(plan.label)")
        }
        #expect(monitor.endedCount == members.count, "\(plan.label)")
        #expect(barriers.added == barriers.run, "\(plan.label)")
    }
}
