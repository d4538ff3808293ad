// What the caller keeps with an operation.
import Foundation

extension AnyRequestOperation {
    /// What the caller keeps with the operation, as with AFNetworking's; at first what ``Request/userInfo(_:_:)`` has set.
    ///
    /// It is there before the start and after the end. That of a chain's link is empty until its request has been built,
    /// unless it was set here.
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
            // Released outside the lock: a deinit may call back.
            withExtendedLifetime(old) {}
        }
    }
}
