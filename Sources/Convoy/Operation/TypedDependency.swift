// What a chain's link can follow, with its type.
import Foundation

/// Something that a link can follow: an operation, and what its outcome gives to the function that makes the request.
///
/// ``RequestOperation`` gives its response and ``GroupOperation`` its value, and the link fails with them. ``optional`` and
/// ``asResult`` let it go on without:
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
/// A type of yours that has an operation adopts it by giving the ``input`` of that.
public protocol TypedDependency<Value>: Sendable {
    /// What the function receives.
    associatedtype Value: Sendable
    /// The operation, what follows from its failure, and its value.
    var input: DependencyInput<Value> { get }
}

/// An operation that a link follows, and how its outcome becomes a value.
public struct DependencyInput<Value: Sendable>: TypedDependency {
    let operation: AnyRequestOperation
    let policy: DependencyPolicy
    /// To be asked when the operation has finished.
    let value: @Sendable () throws(RequestError) -> Value

    var edge: (operation: AnyRequestOperation, policy: DependencyPolicy) { (operation, policy) }

    /// Itself.
    public var input: DependencyInput<Value> { self }

    init(
        _ operation: AnyRequestOperation, policy: DependencyPolicy = .fail,
        value: @escaping @Sendable () throws(RequestError) -> Value
    ) {
        (self.operation, self.policy, self.value) = (operation, policy, value)
    }

    /// - Parameter result: the outcome; nil before there is one.
    init(_ operation: AnyRequestOperation, result: @escaping @Sendable () -> Result<Value, RequestError>?) {
        self.init(operation) { () throws(RequestError) in
            // Only a dependency that was removed before it had finished has none.
            guard let result = result() else {
                throw RequestError(
                    .invalidRequest, "the request needs the result of \(operation.label), which has none yet")
            }
            return try result.get()
        }
    }
}

extension TypedDependency {
    /// The same, which may fail: the link goes on, with nil for what failed or was cancelled.
    public var optional: DependencyInput<Value?> {
        let input = input
        return DependencyInput<Value?>(input.operation, policy: .ignore) { () throws(RequestError) in
            try? input.value()
        }
    }

    /// The same, which may fail: the link goes on, with the failure.
    public var asResult: DependencyInput<Result<Value, RequestError>> {
        let input = input
        return DependencyInput<Result<Value, RequestError>>(input.operation, policy: .ignore) {
            () throws(RequestError) in
            do throws(RequestError) { return .success(try input.value()) } catch { return .failure(error) }
        }
    }
}

extension RequestOperation: TypedDependency {
    /// The response; a link fails when there is none.
    public var input: DependencyInput<Response<Output>> { DependencyInput(self) { self.result } }
}
