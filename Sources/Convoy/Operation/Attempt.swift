// One attempt. It receives a transport's events until it is over.
import Foundation

/// How an attempt ended.
struct AttemptEnding: Sendable {
    let attempt: Attempt
    let head: ResponseHead?
    /// The failure, or the unacceptable status; nil for an acceptable response.
    let error: RequestError?
    let metrics: CopyOnWrite<TransferMetrics>?
    let ended: ContinuousClock.Instant
    /// Whether a complete response arrived, acceptable or not; false if the transfer or the verification failed.
    let isAnswer: Bool
    let taskHasEnded: Bool
    /// Whether the attempt failed to resume a download, so that the complete file may be requested.
    let canStartOver: Bool
    /// The number of a download's bytes after the attempt, if it received some that a later attempt can resume; else 0.
    let resumableBytes: Int64
    /// Whether the attempt found no network, and the manager lets requests wait for a network.
    let lacksNetwork: Bool

    var request: PreparedRequest { attempt.request }

    /// Whether the head is valid: the response is complete, or only part of its body is missing.
    var hasHead: Bool {
        isAnswer || head != nil && error?.code.facts.contains(.headCounts) == true
    }
}

/// Receives one attempt's response and passes it to the operation; drops events once the attempt is over.
final class Attempt: TransportClient {
    struct Receiving {
        /// Whether the operation has closed the attempt, so that later events are ignored.
        var isOver = false
        /// Whether the transport has reported the end, or no more data is needed from the transport.
        var hasEnded = false
        var taskHasEnded = false
        var head: ResponseHead?
        var refusal: RequestError?
        /// Whether only the beginning of the body is kept: the response is refused, or another attempt may follow.
        var isPreview = false
        /// The number of body bytes received, including the part that a download resumes; `bodyLimit` is their maximum.
        var bodyCount: Int64 = 0
        var bodyLimit = Int64.max
        var answer: DownloadAnswer?
        var sink: (any BodySink)?
        var metrics: CopyOnWrite<TransferMetrics>?
        /// Whether the transport's thread is using the sink, so that the cleanup is left to it.
        var isBusy = false
        var afterwards: (@Sendable () -> Void)?

        var accepts: Bool { !isOver && !hasEnded }
    }

    /// The number of bytes kept of a preview; if the request decodes error bodies, its memory limit applies instead.
    static let previewBytes: Int64 = 64 << 10

    let number: Int
    let request: PreparedRequest
    /// The rules by which the request judges responses.
    ///
    /// The attempt does not retain the plan with the caller's closures. A transport may retain the attempt after the
    /// operation has released those closures.
    let rules: AnswerRules
    let started: CompactInstant
    /// A strong reference: the running transfer keeps its operation alive, so the caller need not retain it.
    let operation: AnyRequestOperation
    let download: (any DownloadTarget)?
    /// The position at which the attempt resumes the download; nil if it starts from the beginning.
    let resumePoint: ResumePoint?
    /// Whether a cache responds instead of a host.
    let isAnswered: Bool
    let receiving = Locked(Receiving())
    let ownRateLimit: RateLimit?
    /// Ends the attempt if it stays below the request's minimum speed; nil if any speed is acceptable.
    let stallDetector: StallDetector?

    init(
        number: Int, operation: AnyRequestOperation, plan: RequestPlan, request: PreparedRequest,
        started: CompactInstant, download: (any DownloadTarget)? = nil,
        continuing resumePoint: ResumePoint? = nil, isAnswered: Bool = false
    ) {
        (self.number, self.operation, self.request, self.started) = (number, operation, request, started)
        (self.download, self.resumePoint, self.isAnswered) = (download, resumePoint, isAnswered)
        (ownRateLimit, stallDetector) = plan.request.policyBox.map(operation.makeRateControl) ?? (nil, nil)
        rules = plan.request.answerRules
    }

    /// Ends the attempt: later data is dropped, and the sink discards its data.
    ///
    /// - Parameter afterwards: called when the sink has discarded its data, or at once without a sink. If the
    ///   transport's thread is writing, the sink discards its data after that write. So nothing is written to the file
    ///   after a cancelled download has reported its outcome.
    func close(_ afterwards: (@Sendable () -> Void)? = nil) {
        let (sink, isBusy) = receiving.withLock { receiving -> ((any BodySink)?, Bool) in
            receiving.isOver = true
            if receiving.isBusy {
                let earlier = receiving.afterwards
                receiving.afterwards = {
                    earlier?()
                    afterwards?()
                }
                return (nil, true)
            }
            // The sink stays stored, so that the `afterwards` of a second `close` is called after the first discard.
            return (receiving.sink, false)
        }
        if isRateControlled { stopPacing() }
        if let sink {
            sink.discard { afterwards?() }
        } else if !isBusy {
            afterwards?()
        }
    }

    /// Whether another attempt can follow.
    ///
    /// It cannot if the request body cannot be sent again, or if the reader has received part of the response body.
    var canBeRepeated: Bool {
        if case .chunks(let buffer) = rules.destination, buffer.hasDelivered { return false }
        return operation.state.withLock { $0.nextRequest }?.body?.canRepeat != false
    }

    var defaults: RequestDefaults { operation.context.defaults }

    /// Whether back-pressure or a rate limit pauses the attempt.
    var isPaused: Bool { receiving.withLock { $0.sink }?.isPaused ?? false || isThrottled }

    /// Ends the transfer because the sink or the check of the head failed.
    func fail(_ error: RequestError) {
        // Another attempt may follow once a file descriptor is free.
        if error.lacksDescriptors {
            if end(error, taskHasEnded: false) { return }
            // The transport has reported the end. If the sink is already finishing, the sink reports the error to
            // `complete`, and this decision has no effect.
            let received = receiving.withLock { $0.isOver ? nil : $0 }
            if let received { decide(received, error.with(response: received.head), isAnswer: false) }
            return
        }
        let head = receiving.withLock { $0.head }
        close { self.conclude(with: error.with(response: head)) }
    }

    /// Finishes with an error, never on the transport's thread, because finishing notifies observers and cancels a
    /// task.
    func conclude(with error: RequestError, taskHasEnded: Bool = false) {
        operation.onExecutor { self.operation.conclude(error, attempt: self.number, taskHasEnded: taskHasEnded) }
    }
}
