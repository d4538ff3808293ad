import Convoy
import Foundation

extension DurableQueue {
    /// How a queue works: a value.
    ///
    /// ## Topics
    /// - ``retries``
    /// - ``maxClaimedJobCount``
    /// - ``lease``
    public struct Configuration: Sendable {
        /// How many jobs are claimed at once, those included whose outcome is being written; 256 by default.
        ///
        /// How many are sent at once is the manager's affair. More are claimed, so that it does not wait for the disk.
        public var maxClaimedJobCount = 256
        /// How long a lease lasts that is not renewed; 30 seconds by default.
        ///
        /// It is renewed three times in that time. A process that stands still for longer loses its jobs by it. One that has
        /// ended is noticed at once by others on its machine (SQLite), else when its lease ends.
        public var lease = Duration.seconds(30)
        /// When a job is sent again, with its waits kept in the store; 1,000 retries after up to a second, two, four and so on up
        /// to 15 minutes, by default: more than four days.
        ///
        /// Counted are attempts since the job was added or retried. What a retry cannot help goes to the handler. That the name
        /// of a host has no address is worth as many as any other failure: that is how a missing network looks.
        public var retries = RetryPolicy(maxRetries: 1_000, baseDelay: .seconds(1), maxDelay: .seconds(900))
        /// How many claims of a job may lapse in a row; 3 by default.
        ///
        /// Then it is a dead letter that says so, and is not sent. A claim lapses when its process ends, or stands still until
        /// another has the job: a job or a handler that crashes its process would do so at each start. It waits 1, 2, 4
        /// seconds and so on from the second time.
        public var maxLapses = 3
        /// How many results may wait for a handler; 1,000 by default.
        ///
        /// When there are as many, jobs of kinds without a handler are not sent.
        public var maxWaitingResultCount = 1_000
        /// How many bytes of a body are kept in a result that waits; 1 MiB by default.
        public var maxWaitingResultBytes = 1 << 20
        /// Whether the bodies of answers are received and dropped, so that handlers get an empty one; false by default.
        ///
        /// Else a body is in memory until its handler has taken it: bound it by `maxBodyBytes` of the manager's configuration.
        /// Downloads have a destination.
        public var ignoresBodies = false
        /// How long done and cancelled jobs are kept; a day by default.
        ///
        /// For that long adding an id again is known as a repetition.
        public var keepsFinished = Duration.seconds(86_400)
        /// Told of each job that was sent, and what becomes of it: done, sent again, a dead letter; for logs and counts.
        ///
        /// Called before that is on the disk, on the thread that found out; after a crash it may be told once more. Not told
        /// are jobs that are cancelled, and those that expire without a handler for their kind.
        public var onOutcome: (@Sendable (_ job: Job, _ verdict: JobVerdict, _ attempt: JobAttempt?) -> Void)?
        /// Told of failures of the store while the queue works; nothing is lost by them, and the queue tries again.
        public var onError: (@Sendable (QueueError) -> Void)?

        /// Makes a configuration with the defaults.
        public init() {}
    }
}
