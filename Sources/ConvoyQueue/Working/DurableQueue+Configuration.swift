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
        /// How long claims of the queue are valid without renewal; 30 seconds by default.
        ///
        /// The queue renews its leases three times in that period. A process that pauses for longer loses its jobs if
        /// another process works on the queue meanwhile. If a process ends, other processes notice at once (SQLite on Linux) or at their next exchange (SQLite on Apple
        /// platforms). With PostgreSQL they notice when the lease ends.
        public var lease = Duration.seconds(30)
        /// When a job is sent again after a failure that may be temporary.
        ///
        /// The default is 1,000 retries, which cover more than four days. Without a `Retry-After` of the server, the
        /// wait before a retry is at most one second, then two, four and so on up to 15 minutes. The store saves the
        /// wait.
        ///
        /// Attempts are counted since the job was added, or last retried as a dead letter. A handler receives failures
        /// that a retry cannot fix. A host name without an address is retried like other failures, because a missing
        /// network looks the same. A manager would retry it only once.
        public var retries = RetryPolicy(maxRetries: 1_000, baseDelay: .seconds(1), maxDelay: .seconds(900))
        /// The maximum number of consecutive lapsed claims of a job; 3 by default.
        ///
        /// At this number the job becomes a dead letter. A claim lapses when its process ends, or when another process
        /// finds that the lease has ended. The limit protects against a job or handler that crashes its process at each
        /// start. From the second lapse on, the job waits 1, 2, 4 and so on up to 64 seconds before it is sent again.
        ///
        /// A lapse does not count if the partial file of the job's download has grown, so that a long download may outlive
        /// any number of processes.
        public var maxLapses = 3
        /// The maximum number of results that wait for a handler; 1,000 by default.
        ///
        /// When this number is reached, jobs of kinds without a handler are not sent.
        public var maxWaitingResultCount = 1_000
        /// The maximum size in bytes of a body in a waiting result; 1 MiB by default.
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
        /// No job is lost. While the queue runs, it tries again after a few seconds.
        public var onError: (@Sendable (QueueError) -> Void)?

        /// Makes a configuration with the defaults.
        public init() {}
    }
}
