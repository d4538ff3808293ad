// The dependency of a chain's link, with its type.
import Foundation

/// A dependency of a chain's link.
///
/// Its outcome becomes an argument of the function that makes the request.
///
/// ``RequestOperation`` provides its response and ``GroupOperation`` its value. The link fails if its dependency fails.
/// With ``optional`` and ``asResult`` the link continues after a failure:
///
/// ```swift
/// let page = manager.operation(
///     after: user, avatar.optional, settings.asResult
/// ) { user, avatar, settings in
///     let settings = try? settings.get().value
///     let page = makePage(user.value, avatar?.value, settings)
///     return Request<Page>.post(pageURL, json: page)
/// }
/// ```
///
/// Your own type with an operation conforms by returning the ``input`` of that operation.
public protocol TypedDependency<Value>: Sendable {
    /// The value that the link's function receives.
    associatedtype Value: Sendable
    /// The operation, its failure policy, and its value.
    var input: DependencyInput<Value> { get }
}

/// An operation that a link follows, and how its outcome becomes a value.
public struct DependencyInput<Value: Sendable>: TypedDependency {
    let operation: AnyRequestOperation
    let policy: DependencyPolicy
    /// Returns the value; called after the operation has finished.
    let value: @Sendable () throws(RequestError) -> Value

    var edge: (operation: AnyRequestOperation, policy: DependencyPolicy) { (operation, policy) }

    /// This input itself.
    public var input: DependencyInput<Value> { self }

    init(
        _ operation: AnyRequestOperation, policy: DependencyPolicy = .fail,
        value: @escaping @Sendable () throws(RequestError) -> Value
    ) {
        (self.operation, self.policy, self.value) = (operation, policy, value)
    }

    init(_ operation: AnyRequestOperation, result: @escaping @Sendable () -> Result<Value, RequestError>?) {
        self.init(operation) { () throws(RequestError) in
            guard let result = result() else { throw operation.hasNoResult }
            return try result.get()
        }
    }
}

extension AnyRequestOperation {
    fileprivate var hasNoResult: RequestError {
        RequestError(.invalidRequest, "the request needs the result of \(label), which has none yet")
    }
}

extension TypedDependency {
    /// The same dependency, which may fail.
    ///
    /// After a failure, the link continues with nil.
    public var optional: DependencyInput<Value?> {
        let input = input
        return DependencyInput<Value?>(input.operation, policy: .ignore) { () throws(RequestError) in
            try? input.value()
        }
    }

    /// The same dependency, which may fail.
    ///
    /// The link continues with the dependency's result, even after a failure.
    public var asResult: DependencyInput<Result<Value, RequestError>> {
        let input = input
        return DependencyInput<Result<Value, RequestError>>(input.operation, policy: .ignore) {
            () throws(RequestError) in
            do throws(RequestError) { return .success(try input.value()) } catch { return .failure(error) }
        }
    }
}

extension RequestOperation: TypedDependency {
    /// The response; the link fails if there is none.
    public var input: DependencyInput<Response<Output>> {
        DependencyInput(self) { () throws(RequestError) in
            guard let outcome = self.state.withLock({ $0.outcome }) else { throw self.hasNoResult }
            return try Self.response(in: outcome)
        }
    }
}
