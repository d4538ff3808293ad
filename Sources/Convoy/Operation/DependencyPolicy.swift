// What becomes of an operation when one that it depends on fails.
import Foundation

/// What a dependent does when a dependency fails or is cancelled.
public enum DependencyPolicy: Sendable {
    /// The dependent fails with `.dependencyFailed` without being sent, and its own dependents after it.
    case fail
    /// The dependent runs: finished is enough, as with Foundation's `addDependency`.
    case ignore
}

extension DependencyGraph {
    /// What came of asking for an edge.
    enum Connection {
        /// The dependent waits.
        case waiting
        /// The dependency has finished already, or was there before: nothing to wait for.
        case met
        /// The dependency has failed, and the policy is to fail with it.
        case failed(RequestError)
        /// The edge would close a cycle, whose members these are; it was not made.
        case cycle([Operation])
    }

    /// Why the dependents of an operation fail with it: put into words once for all of them.
    struct FailureReason {
        /// What has failed, and how.
        let (dependency, what): (String, String)
        /// The first that failed.
        let root: any Error

        init(_ dependency: AnyRequestOperation, _ error: RequestError) {
            let request = error.request
            self.dependency = dependency.name?.oneLine ?? (request.isEmpty ? dependency.label : request)
            what = error.code == .cancelled ? "was cancelled" : "failed"
            root = error.code == .dependencyFailed ? error.underlying ?? error : error
        }

        /// For its dependents.
        var message: String { "nothing was sent: \(dependency), which it depends on, \(what)" }
    }
}
