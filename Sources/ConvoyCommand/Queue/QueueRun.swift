import Convoy
import ConvoyHTTPFile
import ConvoyQueue
import Foundation

struct QueueRun: QueueWork {
    private static let finishing = Duration.seconds(8)

    private let options: QueueOptions
    private let console: Console
    private let interruption: Interruption
    private let setup: FetchSetup

    init(_ options: QueueOptions, console: Console, interruption: Interruption) throws(UsageError) {
        (self.options, self.console, self.interruption) = (options, console, interruption)
        interruption.allow(seconds: 10)
        setup = try FetchSetup(options.fetch, title: "convoy queue run", console: console) {
            interruption.interrupt(.outputClosed)
        }
    }

    func work(on store: any Store) async throws(QueueError) -> ExitStatus {
        let report = QueueReport(options.fetch, console: console)
        var configuration = DurableQueue.Configuration()
        // With `--watch` and without `--retries`, the number of retries is the library's default.
        if options.hasRetries || !options.watches { configuration.retries.maxRetries = options.fetch.retries }
        // Other processes may share the queue, so this process claims only some jobs for each concurrent request.
        configuration.maxClaimedJobCount = max(16, min(256, options.fetch.jobs * 4))
        configuration.ignoresBodies = true
        // The queue renews no leases while `onOutcome` runs, so another queue writes to the output, which may be slow.
        let lines = DispatchQueue(label: "convoy.queue-report")
        configuration.onOutcome = { job, verdict, attempt in lines.async { report.tell(job, verdict, attempt) } }
        let (stops, stop) = AsyncStream.makeStream(of: Void.self)
        // No retry repairs a damaged database. Nor does an SQLite file that was removed, moved or replaced come back
        // by itself. A PostgreSQL server may come back, or allow writing again, so the queue tries again.
        let isFile = store is SQLiteStore
        let loss = Locked(QueueError?.none)
        let failed: @Sendable (QueueError) -> Void = { error in
            let isLoss =
                switch error.code {
                case .damaged, .foreignFile, .newerSchema: true
                case .unavailable, .notPermitted: isFile
                default: false
                }
            guard isLoss else { return report.tell(error) }
            loss.withLock { $0 = $0 ?? error }
            stop.finish()
        }
        configuration.onError = failed
        let queue = DurableQueue(store: store, manager: makeManager(), configuration: configuration)
        interruption.onStop { stop.finish() }
        let before = try await store.status()
        queue.start(otherwise: { _, result in result.failure.map(JobDecision.fail) ?? .done })
        let drawing = console.isLive ? Task { await draw(report, store) } : nil
        let looking = isFile ? Task { await look(for: store, failed) } : nil
        let draining = Task {
            if !options.watches {
                await queue.drain()
                stop.finish()
            }
        }
        for await _ in stops {}
        drawing?.cancel()
        looking?.cancel()
        await drawing?.value
        await looking?.value
        // Stopping the queue releases the claimed jobs. After a SIGTERM, running requests get time to finish first.
        if interruption.reason == .terminated { await queue.stop(finishingWithin: Self.finishing) }
        await queue.stop()
        await draining.value
        lines.sync {}
        console.endLive()
        if let error = loss.withLock({ $0 }) {
            _ = setup.finish(.failure)
            throw error
        }
        let left = try await store.status()
        report.end(left)
        // The comparison also finds dead letters that were not reported here, such as expired jobs.
        return setup.finish(report.hasFailed || left[.dead] > before[.dead] ? .failure : .success)
    }

    private func draw(_ report: QueueReport, _ store: any Store) async {
        while !Task.isCancelled {
            if let status = try? await store.status() { console.draw([report.line(status)]) }
            try? await Task.sleep(for: .milliseconds(250))
        }
    }

    /// Checks every second whether the database exists, even while nothing is written to it.
    private func look(for store: any Store, _ failed: @Sendable (QueueError) -> Void) async {
        while !Task.isCancelled {
            do throws(QueueError) { _ = try await store.status() } catch { failed(error) }
            try? await Task.sleep(for: .seconds(1))
        }
    }

    private func makeManager() -> RequestManager {
        let fetch = options.fetch
        var configuration = setup.configuration([])
        // The queue repeats jobs itself, so `--retries` does not apply to this manager.
        let general = RequestManager.Configuration()
        (configuration.retries, configuration.retryBudget) = (general.retries, general.retryBudget)
        (configuration.attemptTimeout, configuration.maxBodyBytes) = (fetch.maxTime, fetch.maxBytes)
        if let time = fetch.maxTime { configuration.idleTimeout = time.allowedSilence }
        // The queue does not store these fields, so they are added to each request.
        if !fetch.headerFields.isEmpty || fetch.credentials.cookies != nil {
            configuration.interceptors.append(
                FieldsOfRun(fields: fetch.headerFields, cookies: setup.cookies == nil ? fetch.credentials.cookies : nil)
            )
        }
        return RequestManager(configuration: configuration)
    }
}

final class QueueReport: Sendable {
    private struct Counts {
        var done = 0
        var failed = 0
        var retried = 0
        var problem: String?
    }

    private let options: FetchOptions
    private let console: Console
    private let start = ContinuousClock.now
    private let counts = Locked(Counts())

    init(_ options: FetchOptions, console: Console) { (self.options, self.console) = (options, console) }

    var hasFailed: Bool { counts.withLock { $0.failed > 0 } }

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

    func line(_ status: QueueStatus) -> String {
        let (done, failed) = counts.withLock { ($0.done, $0.failed) }
        let seconds = (ContinuousClock.now - start).inSeconds
        let rate = seconds > 0.5 ? String(format: ", %.1f/s", Double(done + failed) / seconds) : ""
        let rest = "\(status[.waiting]) waiting, \(status[.claimed]) running, \(status[.blocked]) blocked"
        return "\(done) done, \(failed) failed\(rate); \(rest)"
    }

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
