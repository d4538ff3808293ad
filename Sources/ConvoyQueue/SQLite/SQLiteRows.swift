import Convoy
import ConvoySQLite
import Foundation

/// `body` and `result` are primary keys of rows in the tables `body` and `result`.
struct JobRow {
    static let columns = """
        position, id, state, missing, behind, owner, claims, lapses, result, body, grp, key, kind, priority, due, \
        due_clock, not_before, expires, needs, key_policy, tags, method, url, fields, body_path, destination, \
        idempotency_key, added, attempt_count, attempts, failure, follows_as_get, \
        EXISTS(SELECT 1 FROM dependency WHERE needs = job.id), (SELECT file FROM body WHERE number = job.body)
        """

    /// Without delay, attempts, result, and the bytes of a body.
    let record: JobRecord
    let due: Int64?
    let isDueByCalendar: Bool
    let body: Int64?
    let bodyFile: String?
    let attempts: String?
    let result: Int64?
    let hasDependents: Bool
    let defect: String?

    var job: Job { record.job }
    var life: JobLife { record.life }

    init(_ row: SQLiteRow) {
        let url = row.text(22).flatMap { URL(string: $0) }
        defect = url == nil ? "its URL in the database cannot be read" : nil
        var request = JobRequest(
            method: HTTPMethod(row.text(21) ?? "GET"),
            url: url ?? URL(fileURLWithPath: "/"),
            headerFields: JobText.fields(of: row.text(23)))
        request.body = row.text(24).map { .file(URL(fileURLWithPath: $0)) }
        request.destination = row.text(25).map { URL(fileURLWithPath: $0) }
        request.followsRedirectsAsGet = row.integer(31) == 1
        var job = Job(row.text(12) ?? "", request, id: row.text(1) ?? "", idempotencyKey: row.text(26) ?? "")
        job.priority = Operation.QueuePriority(rawValue: Int(row.integer(13) ?? 0)) ?? .normal
        job.notBefore = row.integer(16).map { Date(milliseconds: $0) }
        job.expires = row.integer(17).map { Date(milliseconds: $0) }
        job.dependencies = JobText.lines(of: row.text(18))
        job.group = row.text(10)
        if let key = row.text(11) {
            job.uniqueness = .init(key: key, policy: row.text(19).flatMap(Job.Uniqueness.Policy.init) ?? .keep)
        }
        job.tags = Set(JobText.lines(of: row.text(20)))
        due = row.integer(14)
        isDueByCalendar = row.integer(15) == 1
        body = row.integer(9)
        bodyFile = row.text(33)
        attempts = row.text(29)
        result = row.integer(8)
        hasDependents = row.integer(32) == 1
        let state = Self.state(row.integer(2) ?? 0)
        let (bits, token) = (row.integer(4) ?? 0, row.integer(6) ?? 0)
        let holds = JobHolds(
            dependencies: Int(row.integer(3) ?? 0), isBehindGroup: bits & 1 != 0, isBehindKey: bits & 2 != 0)
        let life = JobLife(
            state: state, holds: state == .blocked ? holds : JobHolds(),
            lease: state == .claimed ? row.text(5).map { JobLease(owner: $0, token: token) } : nil,
            claimCount: token, hasResult: result != nil, lapseCount: Int(row.integer(7) ?? 0))
        record = JobRecord(
            job: job, position: row.integer(0) ?? 0, life: life, added: Date(milliseconds: row.integer(27) ?? 0),
            attemptCount: Int(row.integer(28) ?? 0), failure: row.text(30))
    }

    /// In the database, a waiting job has the number 1 instead of 0 while its date or delay is not over.
    private static let states: [JobState] = [
        .waiting, .waiting, .blocked, .claimed, .answered, .done, .dead, .cancelled,
    ]

    static func state(_ number: Int64) -> JobState {
        states.indices.contains(Int(number)) ? states[Int(number)] : .waiting
    }

    static func number(of state: JobState) -> Int64 { Int64(states.firstIndex(of: state) ?? 0) }
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
