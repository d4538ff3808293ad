// An operation that is sent once more, as another operation.
import Foundation

extension RequestPlan {
    /// Stands for what the end of an operation has let go of.
    fileprivate static func released<Output: Sendable>(_: Output.Type, of prepared: PreparedRequest?) -> RequestPlan {
        var core = RequestCore(method: prepared?.method ?? .get, url: prepared?.url)
        core.defect = """
            it is a copy of an operation that had finished, and the end lets go of a request with code of the caller's (a \
            closure, a stream, an interceptor): copy it before, or make an operation of its request
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
