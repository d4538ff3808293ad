// The effect of a failed dependency on an operation.
import Foundation

/// The effect on a dependent when a dependency fails or is cancelled.
public enum DependencyPolicy: Sendable {
    /// The dependent fails with `.dependencyFailed` without being sent. Its own dependents fail in turn.
    case fail
    /// The dependent runs once the dependency has finished, as with Foundation's `addDependency`.
    case ignore
}

extension DependencyGraph {
    /// The result of connecting two operations.
    enum Connection {
        case waiting
        /// No new edge is needed: the dependency or the operation has finished, or the edge existed before.
        case met
        /// The dependency has failed, and the policy is `fail`.
        case failed(RequestError)
        /// The edge was not made, because it would close a cycle with these members.
        case cycle([AnyRequestOperation])
    }

    /// Why the dependents of a failed operation fail too.
    struct FailureReason {
        let (dependency, what): (String, String)
        let root: any Error

        init(_ dependency: AnyRequestOperation, _ error: RequestError) {
            let request = error.request
            self.dependency = dependency.name?.oneLine ?? (request.isEmpty ? dependency.label : request)
            what = error.code == .cancelled ? "was cancelled" : "failed"
            root = error.code == .dependencyFailed ? error.underlying ?? error : error
        }

        var message: String { "nothing was sent: \(dependency), which it depends on, \(what)" }
    }
}
