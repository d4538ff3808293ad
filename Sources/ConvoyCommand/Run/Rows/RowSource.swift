import ConvoyHTTPFile
import Foundation

struct RowSource: Sendable {
    let name: String?
    private let list: LineReader?
    private let shard: Shard?
    let journal: RowJournal?
    private var reader: RowReader?
    private var ready: [RowReader.Outcome] = []
    private var rest = 0
    private var number = 0
    private var hasEnded = false

    init(_ options: RunOptions, journal: RowJournal?) async throws(UsageError) {
        (shard, self.journal) = (options.fetch.shard, journal)
        guard let path = options.each else {
            (name, list, rest) = (nil, nil, options.repeats ?? 1)
            return
        }
        name = path == "-" ? "standard input" : path
        list = try LineReader.open(path)
        let ending = path.split(separator: ".").last?.lowercased()
        if ["csv", "tsv"].contains(ending) { reader = RowReader(.csv) }
        if ["jsonl", "ndjson", "json"].contains(ending) { reader = RowReader(.json) }
        while reader?.columns == nil, reader?.defect == nil, ready.isEmpty, !hasEnded { await readLine() }
        if let defect = reader?.defect { throw UsageError("\(path): \(defect)") }
        guard reader?.columns != nil else {
            if case .broken(let line, let reason)? = ready.first {
                throw UsageError("\(path):\(line): invalid row: \(reason)")
            }
            throw UsageError("\(path) has no rows; the first line of a CSV file names its columns")
        }
    }

    var columns: [String] { reader?.columns ?? [] }

    mutating func next() async -> RowReader.Outcome? {
        guard list != nil else {
            guard rest > 0 else { return nil }
            (rest, number) = (rest - 1, number + 1)
            return .row(Row(line: number))
        }
        while journal?.hasFailed != true {
            while !ready.isEmpty {
                let outcome = ready.removeFirst()
                if isOurs(outcome) { return outcome }
            }
            if hasEnded {
                guard let last = reader?.finish() else { return nil }
                ready.append(last)
            } else {
                await readLine()
            }
        }
        return nil
    }

    func stop() { list?.stop() }

    private func isOurs(_ outcome: RowReader.Outcome) -> Bool {
        switch outcome {
        case .row(let row): shard?.takes(row.text) != false && journal?.has(row) != true
        // Only the first shard reports invalid rows, so that each invalid row is reported once.
        case .broken: shard == nil || shard?.number == 1
        }
    }

    private mutating func readLine() async {
        guard let list else { return }
        switch await list.next() {
        case .line(let line)?:
            number = line.number
            switch line.content {
            case .text(let text):
                if reader == nil, let first = text.utf8.first(where: { $0 != 0x20 && $0 != 0x09 }) {
                    reader = RowReader("{[".utf8.contains(first) ? .json : .csv)
                }
                if let outcome = reader?.take(text, at: line.number) { ready.append(outcome) }
            case .broken(let reason):
                reader?.skip()
                ready.append(.broken(line: line.number, reason: reason))
            }
        case .failed(let reason)?:
            ready.append(.broken(line: number + 1, reason: "\(name ?? "") could not be read completely: \(reason)"))
        case nil:
            hasEnded = true
            if let last = reader?.finish() { ready.append(last) }
        }
    }
}
