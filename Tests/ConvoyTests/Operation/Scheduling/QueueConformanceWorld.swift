import Convoy
import Foundation
import Testing

/// Ends a case that cannot continue; an issue has been recorded.
struct Stuck: Error {}

final class QueueWorld: Sendable {
    private struct Parts {
        var queue: OperationQueue?
        var manager: RequestManager?
        var operations: [Operation] = []
    }

    static let names = (0..<12).map { "\($0)" }
    static let bound = Duration.seconds(20)
    /// Retains operations that never ended, because corelibs uses pointers to dependents without retaining them.
    private static let remains = Locked<[Operation]>([])

    let subject: QueueSubject
    let board = WorkBoard()
    private let promise: String
    private let isRequests: Bool
    private let parts: Locked<Parts>

    init(
        _ subject: QueueSubject, _ promise: String, limit: Int? = nil, clock: VirtualClock? = nil,
        configure: (inout RequestManager.Configuration) -> Void = { _ in }
    ) {
        (self.subject, self.promise, isRequests) = (subject, promise, !subject.isPlain)
        let server = StubServer { [board] exchange in
            board.begin(String(exchange.request.url.path.dropFirst())) { exchange.answer(200) }
        }
        let queue = subject == .requestsOfTheManagersQueue ? nil : OperationQueue()
        // If requests are added to a foreign queue, their manager has a queue that stays unused.
        let managers = subject == .requestsAddedToAQueue ? OperationQueue() : queue
        let manager =
            subject.isPlain
            ? nil
            : server.manager(1_000_000, perHost: 1_000_000, queue: managers, clock: clock, configure: configure)
        parts = Locked(Parts(queue: queue ?? manager?.queue, manager: manager))
        if let limit { self.queue.maxConcurrentOperationCount = limit }
    }

    /// The queue; a new one after the queue was released.
    var queue: OperationQueue { parts.withLock { $0.queue } ?? OperationQueue() }
    var manager: RequestManager? { parts.withLock { $0.manager } }
    var operations: [Operation] { parts.withLock { $0.operations } }

    func letGoOfQueue() {
        let former = parts.withLock { parts in
            defer { (parts.queue, parts.manager) = (nil, nil) }
            return (parts.queue, parts.manager)
        }
        _ = former
    }

    // MARK: Operations

    /// Creates an operation; with `held`, its work ends only when the test opens it.
    func make(_ name: String, held: Bool = false, tag: String? = nil) -> Operation {
        if held { board.hold(name) }
        let operation: Operation
        if isRequests, let manager {
            operation = manager.operation(tag.map { Request.stub(name).tagged($0) } ?? .stub(name))
        } else if held {
            operation = PlainOperation(name, board)
        } else {
            operation = BlockOperation { [board] in board.begin(name) {} }
        }
        operation.name = name
        return kept(operation)
    }

    func make(_ names: [String], held: Bool = false) -> [Operation] { names.map { make($0, held: held) } }

    func kept<Kept: Operation>(_ operation: Kept) -> Kept {
        parts.withLock { $0.operations.append(operation) }
        return operation
    }

    func add(_ operations: Operation..., sourceLocation: SourceLocation = #_sourceLocation) async throws {
        try await add(operations, sourceLocation: sourceLocation)
    }

    func add(
        _ operations: [Operation], within bound: Duration = QueueWorld.bound,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        try await call("adding", within: bound, sourceLocation: sourceLocation) {
            for operation in operations { self.addHere(operation) }
        }
    }

    func addHere(_ operation: Operation) {
        switch (subject, operation as? AnyRequestOperation) {
        case (.requestsStartedByHand, _): operation.start()
        case (.requestsEnqueuedInAQueue, let request?), (.requestsOfTheManagersQueue, let request?):
            manager?.enqueue(request)
        default: queue.addOperation(operation)
        }
    }

