// An operation whose function adds other operations while it runs.
import Foundation

/// An operation that runs a function, which adds other operations to the group while it runs.
///
/// A group finishes when its function and the last callback of its last member have returned. A `BlockOperation` or a
/// typed link that depends on the group therefore waits for all members.
///
/// ```swift
/// let sync = manager.operation(named: "sync") { group in
///     let list = try await group.send(Request<[String]>.get("files")).value
///     for name in list { group.enqueue(Request<Data>.get("files/\(name)")) }
///     return list.count
/// }
/// let report = manager.operation(after: sync) { count in
///     Request<Void>.post(reportURL, json: ["files": count])
/// }
/// manager.enqueue(sync, report)
/// ```
///
/// You enqueue, await, observe and cancel a group like a request. A group sends nothing itself and needs no slot. In
/// your own operation queue a group counts as one operation until it finishes. Its members do not count, so they run
/// even if the queue's limit is 1. Groups may be members of groups. In a queue with a limit, a group's function must
/// not wait for a request that was enqueued with the manager instead of the group.
///
/// | what happens | what follows |
/// |---|---|
/// | the function throws | all members are cancelled; when they have finished, the group fails with that error, or with `.groupFailed` if the error is no ``RequestError`` |
/// | a member fails or is cancelled | the same, with `.dependencyFailed`; unless the member was added with `.ignore`, or by ``OperationGroup/send(_:)``, whose caller decides |
/// | the group is cancelled | the task of the function and all members are cancelled; when they have finished, the group fails with `.cancelled` |
/// | the group is cancelled before it starts, or a dependency fails | the function is never called, and the group has its outcome at once |
/// | the manager, or its own queue, is suspended | the group is not started; members of a running group wait |
/// | the group is suspended | the group is not started; members of a running group are suspended, also members that are added later; they are resumed with the group, unless they were suspended by themselves too; the requests of a batch continue |
/// | an operation is added after the group has finished | the operation fails with `.invalidRequest` and is not sent |
///
/// The priority of a group at enqueueing decides when it starts, not when its members start. `cancelAllOperations()` of
/// its queue cancels the group. A barrier waits for the group and all its members, even later ones.
///
/// ## Concurrency
/// Use a group from any thread. The function runs in its own task, which is cancelled with the group. The function must
/// not wait for ``RequestManager/drain()``, which waits for the group.
///
/// ## Topics
/// - ``value``
/// - ``result``
/// - ``onFinish(on:_:)-(Delivery?,_)``
/// - ``copy()``
public final class GroupOperation<Output: Sendable>: AnyRequestOperation, @unchecked Sendable, TypedDependency {
    // @unchecked: this class adds only a lock to its superclass.

    /// The result of a group.
    public typealias Result = Swift.Result<Output, RequestError>

    private let members: Locked<GroupState>

    convenience init(
        named name: String, _ scheduler: Scheduler,
        _ work: @escaping @Sendable (OperationGroup) async throws -> Output
    ) {
        self.init(
            named: name, scheduler,
            erased: { group in
                do { return GroupValue(try await work(group)) } catch {
                    let failure =
                        switch error {
                        case let error as RequestError: error
                        case is CancellationError:
                            RequestError(.cancelled, "its function was cancelled", underlying: error)
                        default: RequestError(.groupFailed, "its function failed: \(error)", underlying: error)
                        }
                    return AnyOutcome(error: failure.with(RequestSummary(text: group.operation.label)))
                }
            })
    }

    private init(
        named name: String?, _ scheduler: Scheduler, erased work: @escaping GroupState.Work
    ) {
        members = Locked(GroupState(work))
        super.init(requestPlan: .none, scheduler: scheduler)
        self.name = name
        whenSettled { [members] _ in withExtendedLifetime(members.withLock { $0.end() }) {} }
    }

    /// The outcome, set before `isFinished` becomes true and then constant; nil until the group has finished.
    public var result: Result? { withLock { $0.outcome }.map { Self.typed($0) } }

