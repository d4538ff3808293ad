// Values that the caller stores in an operation.
import Foundation

extension AnyRequestOperation {
    /// Values that the caller stores in the operation.
    ///
    /// The initial values are those of ``Request/userInfo(_:_:)``.
    ///
    /// The values are available before the start and after the finish. A chain's link has none until its request has
    /// been built, unless they were set here.
    ///
    /// - Thread: any. The values are released with the operation.
    public final var userInfo: [String: any Sendable] {
        get {
            state.withLock { $0.followUp?.userInfo ?? $0.requestPlan?.core?.policyBox?.policies.userInfo ?? [:] }
        }
        set {
            let old = state.withLock { state in
                let followUp = state.makeFollowUp()
                defer { followUp.userInfo = newValue }
                return followUp.userInfo
            }
            // The old values are released outside the lock, because a deinit may call back.
            withExtendedLifetime(old) {}
        }
    }
}
