import Convoy
import ConvoyHTTPFile
import ConvoyQueue
import Foundation

struct QueueAdding: QueueWork {
    private static let portion = 1_000

    private let options: QueueOptions
    private let console: Console
    private let interruption: Interruption
    private let items: FetchItems
    private let list: LineReader?
    private let hasFailed = Locked(false)

    init(_ options: QueueOptions, console: Console, interruption: Interruption) throws(UsageError) {
        (self.options, self.console, self.interruption) = (options, console, interruption)
        if options.fetch.hasDirectory { try FetchCommand.check(directory: options.fetch.directory) }
        let list = try options.fetch.input.map { input throws(UsageError) in try LineReader.open(input) }
        let hasFailed = hasFailed
        let items = FetchItems(
            options.fetch, list: list, naming: options.fetch.hasDirectory ? .byURL : .none,
            onEmpty: { console.printError("convoy: the list \($0) contains no URL") },
            onDefect: { defect in
                hasFailed.withLock { $0 = true }
                let place = defect.line.map { ":\($0)" } ?? ""
                console.printError("convoy: \(defect.list)\(place): \(defect.reason)", isFailure: true)
            })
        (self.list, self.items) = (list, items)
        interruption.onStop { items.stop() }
    }

    func work(on store: any Store) async throws(QueueError) -> ExitStatus {
        // The queue is never started, because `add` sends no job.
        let queue = DurableQueue(store: store, manager: RequestManager())
        try await checkList()
        var jobs: [Job] = []
        while let item = await items.next() {
            try Self.check(.entry(item.listEntry), at: "\(list?.name ?? ""): \(item.url.redactedString)")
            do throws(QueueError) { jobs.append(try job(for: item)) } catch { tell(error) }
            // If the next line has not arrived, for example from a slow program, the jobs so far are added at once.
            if jobs.count >= Self.portion || list?.hasLine == false { try await add(&jobs, to: queue) }
        }
        try await add(&jobs, to: queue)
        return hasFailed.withLock { $0 } ? .failure : .success
    }

    // Only a file can be read twice. The lines of a pipe are checked when they arrive.
    private func checkList() async throws(QueueError) {
        guard let input = options.fetch.input, input != "-", list?.hasLine == true,
            let lines = try? LineReader.open(input)
        else { return }
        var parser = ListParser(base: options.fetch.base)
        var first = 1
        while interruption.reason == nil, case .line(let line)? = await lines.next() {
            first = parser.firstUnfinishedLine(before: line.number)
            for (index, outcome) in parser.parse(line).enumerated() {
                try Self.check(outcome, at: "\(lines.name):\(index == 0 ? first : line.number)")
            }
            first = parser.firstUnfinishedLine(before: line.number + 1)
        }
        let place = parser.format == .metalink ? lines.name : "\(lines.name):\(first)"
        for outcome in parser.finish() { try Self.check(outcome, at: place) }
    }

    private static func check(
        _ outcome: ListParser.Outcome, at place: @autoclosure () -> String
    ) throws(QueueError) {
        guard case .entry(let entry) = outcome, entry.digest != nil || entry.byteCount != nil || !entry.mirrors.isEmpty
        else { return }
        let (action, advice) =
            entry.digest != nil
            ? ("verify digests", "remove the digests")
            : entry.mirrors.isEmpty ? ("verify sizes", "remove the sizes") : ("use mirrors", "give each file one URL")
        throw QueueError(
            .invalidJob,
            "\(place()): the queue cannot \(action): \(advice), or use convoy fetch -i instead of the queue")
    }

    private func add(_ jobs: inout [Job], to queue: DurableQueue) async throws(QueueError) {
        guard !jobs.isEmpty else { return }
        defer { jobs = [] }
        do throws(QueueError) {
            let additions = try await queue.add(contentsOf: jobs)
            tell(additions)
            try await reportCancelled(additions, of: queue)
        } catch {
            guard error.code == .invalidJob, jobs.count > 1 else { throw error.withAdviceOfTheCommand }
            // One of the jobs is invalid, so each job is added in a separate transaction.
            for job in jobs {
                do throws(QueueError) { tell([try await queue.add(job)]) } catch {
                    guard error.code == .invalidJob else { throw error }
                    tell(error)
                }
            }
        }
    }

    private func reportCancelled(_ additions: [JobAddition], of queue: DurableQueue) async throws(QueueError) {
        guard !options.wishes.dependencies.isEmpty else { return }
        let ids = Set(additions.filter { $0.outcome == .added }.map(\.id))
        let cancelled = JobSelection(ids: ids, states: [.cancelled])
        for record in try await queue.store.jobs(cancelled, after: 0, limit: ids.count) {
            hasFailed.withLock { $0 = true }
            console.printError(
                "convoy: \(record.job.id.shownID) is cancelled, because a job that it depends on was cancelled",
                isFailure: true
            )
        }
    }

    private func tell(_ error: QueueError) {
        hasFailed.withLock { $0 = true }
        console.printError("convoy: \(error.withAdviceOfTheCommand.message)", isFailure: true)
    }

    private func tell(_ additions: [JobAddition]) {
        for addition in additions {
            if options.fetch.isJSON {
                let json: JSONValue = ["id": .string(addition.id), "outcome": .string(addition.outcome.rawValue)]
                console.printLine(json.json)
                continue
            }
            if !options.fetch.isQuiet { console.printLine(addition.id) }
            let id = addition.id.shownID
            switch addition.outcome {
            case .added: break
            case .alreadyThere: console.printError("convoy: \(id) exists already, and was not changed")
            case .kept: console.printError("convoy: no job was added, because \(id) has the same key")
            }
        }
    }

    private func job(for item: FetchItem) throws(QueueError) -> Job {
        let wishes = options.wishes
        let request = Request<Data>(options.fetch.sending, for: item.url, with: item.headerFields)
        var kept = try JobRequest(request)
        // The options mark unknown fields as secret. The queue rejects such fields, so only their names decide here.
        kept.headerFields = HeaderFields(kept.headerFields.map { ($0.name, $0.value) })
        if options.fetch.hasDirectory {
            options.fetch.makeDirectory(of: item)
            kept.destination = options.fetch.file(of: item)
        } else if let output = options.fetch.paths.last {
            kept.destination = URL(filePath: output, directoryHint: .notDirectory).absoluteURL
        }
        kept.followsRedirectsAsGet = wishes.followsRedirectsAsGet
        let isOnly = options.fetch.input == nil && options.fetch.urls.count == 1
        let id = wishes.id.map { isOnly ? $0 : "\($0)-\(item.index + 1)" }
        var job = Job(wishes.kind, kept, id: id ?? UUID().uuidString)
        job.dependencies = wishes.dependencies
        job.priority = wishes.priority
        (job.notBefore, job.expires) = (wishes.notBefore, wishes.expires)
        (job.group, job.tags) = (wishes.group, wishes.tags)
        job.uniqueness = wishes.key.map { Job.Uniqueness(key: $0, policy: wishes.policy) }
        return job
    }
}

extension QueueError {
    fileprivate var withAdviceOfTheCommand: QueueError {
        guard let hint = message.range(of: "secrets are never stored: ") else { return self }
        return QueueError(
            code,
            message[..<hint.upperBound] + "remove it, and give it to convoy queue run (-H, -u or -b), which sends it"
        )
    }
}
