// What an operation can and cannot need, known when it is made.

/// What is known of an operation before it is queued, and does not change: read without a lock.
///
/// A plain request needs none of it, and none of it costs a plain request anything. A chain's link may need everything
/// until its request has been built.
struct OperationOptions: Sendable {
    /// An interceptor may change the request or have a say in what follows an attempt.
    let mayIntercept: Bool
    /// The operation may have a deadline.
    let mayHaveDeadline: Bool
    /// Only the library holds it: it may start beside its queue.
    let isInternal: Bool
    /// Whether nothing stands between a free slot and the request: it shares no transfer and has no name of its own, and
    /// preparing it looks at no file and runs no code of the user's.
    let isPlain: Bool

    /// Its request is built when its dependencies have finished.
    let isLink: Bool

    /// It sends nothing itself, and so takes no slot: it stands for the operations that are its members.
    let isGroup: Bool

    /// Whether a task that is suspended and resumed goes on where it was, as the transport says.
    let pausesInPlace: Bool

    init(_ requestPlan: RequestPlan, _ context: ExecutionContext, isInternal: Bool) {
        (self.isInternal, pausesInPlace) = (isInternal, context.transport.pausesInPlace)
        isLink = requestPlan.build != nil
        isGroup = requestPlan.isGroup
        guard !isLink, !isGroup else {
            (mayIntercept, mayHaveDeadline, isPlain) = (isLink, isLink, false)
            return
        }
        // Not the policies themselves: they are many, and would be copied.
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
            && box?.policies.exclusion == nil && context.cache == nil
    }
}
