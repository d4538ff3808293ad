// The output of `convoy queue run`.
import Convoy
import ConvoyHTTPFile
import ConvoyQueue
import Foundation

/// Prints the results of jobs, a live line with counts, and the totals.
///
/// With the live line, a successful job gets no line of its own.
///
/// ## Concurrency
/// Safe to use from any thread.
final class QueueReport: Sendable {
    private struct Counts {
        var done = 0
        var failed = 0
        var retried = 0
        /// The message of the last failure of the store.
        ///
        /// A failure with the same message is not printed again.
        var problem: String?
    }

    private let options: FetchOptions
    private let console: Console
    private let start = ContinuousClock.now
    private let counts = Locked(Counts())

    init(_ options: FetchOptions, console: Console) { (self.options, self.console) = (options, console) }

    /// Whether a job became a dead letter.
    var hasFailed: Bool { counts.withLock { $0.failed > 0 } }

    /// Prints the result of a job.
    func tell(_ job: Job, _ verdict: JobVerdict, _ attempt: JobAttempt?) {
        switch verdict {
        case .done:
            counts.withLock { $0.done += 1 }
            tell("done", job, attempt, attempt?.text ?? "")
        case .dead(let reason):
            counts.withLock { $0.failed += 1 }
            tell("failed", job, attempt, reason.replacing("with followsRedirectsAsGet", with: "--redirect-as-get"))
        case .retry(let delay):
            counts.withLock { $0.retried += 1 }
            tell("retry", job, attempt, "in \(Figures.time(delay)): \(attempt?.text ?? "")")
        case .answered, .release: break
        }
    }

    /// Prints a failure of the store, unless the failure before had the same message.
    func tell(_ error: QueueError) {
        let isNew = counts.withLock { counts in
            defer { counts.problem = error.message }
            return counts.problem != error.message
        }
        if isNew { console.printError("convoy: \(error.message); trying again") }
    }

    private func tell(_ event: String, _ job: Job, _ attempt: JobAttempt?, _ message: String) {
        guard !options.isJSON else {
            let json = JSONValue.members([
                "event": .string(event), "id": .string(job.id), "kind": .string(job.kind),
                "request": .string(job.request.description), "status": (attempt?.statusCode).map { JSONValue($0) },
                "ms": (attempt?.milliseconds).map(JSONValue.integer),
                "message": event == "done" ? nil : .string(message),
            ])
            return console.printLine(json.json)
        }
        let text = "\(event)  \(job.id)  \(job.request)  \(message)".joinedLines
        switch event {
        case "failed": console.printError(text, isFailure: true)
        case _ where options.isQuiet: break
        case "done" where !console.isLive: console.printLine(text)
        case "done": break
        default: console.printError(text)
        }
    }

    /// The live line with counts.
    func line(_ status: QueueStatus) -> String {
        let (done, failed) = counts.withLock { ($0.done, $0.failed) }
        let seconds = (ContinuousClock.now - start).inSeconds
        let rate = seconds > 0.5 ? String(format: ", %.1f/s", Double(done + failed) / seconds) : ""
        let rest = "\(status[.waiting]) waiting, \(status[.claimed]) running, \(status[.blocked]) blocked"
        return "\(done) done, \(failed) failed\(rate); \(rest)"
    }

    /// Prints the totals, and the number of remaining jobs in each state.
    func end(_ left: QueueStatus) {
        let counts = counts.withLock { $0 }
        let states: [JobState] = [.waiting, .blocked, .claimed, .answered, .dead]
        guard !options.isJSON else {
            let figures = [("done", counts.done), ("failed", counts.failed), ("retried", counts.retried)]
            let rest = states.map { ("left_" + $0.rawValue, left[$0]) }
            return console.printLine(
                JSONValue.object([("event", "summary")] + (figures + rest).map { ($0, JSONValue($1)) }).json)
        }
        guard !options.isQuiet else { return }
        var parts = ["\(counts.done) done"]
        if counts.failed > 0 { parts.append("\(counts.failed) failed") }
        if counts.retried > 0 { parts.append(counts.retried == 1 ? "1 retry" : "\(counts.retried) retries") }
        let rest = states.filter { left[$0] > 0 }.map { "\(left[$0]) \($0.rawValue)" }.joined(separator: ", ")
        let time = Figures.time(ContinuousClock.now - start)
        console.printError("\(parts.joined(separator: ", ")) in \(time)\(rest.isEmpty ? "" : "; left: \(rest)")")
    }
}
