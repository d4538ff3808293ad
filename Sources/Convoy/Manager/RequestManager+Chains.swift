// Chains: one answer makes the next request.
import Foundation

extension RequestManager {
    /// Makes an operation whose request is built from the response of another, when that has succeeded.
    ///
    /// When the other fails or is cancelled, this one ends with `.dependencyFailed` without being sent, and so do those
    /// that follow it.
    ///
    /// ```swift
    /// let login = manager.operation(Request<Token>.post(loginURL, json: credentials))
    /// let me = manager.operation(after: login) { Request<User>.get(meURL).bearer($0.value.token) }
    /// manager.enqueue(login, me)
    /// ```
    ///
    /// In messages and logs it is called by what it follows, "the link after POST https://…/login", until its request has
    /// been built; set the operation's `name` for another.
    ///
    /// - Parameters:
    ///   - dependency: the operation to wait for; any manager's, enqueued by you.
    ///   - makeRequest: makes the request; what it throws becomes `.invalidRequest`. Runs on a queue of the new
    ///     operation's own.
    public func operation<Input, Output>(
        after dependency: RequestOperation<Input>,
        _ makeRequest: @escaping @Sendable (Response<Input>) throws -> Request<Output>
    ) -> RequestOperation<Output> {
        link([dependency], policy: .fail) { try makeRequest(try success(of: dependency)) }
    }

    /// Makes an operation whose request is built from the outcome of another, whatever it is.
    public func operation<Input, Output>(
        afterResultOf dependency: RequestOperation<Input>,
        _ makeRequest: @escaping @Sendable (RequestOperation<Input>.Result) throws -> Request<Output>
    ) -> RequestOperation<Output> {
        link([dependency], policy: .ignore) {
            guard let result = dependency.result else { throw missingResult(of: dependency) }
            return try makeRequest(result)
        }
    }

    /// Makes an operation whose request is built from the responses of several, in their order, when all have succeeded.
    public func operation<Input, Output>(
        after dependencies: [RequestOperation<Input>],
        _ makeRequest: @escaping @Sendable ([Response<Input>]) throws -> Request<Output>
    ) -> RequestOperation<Output> {
        link(dependencies, policy: .fail) { try makeRequest(try dependencies.map { try success(of: $0) }) }
    }

    private func link<Output>(
        _ dependencies: [AnyRequestOperation], policy: DependencyPolicy,
        _ makeRequest: @escaping @Sendable () throws -> Request<Output>
    ) -> RequestOperation<Output> {
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
            context: scheduler.context)
        for dependency in dependencies { operation.addDependency(dependency, onFailure: policy) }
        return operation
    }
}

/// The response of a dependency that has finished.
private func success<Input>(of dependency: RequestOperation<Input>) throws(RequestError) -> Response<Input> {
    guard let result = dependency.result else { throw missingResult(of: dependency) }
    return try result.get()
}

/// Only a dependency that was removed before it had finished has no result.
private func missingResult(of dependency: AnyRequestOperation) -> RequestError {
    RequestError(.invalidRequest, "the request needs the result of \(dependency.label), which has none yet")
}
