import Convoy
import Foundation

extension DurableQueue {
    /// The settings of a queue.
    ///
    /// ## Topics
    /// - ``retries``
    /// - ``maxClaimedJobCount``
    /// - ``lease``
    public struct Configuration: Sendable {
        /// The maximum number of claimed jobs, including those whose outcome is being written; 256 by default.
        ///
        /// The manager limits how many jobs are sent at once. The queue claims more, so that the manager does not wait
        /// for the disk.
        public var maxClaimedJobCount = 256
        /// The duration of a lease without renewal; 30 seconds by default.
        ///
        /// The queue renews a lease three times in that period. A process that pauses for longer loses its jobs. If a
        /// process ends, other processes notice at once (SQLite on Linux) or at their next exchange (SQLite on Apple
        /// platforms). With PostgreSQL they notice when the lease ends.
        public var lease = Duration.seconds(30)
        /// When a job is sent again.
        ///
        /// The default is 1,000 retries with waits of up to one second, two, four and so on up to 15 minutes.
        ///
        /// These retries cover more than four days. The store saves the waits. Attempts are counted since the job was
        /// added, or last retried as a dead letter. Failures that a retry cannot fix are passed to the handler. Unlike
        /// in a manager, a host name without an address is retried, because a missing network looks the same.
        public var retries = RetryPolicy(maxRetries: 1_000, baseDelay: .seconds(1), maxDelay: .seconds(900))
        /// The maximum number of consecutive lapsed claims of a job; 3 by default.
        ///
        /// At this number the job becomes a dead letter. A claim lapses when its process ends, or when another process
        /// finds that the lease has ended. The limit protects against a job or handler that crashes its process at each
        /// start.
        /// From the second lapse on, the job waits 1, 2, 4 and so on up to 64 seconds.
        public var maxLapses = 3
        /// The maximum number of results that wait for a handler; 1,000 by default.
        ///
        /// When this number is reached, jobs of kinds without a handler are not sent.
        public var maxWaitingResultCount = 1_000
        /// The maximum size of a body in a waiting result; 1 MiB by default.
        public var maxWaitingResultBytes = 1 << 20
        /// Whether the bodies of successful responses are discarded; false by default.
        ///
        /// If true, handlers of successful jobs receive an empty body. Handlers of failed jobs receive up to 64 KiB of
        /// the body in both cases.
        ///
        /// If false, a response body stays in memory until its handler has finished. Limit its size with `maxBodyBytes`
        /// of the manager's configuration. The body of a download is written to its file.
        public var ignoresBodies = false
        /// How long done and cancelled jobs stay in the store; a day by default.
        ///
        /// During that time the store recognises a repeated id.
        public var keepsFinished = Duration.seconds(86_400)
        /// Called for each outcome of a claimed job, with its verdict: done, answered, retried or dead letter.
        ///
        /// Use this function for logs and statistics.
        ///
        /// The queue calls the function when the verdict is on the disk, one call at a time. The function must return
        /// soon, because the queue claims no jobs and renews no leases during the call. After a crash or a failed
        /// commit the call may be missing. There is no call for cancelled or released jobs, and for expired jobs
        /// without a handler.
        public var onOutcome: (@Sendable (_ job: Job, _ verdict: JobVerdict, _ attempt: JobAttempt?) -> Void)?
        /// Called for failures of the store while the queue works.
        ///
        /// No job is lost, and the queue tries again.
        public var onError: (@Sendable (QueueError) -> Void)?

        /// Makes a configuration with the defaults.
        public init() {}
    }
}
