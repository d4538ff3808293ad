// The features that an operation may need, known when it is made.

/// Constants of an operation, known before it is queued and read without a lock.
///
/// A plain request needs none of these features, and its operation does no work for them. A chain's link may need all
/// of them until its request has been built.
struct OperationOptions: Sendable {
    /// Whether an interceptor may change the request or decide what follows an attempt.
    let mayIntercept: Bool
    /// Whether the operation may have a deadline.
    let mayHaveDeadline: Bool
    /// Whether only the library has a reference to the operation.
    ///
    /// Its manager may then start it inline, without the operation queue.
    let isInternal: Bool
    /// Whether the request needs nothing but a free slot to be sent.
    ///
    /// Such a request shares no transfer and has no exclusion name. Preparing the request reads no file and runs no
    /// user code. If the manager has a cache, the operation looks there first.
    let isPlain: Bool

    /// Whether the operation is a chain's link, whose request is built when its dependencies have finished.
    let isLink: Bool

    /// Whether the operation is a group or a barrier, which sends nothing itself and needs no slot.
    let isGroup: Bool

    /// Whether the transport can pause and resume a task without a new attempt.
    let pausesInPlace: Bool

    init(_ requestPlan: RequestPlan, _ context: ExecutionContext, isInternal: Bool) {
        (self.isInternal, pausesInPlace) = (isInternal, context.transport.pausesInPlace)
        isLink = requestPlan.build != nil
        isGroup = requestPlan.isGroup
        guard !isLink, !isGroup else {
            (mayIntercept, mayHaveDeadline, isPlain) = (isLink, isLink, false)
            return
        }
        // The box is passed rather than its policies, because they are large and would be copied.
        let box = requestPlan.request.policyBox
        mayIntercept = (box != nil || !context.interceptors.isEmpty) && context.asksInterceptors(box)
        let deadline = box?.policies.deadline ?? context.defaults.deadline
        mayHaveDeadline = deadline != nil || box?.policies.inheritedDeadline != nil
        let mayWait =
            switch requestPlan.request.body {
            case nil, .data: false
            case .file, .stream, .multipart, .json: true
            }
        isPlain =
            !mayIntercept && !mayHaveDeadline && box?.policies.isCoalesced != true && !mayWait
            && box?.policies.exclusion == nil
    }
}
