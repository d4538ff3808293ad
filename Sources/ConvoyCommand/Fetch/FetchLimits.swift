// The limits of a run.
import Convoy
import Foundation

extension Request {
    /// Applies `--cache-policy`, `--deadline`, `--max-time`, `--max-size`, `--max-redirs` and `--min-speed` to the
    /// request.
    func limited(by options: FetchOptions) -> Self {
        var request = self
        if let deadline = options.deadline { request = request.deadline(deadline) }
        if let policy = options.cachePolicy { request = request.cachePolicy(policy) }
        if let time = options.maxTime { request = request.limited(toAttemptsOf: time) }
        if let count = options.maxRedirects { request = request.redirects(RedirectPolicy(maxCount: count)) }
        if let bytes = options.maxBytes { request = request.maxBodyBytes(bytes) }
        guard let speed = options.minimumSpeed else { return request }
        return request.minimumSpeed(bytesPerSecond: speed, over: options.minimumSpeedWindow)
    }

    /// Limits the time of each attempt, and allows the server to be silent for as long.
    func limited(toAttemptsOf time: Duration) -> Self { attemptTimeout(time).idleTimeout(time.allowedSilence) }
}

extension Duration {
    /// How long a server may be silent during an attempt of this duration: for as long, and at least 60 seconds.
    var allowedSilence: Duration { max(self, .seconds(60)) }
}

extension FetchOptions {
    /// The maximum number of threads that a run uses.
    var mostThreads: Int { ProcessLimits.threads(forJobs: min(jobs * segments, mostRequests)) }

    /// Reduces the number of requests in flight to what the available threads allow.
    ///
    /// Returns false if there are too few threads for one request.
    mutating func takeLess(threads: Int) -> Bool {
        guard threads < mostThreads else { return true }
        let fitting = ProcessLimits.jobs(forThreads: threads)
        guard fitting > 0 else { return false }
        mostRequests = min(mostRequests, fitting)
        jobs = min(jobs, mostRequests)
        return true
    }

    /// The options with at most as many requests in flight as the limits of the process allow.
    func within(_ limits: ProcessLimits) throws(UsageError) -> FetchOptions {
        var options = self
        options.mostRequests = try limits.jobs(atMost: Self.jobsRange.upperBound)
        options.jobs = min(jobs, options.mostRequests)
        return options
    }
}
