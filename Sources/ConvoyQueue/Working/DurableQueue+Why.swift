// A readable description of a job's state.
import Convoy
import Foundation

extension DurableQueue {
    /// A text that says why a job has not finished, or how the job ended.
    public func why(_ id: String) async throws(QueueError) -> String {
        guard let record = try await store.job(id) else { return "no job has the id \(id.shownID)" }
        let lapses = record.life.lapseCount
        let lapsed = lapses > 0 ? "; " + JobLife.lapses(lapses) : ""
        let last =
            record.attempts.last.map { attempt in
                "; attempt \(record.attemptCount) ended with \(attempt.message ?? attempt.statusCode.map { "\($0)" } ?? "no result")"
            } ?? lapsed
        switch record.state {
        case .waiting:
            guard let delay = record.delay else {
                let host = record.job.request.host
                let (count, isSilent) = state.withLock { ($0.hostCounts[host] ?? 0, $0.silentHosts[host] != nil) }
                guard !isSilent else {
                    return
                        "it waits for the host \(host), which does not answer now; this queue runs \(count) of its jobs"
                        + last
                }
                guard count >= min(maxPerHost, leastPerHost), !host.isEmpty else {
                    return "it is ready, and waits for its turn" + last
                }
                return "it waits for the host \(host), for which this queue runs \(count) jobs" + last
            }
            let moment = record.attemptCount == 0 && lapses == 0 ? "its date" : "its next attempt"
            return "it waits for \(moment), in \(Int64(clamping: delay) / 1_000) s" + last
        case .blocked:
            let names = try await store.blockers(of: id).map {
                "\($0.id) (\($0.reason.rawValue), \($0.state.rawValue))"
            }
            return "it waits for " + names.joined(separator: ", ")
        case .claimed:
            let operation = state.withLock { $0.inFlight[id]?.sending?.operation }
            if let operation { return "it is being sent: " + manager.why(operation) }
            guard record.life.lease?.owner == store.owner else { return "another queue has claimed it" + last }
            return "its response has arrived, and its handler is running"
        case .answered: return "its result waits for a handler of the kind \(record.job.kind)"
        case .done: return "it is done"
        case .dead: return "it is a dead letter: \(record.failure ?? "it failed")" + last
        case .cancelled: return "it was cancelled"
        }
    }
}
