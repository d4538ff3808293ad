// What an operation goes through beyond one plain attempt.
import Foundation

/// Redirects, retries, the deadline, interceptors at work: what most operations never have.
///
/// Part of the operation's state, and touched only under its lock; not `Sendable`, so that it cannot leave it.
final class FollowUpState {
    /// The attempts that have ended.
    var records: [AttemptRecord] = []
    /// What the next attempt sends, before interceptors; nil for the request as it was given.
    var request: PreparedRequest?
    /// What interceptors have made of it for the attempt to come.
    var adapted: PreparedRequest?
    /// How often that was outdated when it was to be sent.
    var outdatedCount = 0
    /// An answer that a shared transfer has brought.
    var carried: SharedAnswer? { didSet { if carried != nil { isCarried = true } } }
    /// Whether a shared transfer has brought the answer; known for good.
    private(set) var isCarried = false
    /// Whether a redirect has led to another origin, now or earlier.
    var hasLeftOrigin = false
    /// How many retries the policy and the interceptors have had.
    var retryCount = 0
    var interceptionCount = 0

    /// When everything has to be over.
    var deadline: ContinuousClock.Instant?
    var deadlineAlarm: Alarm?
    /// What the operation waits for between two attempts, for people.
    var wait: Wait?
    var waitAlarm: Alarm?
    /// The interceptors at work.
    var interceptorTask: Task<Void, Never>?

    /// Where the streams of all attempts are made and used: one attempt's has been closed before the next is made, which
    /// may truncate the same file.
    private(set) lazy var streamQueue = DispatchQueue(label: "convoy.stream")

    /// The request's own limit of bytes a second, from its first attempt on.
    var rateLimit: RateLimit?

    /// The part of a download, from its first attempt on.
    var download: (any DownloadTarget)?
    /// Whether the next attempt asks for the whole, whatever is there; once.
    var startsOver = false
    private(set) var hasStartedOver = false

    /// Decides, once, that what is there is not continued.
    func startOver() -> Bool {
        guard !hasStartedOver else { return false }
        (hasStartedOver, startsOver) = (true, true)
        return true
    }

    /// For the response: those of the operation that brought the answer.
    var earlierAttempts: [AttemptRecord] { carried?.response.attempts ?? records }

    enum Wait {
        case time(ContinuousClock.Instant, asked: RetryAfterReason?)
        case interceptor
        /// The process has none left.
        case descriptor
        case slot
    }

    /// Everything that would still call the operation; to be stopped outside the lock.
    func takeCallers() -> Callers {
        defer { (deadlineAlarm, waitAlarm, interceptorTask) = (nil, nil, nil) }
        return Callers(alarms: [deadlineAlarm, waitAlarm].compactMap { $0 }, task: interceptorTask)
    }

    /// What an operation that has finished needs no more; to be let go of outside the lock.
    func takeRequests() -> Requests {
        defer { (request, adapted, carried) = (nil, nil, nil) }
        return Requests(request: request, adapted: adapted, carried: carried)
    }

    struct Requests: Sendable {
        let request: PreparedRequest?
        let adapted: PreparedRequest?
        let carried: SharedAnswer?
    }

    struct Callers {
        let alarms: [Alarm]
        let task: Task<Void, Never>?

        func stop() {
            for alarm in alarms { alarm.cancel() }
            task?.cancel()
        }
    }
}

extension OperationState {
    /// The follow-up state, made when there is something to note.
    mutating func makeFollowUp() -> FollowUpState {
        if let followUp { return followUp }
        let made = FollowUpState()
        followUp = made
        return made
    }

    /// What the attempt sends, before interceptors.
    var nextRequest: PreparedRequest? { followUp?.request ?? prepared }
}

extension OperationState {
    /// What became of each attempt, the one under way included; empty after a success, whose response tells.
    func attemptRecords(
        _ error: RequestError?, _ now: ContinuousClock.Instant, _ metrics: TransferMetrics?
    ) -> [AttemptRecord] {
        guard let error else { return [] }
        let records = followUp?.records ?? []
        guard let attempt = transfer?.attempt else { return records }
        return records + [
            AttemptRecord(
                number: attempt.number, request: attempt.request, started: attempt.started, ended: now,
                response: error.response, failure: error.code == .unacceptableStatus ? nil : error.code,
                transfer: progress, metrics: metrics)
        ]
    }
}
