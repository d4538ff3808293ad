// Chains: the response to one request determines the next request.
import Foundation

extension RequestManager {
    /// Makes an operation whose request is built from the response of another operation, once that has succeeded.
    ///
    /// If the other operation, which you enqueue with any manager, fails or is cancelled, the new operation, and those
    /// that depend on it, fail with `.dependencyFailed` without being sent. The function runs on the new operation's
    /// serial executor. An error that it throws becomes `.invalidRequest`.
    ///
    /// Until its request is built, messages and logs call the operation "the link after POST https://…/login", or by
    /// its `name`.
    public func operation<Value: Sendable, Output>(
        after dependency: any TypedDependency<Value>,
        _ makeRequest: @escaping @Sendable (Value) throws -> Request<Output>
    ) -> RequestOperation<Output> { link(dependency.input, make: makeRequest) }

    /// Makes an operation whose request is built from the outcome of another operation, success or failure.
    public func operation<Input, Output>(
        afterResultOf dependency: RequestOperation<Input>,
        _ makeRequest: @escaping @Sendable (RequestOperation<Input>.Result) throws -> Request<Output>
    ) -> RequestOperation<Output> {
        operation(after: dependency.asResult, makeRequest)
    }

    /// Makes an operation whose request is built from the values of several operations of one type, in their order,
    /// once all have succeeded.
    public func operation<Value: Sendable, Output>(
        after dependencies: [any TypedDependency<Value>],
        _ makeRequest: @escaping @Sendable ([Value]) throws -> Request<Output>
    ) -> RequestOperation<Output> {
        let inputs = dependencies.map { $0.input }
        return link(inputs.map(\.edge)) { try makeRequest(try inputs.map { try $0.value() }) }
    }

    /// Makes an operation whose request is built from the values of two operations, once both have succeeded.
    ///
    /// Three, four and five operations are supported likewise. With ``TypedDependency/optional`` or
    /// ``TypedDependency/asResult`` the link continues when a dependency fails. The rest is as for one dependency.
    public func operation<A: Sendable, B: Sendable, Output>(
        after first: any TypedDependency<A>, _ second: any TypedDependency<B>,
        make makeRequest: @escaping @Sendable (A, B) throws -> Request<Output>
    ) -> RequestOperation<Output> { link(first.input, second.input, make: makeRequest) }

    /// Makes an operation whose request is built from the values of three operations, once all have succeeded.
    public func operation<A: Sendable, B: Sendable, C: Sendable, Output>(
        after first: any TypedDependency<A>, _ second: any TypedDependency<B>, _ third: any TypedDependency<C>,
        make makeRequest: @escaping @Sendable (A, B, C) throws -> Request<Output>
    ) -> RequestOperation<Output> { link(first.input, second.input, third.input, make: makeRequest) }

    /// Makes an operation whose request is built from the values of four operations, once all have succeeded.
    public func operation<A: Sendable, B: Sendable, C: Sendable, D: Sendable, Output>(
        after first: any TypedDependency<A>, _ second: any TypedDependency<B>, _ third: any TypedDependency<C>,
        _ fourth: any TypedDependency<D>,
        make makeRequest: @escaping @Sendable (A, B, C, D) throws -> Request<Output>
    ) -> RequestOperation<Output> { link(first.input, second.input, third.input, fourth.input, make: makeRequest) }

    /// Makes an operation whose request is built from the values of five operations, once all have succeeded.
    public func operation<A: Sendable, B: Sendable, C: Sendable, D: Sendable, E: Sendable, Output>(
        after first: any TypedDependency<A>, _ second: any TypedDependency<B>, _ third: any TypedDependency<C>,
        _ fourth: any TypedDependency<D>, _ fifth: any TypedDependency<E>,
        make makeRequest: @escaping @Sendable (A, B, C, D, E) throws -> Request<Output>
    ) -> RequestOperation<Output> {
        link(first.input, second.input, third.input, fourth.input, fifth.input, make: makeRequest)
    }

    private func link<each Value: Sendable, Output>(
        _ inputs: repeat DependencyInput<each Value>,
        make makeRequest: @escaping @Sendable (repeat each Value) throws -> Request<Output>
    ) -> RequestOperation<Output> {
        var edges: [(AnyRequestOperation, DependencyPolicy)] = []
        for input in repeat each inputs { edges.append(input.edge) }
        return link(edges) { try makeRequest(repeat try (each inputs).value()) }
    }

    private func link<Output>(
        _ edges: [(operation: AnyRequestOperation, policy: DependencyPolicy)],
        _ makeRequest: @escaping @Sendable () throws -> Request<Output>
    ) -> RequestOperation<Output> {
        let encoder = scheduler.defaults.encoder
        let build: @Sendable () throws -> RequestPlan = {
            let request = try makeRequest()
            let inherits = request.core.policyBox?.policies.inheritsDeadline == true
            let inherited = inherits ? edges.compactMap(\.operation.deadline).min() : nil
            return TypedRequestPlan(
                inherits ? request.changed { $0.policies.inheritedDeadline = inherited } : request, encoder)
        }
        let label =
            edges.first?.operation.linkLabel(others: edges.count - 1)
            ?? LinkLabel(root: RequestSummary(text: "no operation"), others: 0)
        let operation = RequestOperation<Output>(
            requestPlan: RequestPlan(link: label, build: build), scheduler: scheduler)
        for (dependency, policy) in edges { operation.addDependency(dependency, onFailure: policy) }
        return operation
    }
}