    @discardableResult
    func run(
        _ name: String, held: Bool = false, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> Operation {
        let operation = make(name, held: held)
        try await add(operation, sourceLocation: sourceLocation)
        return operation
    }

    /// Adds operations whose work the test ends, and waits until a number of them has begun.
    @discardableResult
    func runHeld(
        _ names: [String] = QueueWorld.names, begun count: Int, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> [Operation] {
        let operations = make(names, held: true)
        try await add(operations, sourceLocation: sourceLocation)
        try await untilBegun(count, sourceLocation: sourceLocation)
        return operations
    }

    @discardableResult
    func runHeld(_ name: String, sourceLocation: SourceLocation = #_sourceLocation) async throws -> Operation {
        try await runHeld([name], begun: 1, sourceLocation: sourceLocation)[0]
    }

    // MARK: The queue

    func suspend(_ isSuspended: Bool, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        try await call(isSuspended ? "suspending" : "resuming", sourceLocation: sourceLocation) { [queue] in
            queue.isSuspended = isSuspended
        }
    }

    func cancelAll(sourceLocation: SourceLocation = #_sourceLocation) async throws {
        try await call("cancelling", sourceLocation: sourceLocation) { [queue] in queue.cancelAllOperations() }
    }

    func addBarrier(_ mark: String, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        try await addBarrier(sourceLocation: sourceLocation) { mark }
    }

    func addBarrier(
        sourceLocation: SourceLocation = #_sourceLocation, _ mark: @escaping @Sendable () -> String
    ) async throws {
        try await call("adding a barrier", sourceLocation: sourceLocation) { [queue] in
            queue.addBarrierBlock { self.mark(mark()) }
        }
    }

    // MARK: Waiting with a time limit

    /// Waits for the queue on another thread; the log gets the mark when the wait ends.
    func beginWaiting(_ mark: String = "waited") {
        begin(mark) { [queue] in queue.waitUntilAllOperationsAreFinished() }
    }

    /// Starts a call that may block forever on a separate thread; the log gets a mark when the call returns.
    func begin(_ mark: String, _ body: @escaping @Sendable () -> Void) {
        Thread { [board] in
            body()
            board.log.record(mark)
        }.start()
    }

    @discardableResult
    func call<Value: Sendable>(
        _ what: String, within bound: Duration = QueueWorld.bound,
        sourceLocation: SourceLocation = #_sourceLocation, _ body: @escaping @Sendable () -> Value
    ) async throws -> Value {
        let result = Locked<Value?>(nil)
        Thread {
            let value = body()
            result.withLock { $0 = value }
        }.start()
        try await until("\(what) returns", within: bound, sourceLocation: sourceLocation) {
            result.withLock { $0 != nil }
        }
        return try #require(result.withLock { $0 })
    }

    /// Waits until a condition is true; otherwise records an issue and ends the case.
    func until(
        _ what: String, within bound: Duration = QueueWorld.bound,
        sourceLocation: SourceLocation = #_sourceLocation, _ isTrue: () -> Bool
    ) async throws {
        guard await !turns(within: bound, until: isTrue) else { return }
        let events = board.events
        let told = events.count > 60 ? "\(events.count) events" : "\(events)"
        Issue.record("\(promise), \(subject): not \(what): \(told)", sourceLocation: sourceLocation)
        throw Stuck()
    }

    func untilLogged(_ event: String, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        try await until("\(event) in the log", sourceLocation: sourceLocation) { board.events.contains(event) }
    }

    func untilBegun(_ count: Int, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        try await until("\(count) begun", sourceLocation: sourceLocation) { board.begun.count >= count }
    }

    func untilFinished(
        _ operations: [Operation], sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        try await until("all finished", sourceLocation: sourceLocation) { operations.allSatisfy(\.isFinished) }
    }

    func waitForAll(
        within bound: Duration = QueueWorld.bound, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        try await call("waiting for all", within: bound, sourceLocation: sourceLocation) { [queue] in
            queue.waitUntilAllOperationsAreFinished()
        }
    }

    /// Ends held work after everything else had time to go wrong, and waits until the log has "waited".
    func open(_ name: String, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        await settle()
        board.open(name)
        try await untilLogged("waited", sourceLocation: sourceLocation)
    }

    /// Ends held work after everything else had time to go wrong, and waits for all.
    func finish(_ names: [String], sourceLocation: SourceLocation = #_sourceLocation) async throws {
        await settle()
        for name in names { board.open(name) }
        try await waitForAll(sourceLocation: sourceLocation)
    }

    func openInTurn(_ count: Int, atOnce: Int = 1) async throws {
        for done in 0..<count {
            try await untilBegun(min(count, done + atOnce))
            await settle()
            board.open(board.begun[done])
        }
    }

    /// Lets other threads run, so that pending work has probably been done.
    func settle() async {
        for _ in 0..<20 {
            await Task.yield()
            await withCheckedContinuation { done in DispatchQueue.global().async { done.resume() } }
        }
    }

    func mark(_ mark: String) { board.log.record(mark) }

    func expect(_ isTrue: Bool, _ what: String, sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(isTrue, "\(promise), \(subject): \(what): \(board.events.prefix(60))", sourceLocation: sourceLocation)
    }

    func expect<Value: Equatable>(
        _ value: Value, is expected: Value, _ what: String, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        #expect(value == expected, "\(promise), \(subject): \(what)", sourceLocation: sourceLocation)
    }

    /// Ends the remaining operations of a case, so that none runs during other cases.
    fileprivate func clear() async {
        board.openAll()
        let (queue, manager, operations) = (queue, manager, operations)
        Thread {
            queue.maxConcurrentOperationCount = OperationQueue.defaultMaxConcurrentOperationCount
            queue.isSuspended = false
            manager?.isSuspended = false
        }.start()
        if operations.allSatisfy(\.isFinished) { return }
        let isClear = await turns(within: .seconds(1)) { operations.allSatisfy(\.isFinished) }
        if !isClear { Self.remains.withLock { $0 += operations } }
    }
}

func conform(
    _ subject: QueueSubject, limit: Int? = nil, promise: String = #function, clock: VirtualClock? = nil,
    configure: (inout RequestManager.Configuration) -> Void = { _ in },
    _ body: (QueueWorld) async throws -> Void
) async {
    let name = String(promise.prefix { $0 != "(" })
    let world = QueueWorld(subject, name, limit: limit, clock: clock, configure: configure)
    func attempt() async {
        do { try await body(world) } catch is Stuck {} catch { Issue.record(error, "\(name), \(subject)") }
    }
    if let difference = KnownDifferences.all.first(where: { $0.promise == name && $0.subject == subject }) {
        await withKnownIssue("\(difference.reason)") { await attempt() }
    } else {
        await attempt()
    }
    await world.clear()
}