    /// Adds a handler for the outcome, called after those of all members, as
    /// ``RequestOperation/onFinish(on:_:)-(Delivery?,_)`` does.
    @discardableResult
    public func onFinish(on delivery: Delivery? = nil, _ handler: @escaping @Sendable (Result) -> Void) -> Self {
        whenFinished(FinishHandler(place: place(delivery)) { handler(Self.typed($0)) })
        return self
    }

    /// Adds a handler for the outcome that runs on the main actor.
    @discardableResult
    public func onFinish(on delivery: MainDelivery, _ handler: @escaping @MainActor (Result) -> Void) -> Self {
        onFinish(on: .queue(.main)) { delivery.run($0, handler) }
    }

    /// The value that the function returned, when the group has finished; cancelling the task cancels the group.
    ///
    /// - Throws: the operation's error.
    public var value: Output {
        get async throws(RequestError) { try Self.typed(await outcome()).get() }
    }

    /// A new group with the same function, name and manager, but without members, handlers, observers and dependencies.
    ///
    /// A finished group has released its function, so its copy fails with `.invalidRequest`.
    ///
    /// - Thread: any.
    public override func copy() -> GroupOperation<Output> {
        let work: GroupState.Work =
            members.withLock { $0.work } ?? { @Sendable group in
                let message = """
                    nothing was sent: it is a copy of a finished operation, whose end released the group's function: \
                    copy the operation before its end
                    """
                return AnyOutcome(error: RequestError(.invalidRequest, message, request: group.operation.label))
            }
        return GroupOperation(named: name, scheduler, erased: work)
    }

    static func typed(_ outcome: AnyOutcome) -> Result {
        if let value = outcome as? GroupValue<Output> { return .success(value.value) }
        return .failure(outcome.error ?? RequestError(.groupFailed, "the outcome is of another type"))
    }

    private var group: OperationGroup { OperationGroup(operation: self, state: members) }

    override func begin() {
        let group = group
        // The task is made under the lock, so that a call that stops the group finds it.
        members.withLock { state in
            state.begin { work in
                Task {
                    let outcome = await work(group)
                    group.perform(group.state.withLock { $0.returned(outcome) })
                }
            }
        }
    }

    override func postpones(_ outcome: AnyOutcome) -> Bool {
        guard let effects = members.withLock({ $0.stop(outcome) }) else { return false }
        group.perform(effects)
        return true
    }

    // A serial queue applies the changes, so the members follow the group's latest state.
    override func suspensionChanged() {
        scheduler.taskControl.async {
            let members = self.members.withLock { Array($0.members.values) }
            let isSuspended = self.isSuspended
            for member in members { member.setSuspended(isSuspended, by: .group) }
        }
    }

    override var activity: String? {
        let (isRunning, first, count) = members.withLock { state in
            (state.isRunning, Array(state.members.values.prefix(3)), state.members.count)
        }
        let names = (isRunning ? ["its function"] : []) + first.map(\.description)
        let more = count > first.count ? " and \(count - first.count) more" : ""
        return names.isEmpty ? nil : "executing, and waits for \(names.joined(separator: ", "))\(more)"
    }

    /// The value of the group; a link fails when the group has none.
    public var input: DependencyInput<Output> { DependencyInput(self) { self.result } }
}

private final class GroupValue<Output: Sendable>: AnyOutcome, @unchecked Sendable {
    // @unchecked: immutable, as its superclass.
    let value: Output

    init(_ value: Output) {
        self.value = value
        super.init(error: nil)
    }
}

extension RequestManager {
    /// Makes a group: an operation whose function adds other operations while it runs, once it is enqueued or started.
    ///
    /// The function returns the value of the operation. It runs in its own task, which is cancelled when the group is
    /// stopped. The group always finishes after the function has returned.
    public func operation<Output>(
        named name: String, _ work: @escaping @Sendable (_ group: OperationGroup) async throws -> Output
    ) -> GroupOperation<Output> {
        GroupOperation(named: name, scheduler, work)
    }
}
