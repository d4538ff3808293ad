// One attempt: what a transport tells, until the attempt is over.
import Foundation

/// How an attempt ended.
struct AttemptEnding: Sendable {
    let attempt: Attempt
    let head: ResponseHead?
    /// Why it failed, or that its status is not acceptable; nil for an acceptable answer.
    let error: RequestError?
    let metrics: CopyOnWrite<TransferMetrics>?
    let ended: ContinuousClock.Instant
    /// Whether an answer arrived, acceptable or not.
    let isAnswer: Bool
    let taskHasEnded: Bool
    /// Whether it was to continue a download, and does not; the whole may be asked for.
    let canStartOver: Bool
    /// Whether it found no connection because there is no network, and requests wait for one.
    let lacksNetwork: Bool

    /// As it was sent.
    var request: PreparedRequest { attempt.request }

    /// Whether what its head says counts: it came whole, or all that is missing is of its body.
    var hasHead: Bool {
        isAnswer || head != nil && error?.code.facts.contains(.headCounts) == true
    }
}

/// Receives one attempt's answer and hands it to the operation.
///
/// Each attempt has a client of its own, so what arrives for one that is over is dropped here.
final class Attempt: TransportClient {
    struct Receiving {
        /// The attempt was ended from outside: nothing counts any more.
        var isOver = false
        /// The transport has told the end, or nothing more is wanted of it.
        var hasEnded = false
        var taskHasEnded = false
        var head: ResponseHead?
        /// Why the answer is not acceptable; nil for one that is.
        var refusal: RequestError?
        /// Whether only the body's beginning is kept, in memory: the answer is not acceptable, or another attempt may take
        /// its place.
        var isPreview = false
        /// How much of the body is there, of a file what it continues included; and how much may be.
        var bodyCount: Int64 = 0
        var bodyLimit = Int64.max
        /// What the answer is for a download; nil for another destination.
        var answer: DownloadAnswer?
        var sink: (any BodySink)?
        var metrics: CopyOnWrite<TransferMetrics>?
        /// The transport's thread is using the sink: a thread that ends the attempt leaves the rest to it.
        var isBusy = false
        var afterwards: (@Sendable () -> Void)?

        var accepts: Bool { !isOver && !hasEnded }
    }

    /// How much is kept of a body of which only the beginning is.
    static let previewBytes: Int64 = 64 << 10

    let number: Int
    let request: PreparedRequest
    /// What its request says of answers.
    ///
    /// Not its plan: a transport may hold the attempt longer than the operation holds the caller's closures.
    let rules: AnswerRules
    let started: ContinuousClock.Instant
    /// Held while the transfer runs: the transfer keeps its operation alive, not the caller.
    let operation: AnyRequestOperation
    /// Where a body that goes into a file is written.
    let download: (any DownloadTarget)?
    /// What of it is to be continued.
    let resumePoint: ResumePoint?
    /// Whether a cache answers it, and not a host.
    let isAnswered: Bool
    let receiving = Locked(Receiving())
    /// How fast it may receive, and has to.
    let rateControl: RateControl

    init(
        number: Int, operation: AnyRequestOperation, plan: RequestPlan, request: PreparedRequest,
        started: ContinuousClock.Instant, download: (any DownloadTarget)? = nil,
        continuing resumePoint: ResumePoint? = nil, isAnswered: Bool = false
    ) {
        self.isAnswered = isAnswered
        (self.download, self.resumePoint) = (download, resumePoint)
        rateControl = RateControl(operation, plan.request.policyBox)
        self.number = number
        self.operation = operation
        rules = plan.request.answerRules
        self.request = request
        self.started = started
    }

    /// Ends the attempt: what arrives later is dropped, what was received is discarded.
    ///
    /// - Parameter afterwards: called when that has been done: now, or, when the transport's thread is just writing,
    ///   after that write. A cancelled download has left no file behind when its outcome is told.
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
            // Kept: closing it again comes behind the first discard.
            return (receiving.sink, false)
        }
        if rateControl.isActive { stopPacing() }
        if let sink {
            sink.discard { afterwards?() }
        } else if !isBusy {
            afterwards?()
        }
    }

    /// Whether it can be followed by another: not when its body cannot be sent again, or a part of the answer's has been
    /// read.
    func canBeRepeated(with request: PreparedRequest) -> Bool {
        if case .chunks(let buffer) = rules.destination, buffer.hasDelivered { return false }
        return request.body?.canRepeat != false
    }

    /// What its request leaves to the manager.
    var defaults: RequestDefaults { operation.context.defaults }

    /// Whether so much waits to be written, read or paid for that no more should come.
    var isHeld: Bool { receiving.withLock { $0.sink }?.isHeld ?? false || isThrottled }

    /// The sink or the check of the head failed: ends the transfer.
    func fail(_ error: RequestError) {
        // It may be begun again.
        if error.lacksDescriptors { return end(error, taskHasEnded: false) }
        let head = receiving.withLock { $0.head }
        close { self.conclude(with: error.with(response: head)) }
    }

    /// Never on the transport's thread: ending an operation notifies, and cancels a task.
    func conclude(with error: RequestError, taskHasEnded: Bool = false) {
        operation.onExecutor { self.operation.conclude(error, attempt: self.number, taskHasEnded: taskHasEnded) }
    }
}
