import Convoy
import ConvoySQLite
import Foundation

struct LifeRow {
    static let columns = """
        position, id, state, missing, behind, owner, claims, result, body, grp, key, lapses, \
        EXISTS(SELECT 1 FROM dependency WHERE needs = job.id), (SELECT file FROM body WHERE number = job.body)
        """
    static let count: Int32 = 14

    let position: Int64
    let id: String
    let life: JobLife
    let result: Int64?
    let body: Int64?
    let group: String?
    let key: String?
    let hasDependents: Bool
    let bodyFile: String?

    init(_ row: SQLiteRow) {
        position = row.integer(0) ?? 0
        id = row.text(1) ?? ""
        result = row.integer(7)
        life = Self.life(
            row, state: 2, missing: 3, behind: 4, owner: 5, claims: 6, lapses: 11, hasResult: result != nil)
        body = row.integer(8)
        group = row.text(9)
        key = row.text(10)
        hasDependents = row.integer(12) == 1
        bodyFile = row.text(13)
    }

    static func life(
        _ row: SQLiteRow, state: Int32, missing: Int32, behind: Int32, owner: Int32, claims: Int32, lapses: Int32,
        hasResult: Bool
    ) -> JobLife {
        let state = Self.state(row.integer(state) ?? 0)
        let (bits, token) = (row.integer(behind) ?? 0, row.integer(claims) ?? 0)
        let holds = JobHolds(
            dependencies: Int(row.integer(missing) ?? 0), isBehindGroup: bits & 1 != 0, isBehindKey: bits & 2 != 0)
        return JobLife(
            state: state, holds: state == .blocked ? holds : JobHolds(),
            lease: state == .claimed ? row.text(owner).map { JobLease(owner: $0, token: token) } : nil,
            claimCount: token, hasResult: hasResult, lapseCount: Int(row.integer(lapses) ?? 0))
    }

    static func state(_ number: Int64) -> JobState {
        switch number {
        case 2: .blocked
        case 3: .claimed
        case 4: .answered
        case 5: .done
        case 6: .dead
        case 7: .cancelled
        default: .waiting
        }
    }

    /// In the database, a waiting job has the number 1 instead of 0 while its date or delay is not over.
    static func number(of state: JobState) -> Int64 {
        switch state {
        case .waiting: 0
        case .blocked: 2
        case .claimed: 3
        case .answered: 4
        case .done: 5
        case .dead: 6
        case .cancelled: 7
        }
    }
}

/// `body` and `result` are primary keys of rows in the tables `body` and `result`.
struct JobRow {
    static let columns = """
        position, id, kind, state, priority, due, due_clock, not_before, expires, needs, missing, behind, grp, key, key_policy, \
        tags, method, url, fields, body, body_path, destination, idempotency_key, added, owner, claims, attempt_count, \
        attempts, result, failure, follows_as_get, lapses
        """

    let position: Int64
    let job: Job
    let life: JobLife
    let due: Int64?
    let isDueByCalendar: Bool
    let body: Int64?
    let claimCount: Int64
    let attemptCount: Int
    let attempts: String?
    let result: Int64?
    let failure: String?
    let added: Date
    let defect: String?

    init(_ row: SQLiteRow) {
        position = row.integer(0) ?? 0
        let url = row.text(17).flatMap { URL(string: $0) }
        defect = url == nil ? "its URL in the database cannot be read" : nil
        var request = JobRequest(
            method: HTTPMethod(row.text(16) ?? "GET"),
            url: url ?? URL(fileURLWithPath: "/"),
            headerFields: JobText.fields(of: row.text(18)))
        request.body = row.text(20).map { .file(URL(fileURLWithPath: $0)) }
        request.destination = row.text(21).map { URL(fileURLWithPath: $0) }
        request.followsRedirectsAsGet = row.integer(30) == 1
        var job = Job(row.text(2) ?? "", request, id: row.text(1) ?? "", idempotencyKey: row.text(22) ?? "")
        job.priority = Operation.QueuePriority(rawValue: Int(row.integer(4) ?? 0)) ?? .normal
        job.notBefore = row.integer(7).map { Date(milliseconds: $0) }
        job.expires = row.integer(8).map { Date(milliseconds: $0) }
        job.dependencies = JobText.lines(of: row.text(9))
        job.group = row.text(12)
        if let key = row.text(13) {
            job.uniqueness = .init(key: key, policy: row.text(14).flatMap(Job.Uniqueness.Policy.init) ?? .keep)
        }
        job.tags = Set(JobText.lines(of: row.text(15)))
        self.job = job
        due = row.integer(5)
        isDueByCalendar = row.integer(6) == 1
        body = row.integer(19)
        added = Date(milliseconds: row.integer(23) ?? 0)
        claimCount = row.integer(25) ?? 0
        attemptCount = Int(row.integer(26) ?? 0)
        attempts = row.text(27)
        result = row.integer(28)
        failure = row.text(29)
        life = LifeRow.life(
            row, state: 3, missing: 10, behind: 11, owner: 24, claims: 25, lapses: 31, hasResult: result != nil)
    }
}

enum JobText {
    static func lines(_ values: [String]) -> String? { values.isEmpty ? nil : values.joined(separator: "\n") }

    static func lines(of text: String?) -> [String] { text?.split(separator: "\n").map(String.init) ?? [] }

    /// Line feeds enclose each tag, so that a tag can be searched for.
    static func tags(_ tags: Set<String>) -> String? {
        tags.isEmpty ? nil : "\n" + tags.sorted().joined(separator: "\n") + "\n"
    }

    /// Fields contain no line feeds.
    static func fields(_ fields: HeaderFields) -> String? {
        fields.isEmpty ? nil : fields.map { "\($0.name): \($0.value)\n" }.joined()
    }

    static func fields(of text: String?) -> HeaderFields {
        var fields = HeaderFields()
        for line in (text ?? "").unicodeScalars.split(separator: "\n") {
            guard let colon = line.firstIndex(of: ":") else { continue }
            fields.add(String(line[..<colon]), String(line[colon...].dropFirst(2)))
        }
        return fields
    }

    static func attempts(_ attempts: [JobAttempt]) -> String? {
        guard !attempts.isEmpty, let texts = try? attempts.map({ try $0.json() }) else { return nil }
        return "[" + texts.joined(separator: ",") + "]"
    }

    static func attempts(of text: String?) -> [JobAttempt] {
        guard let text else { return [] }
        return (try? JSONDecoder().decode([JobAttempt].self, from: Data(text.utf8))) ?? []
    }
}
