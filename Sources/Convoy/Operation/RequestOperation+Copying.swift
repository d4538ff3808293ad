// Copies an operation, to send its request once more.
import Foundation

extension RequestPlan {
    /// Replaces a plan that a finished operation has released.
    fileprivate static func released<Output: Sendable>(_: Output.Type, of prepared: PreparedRequest?) -> RequestPlan {
        var core = RequestCore(method: prepared?.method ?? .get, url: prepared?.url)
        core.defect = """
            it is a copy of a finished operation, whose end released a request with code of the caller (a closure, a \
            stream, an interceptor): copy the operation before its end, or make one from its request
            """
        return RequestPlan(
            Request<Output>(core: core) { _, _ in throw RequestError(.invalidRequest, "nothing was sent") })
    }
}

extension RequestOperation {
    func makeCopy() -> RequestOperation<Output> {
        let (requestPlan, prepared, scheduler) = state.withLock { ($0.requestPlan, $0.prepared, $0.scheduler) }
        return RequestOperation(
            requestPlan: requestPlan ?? .released(Output.self, of: prepared), context: context,
            scheduler?.context === context ? scheduler : nil)
    }
}
