// `convoy queue status`, `list`, `why`, `export`, `retry`, `cancel` and `delete`: reading and changing jobs.
import Convoy
import ConvoyHTTPFile
import ConvoyQueue
import Foundation

/// Reads jobs or changes their states.
///
/// It sends no request.
struct QueueLooking: QueueWork {
    /// The maximum number of jobs that are read at once.
    private static let page = 500

    let options: QueueOptions
    let console: Console
    let interruption: Interruption

    func work(on store: any Store) async throws(QueueError) -> ExitStatus {
        switch options.verb {
        case .status: tell(try await store.status())
        case .list:
            return try await forEach(on: store) { record throws(QueueError) in
                options.fetch.isJSON ? JobLine.json(record, isWhole: false).json : JobLine.text(record)
            }
        case .export:
            // Reads each job again, because a list of jobs contains no bodies.
            return try await forEach(on: store) { record throws(QueueError) in
                try await store.job(record.job.id).map { JobLine.json($0, isWhole: true).json }
            }
        case .why:
            // The queue is never started, because `why` sends no job.
            let queue = DurableQueue(store: store, manager: RequestManager())
            return try await forEach(on: store) { record throws(QueueError) in
                let (id, text) = (record.job.id, try await queue.why(record.job.id))
                let json: JSONValue = ["id": .string(id), "why": .string(text)]
                return options.fetch.isJSON ? json.json : "\(id)  \(text)".joinedLines
            }
        case .retry: return tell(try await store.retry(options.selection), "sent again", "dead letter")
        case .cancel: return tell(try await store.cancel(options.selection), "cancelled", "job that can be cancelled")
        case .delete: return tell(try await store.delete(options.selection), "deleted", "finished job")
        case .add, .run: break
        }
        return .success
    }

    private func forEach(
        on store: any Store, _ line: (JobRecord) async throws(QueueError) -> String?
    ) async throws(QueueError) -> ExitStatus {
        var (position, rest, missing) = (Int64(0), options.limit, options.selection.ids ?? [])
        while rest > 0, interruption.reason == nil {
            let records = try await store.jobs(options.selection, after: position, limit: min(rest, Self.page))
            guard let last = records.last else {
                let what = options.selection == JobSelection(ids: options.selection.ids) ? "job" : "selected job"
                for id in missing.sorted() { console.printError("convoy: no \(what) has the id \(id.shownID)") }
                return missing.isEmpty ? .success : .failure
            }
            for record in records where interruption.reason == nil {
                missing.remove(record.job.id)
                if let line = try await line(record) { console.printLine(line) }
            }
            (position, rest) = (last.position, rest - records.count)
        }
        return .success
    }

    private func tell(_ count: Int, _ what: String, _ wanted: String) -> ExitStatus {
        if options.fetch.isJSON {
            console.printLine("{\"count\":\(count)}")
        } else {
            console.printLine("\(Figures.count(count, "job")) \(what)")
        }
        guard count == 0, options.selection.ids != nil else { return .success }
        console.printError("convoy: no \(wanted) has such an id; convoy queue list shows all jobs")
        return .failure
    }

    private func tell(_ status: QueueStatus) {
        guard !options.fetch.isJSON else { return console.printLine(JobLine.json(status).json) }
        let kinds = status.counts.keys.sorted()
        let states = JobState.allCases.filter { status[$0] > 0 }
        guard !states.isEmpty else { return console.printLine("no jobs") }
        var rows = [["kind"] + states.map(\.rawValue)]
        for kind in kinds { rows.append([kind] + states.map { "\(status.counts[kind]?[$0] ?? 0)" }) }
        if kinds.count > 1 { rows.append(["all"] + states.map { "\(status[$0])" }) }
        let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        for row in rows {
            let cells = zip(row, widths).enumerated().map { column, cell in
                let gap = String(repeating: " ", count: cell.1 - cell.0.count)
                return column == 0 ? cell.0 + gap : gap + cell.0
            }
            console.printLine(cells.joined(separator: "  "))
        }
    }
}
