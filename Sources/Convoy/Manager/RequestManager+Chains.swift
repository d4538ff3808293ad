// Chains: one answer makes the next request.
import Foundation

extension RequestManager {
    /// Makes an operation whose request is built from the response of another, when that has succeeded.
    ///
    /// When the other fails or is cancelled, this one ends with `.dependencyFailed` without being sent, and so do those
    /// that follow it.
    ///
    /// ```swift
    /// let login = manager.operation(
    ///     Request<Token>.post(loginURL, json: credentials))
    /// let me = manager.operation(after: login) {
    ///     Request<User>.get(meURL).bearer($0.value.token)
    /// }
    /// manager.enqueue(login, me)
    /// ```
    ///
    /// In messages and logs it is called by what it follows, "the link after POST https://…/login", until its request has
    /// been built; set the operation's `name` for another.
    ///
    /// - Parameters:
    ///   - dependency: the operation to wait for, a request or a group; any manager's, enqueued by you.
    ///   - makeRequest: makes the request; what it throws becomes `.invalidRequest`. Runs on a queue of the new
    ///     operation's own.
    public func operation<Dependency: TypedDependency, Output>(
        after dependency: Dependency,
        _ makeRequest: @escaping @Sendable (Dependency.Value) throws -> Request<Output>
    ) -> RequestOperation<Output> {
        let input = dependency.input
        return link([(input.operation, input.policy)]) { try makeRequest(try input.value()) }
    }

    /// Makes an operation whose request is built from the outcome of another, whatever it is.
    public func operation<Input, Output>(
        afterResultOf dependency: RequestOperation<Input>,
        _ makeRequest: @escaping @Sendable (RequestOperation<Input>.Result) throws -> Request<Output>
    ) -> RequestOperation<Output> {
        operation(after: dependency.asResult, makeRequest)
    }

    /// Makes an operation whose request is built from the values of several of one type, in their order, when all have
    /// succeeded.
    public func operation<Dependency: TypedDependency, Output>(
        after dependencies: [Dependency],
        _ makeRequest: @escaping @Sendable ([Dependency.Value]) throws -> Request<Output>
    ) -> RequestOperation<Output> {
        let inputs = dependencies.map(\.input)
        return link(inputs.map { ($0.operation, $0.policy) }) { try makeRequest(try inputs.map { try $0.value() }) }
    }

    /// Makes an operation whose request is built from the values of several of any types, when all have succeeded.
    ///
    /// ```swift
    /// let order = manager.operation(
    ///     after: me, cart, coupon.optional
    /// ) { me, cart, coupon in
    ///     let draft = Draft(me.value, cart.value, coupon?.value)
    ///     return Request<Order>.post(ordersURL, json: draft)
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - first: the first to wait for; any manager's, enqueued by you.
    ///   - second: the second.
    ///   - others: the others. ``TypedDependency/optional`` and ``TypedDependency/asResult`` of one let the link go on when
    ///     it fails.
    ///   - makeRequest: makes the request of their values, in that order; what it throws becomes `.invalidRequest`.
    public func operation<First: TypedDependency, Second: TypedDependency, each Other: TypedDependency, Output>(
        after first: First, _ second: Second, _ others: repeat each Other,
        make makeRequest:
            @escaping @Sendable (First.Value, Second.Value, repeat (each Other).Value) throws -> Request<
                Output
            >
    ) -> RequestOperation<Output> {
        let (first, second) = (first.input, second.input)
        let inputs = (repeat (each others).input)
        var edges = [(first.operation, first.policy), (second.operation, second.policy)]
        for input in repeat each inputs { edges.append((input.operation, input.policy)) }
        return link(edges) {
            try makeRequest(try first.value(), try second.value(), repeat try (each inputs).value())
        }
    }

    private func link<Output>(
        _ edges: [(operation: AnyRequestOperation, policy: DependencyPolicy)],
        _ makeRequest: @escaping @Sendable () throws -> Request<Output>
    ) -> RequestOperation<Output> {
        let dependencies = edges.map(\.operation)
        let build: @Sendable () throws -> Request<Output> = {
            let request = try makeRequest()
            guard request.core.policyBox?.policies.inheritsDeadline == true else { return request }
            let inherited = dependencies.compactMap(\.deadline).min()
            return request.changed { $0.policies.inheritedDeadline = inherited }
        }
        let label =
            dependencies.first?.linkLabel(others: dependencies.count - 1)
            ?? LinkLabel(root: RequestSummary(text: "no operation"), others: 0)
        let operation = RequestOperation<Output>(
            requestPlan: RequestPlan(link: label, scheduler.context.defaults.encoder, building: build),
            context: scheduler.context, scheduler)
        for (dependency, policy) in edges { operation.addDependency(dependency, onFailure: policy) }
        return operation
    }
}
