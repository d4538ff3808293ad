// How fast a run may be, and must be.
import Convoy
import Foundation

extension RequestManager.Configuration {
    /// `--rate`: all transfers together.
    mutating func limit(by options: FetchOptions) { maxBytesPerSecond = options.maxRate }
}

extension Request {
    /// `--deadline`, `--max-time`, `--max-size`, `--max-redirs` and `--min-speed`: each request.
    func limited(by options: FetchOptions) -> Self {
        var request = deadline(options.deadline)
        if let time = options.maxTime { request = request.attemptTimeout(time) }
        if let count = options.maxRedirects { request = request.redirects(RedirectPolicy(maxCount: count)) }
        if let bytes = options.maxBytes { request = request.maxBodyBytes(bytes) }
        guard let speed = options.minimumSpeed else { return request }
        return request.minimumSpeed(bytesPerSecond: speed, over: FetchOptions.minimumSpeedWindow)
    }
}

extension FetchOptions {
    /// How many threads a run may take.
    var mostThreads: Int { ProcessLimits.threads(forJobs: min(jobs * segments, mostRequests)) }

    /// Has as many in flight as there are threads for; false where there are too few for one.
    mutating func takeLess(threads: Int) -> Bool {
        guard threads < mostThreads else { return true }
        let fitting = ProcessLimits.jobs(forThreads: threads)
        guard fitting > 0 else { return false }
        mostRequests = min(mostRequests, fitting)
        jobs = min(jobs, mostRequests)
        return true
    }

    /// The same with no more in flight than the limits of the process allow.
    func within(_ limits: ProcessLimits, for command: String = "fetch") throws(UsageError) -> FetchOptions {
        var options = self
        options.mostRequests = try limits.jobs(atMost: Self.jobsRange.upperBound, for: command)
        options.jobs = min(jobs, options.mostRequests)
        return options
    }
}
