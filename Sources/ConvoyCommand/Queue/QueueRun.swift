// `convoy queue run`: sends stored jobs.
import Convoy
import ConvoyQueue
import Foundation

/// Sends the jobs of a queue until no job waits, or with `--watch` until the command is stopped.
///
/// Prints the result of each job.
struct QueueRun: QueueWork {
    /// The time after a SIGTERM in which running requests may finish, so that the command ends within ten seconds.
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
        // Other processes may share the queue. So this process claims at most four jobs for each concurrent request,
        // and 16 to 256 jobs in total.
        configuration.maxClaimedJobCount = max(16, min(256, options.fetch.jobs * 4))
        configuration.ignoresBodies = true
        // The queue renews no leases while `onOutcome` runs. So the output, whose reader may be slow, is written on
        // another queue.
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
            // `finish` still writes the files of options such as `--har`.
            _ = setup.finish(.failure)
            throw error
        }
        let left = try await store.status()
        report.end(left)
        // The comparison also finds new dead letters that were not reported here, for example expired jobs that another
        // process found.
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
