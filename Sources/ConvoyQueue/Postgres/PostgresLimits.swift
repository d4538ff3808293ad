// Values that PostgreSQL cannot store, and databases that the queue cannot use.
import Convoy
import Foundation

/// Limits of PostgreSQL, checked before anything is sent.
enum PostgresLimits {
    /// The maximum size in bytes of a job's body.
    ///
    /// The server's own limit for a message is 1 GiB.
    static let maxBodyBytes = 256 << 20

    /// The maximum total size in bytes of the bodies in one insertion, unless a single body is larger.
    ///
    /// A claim ends with the job whose body makes the total reach this size.
    static let maxStatementBytes = 32 << 20

    /// Why a job cannot be stored; nil if it can.
    static func defect(of job: Job) -> String? {
        if let data = job.request.body?.data, data.count > maxBodyBytes {
            return
                "its body has \(data.count) bytes, but a database stores at most \(maxBodyBytes): write it to a file "
                + "that every worker can read, and use body(fromFile:)"
        }
        let texts: [(String, String?)] = [
            ("id", job.id), ("kind", job.kind), ("group", job.group), ("key", job.uniqueness?.key),
            ("Idempotency-Key", job.idempotencyKey), ("method", job.request.method.rawValue),
            ("URL", job.request.url.absoluteString), ("destination", job.request.destination?.path),
            ("body's file", job.request.body?.file?.path),
        ]
        let lists: [(String, String?)] = job.tags.map { ("tag", $0) } + job.dependencies.map { ("dependency", $0) }
        let fields: [(String, String?)] = job.request.headerFields.flatMap {
            [("header field", $0.name), ($0.name, $0.value)]
        }
        guard let name = (texts + lists + fields).first(where: { $0.1?.utf8.contains(0) ?? false })?.0 else {
            return nil
        }
        return "its \(name) contains NUL, which a PostgreSQL text cannot have: remove it"
    }

    /// Replaces NUL by `␀` in the text of a failure, because PostgreSQL stores no NUL.
    static func visible(_ text: String?) -> String? {
        guard let text, text.utf8.contains(0) else { return text }
        return String(String.UnicodeScalarView(text.unicodeScalars.map { $0.value == 0 ? "\u{2400}" : $0 }))
    }
}

extension PostgresConnection {
    /// Checks that the database can store every text.
    func checkEncoding() throws {
        let rows = try run("SELECT current_setting('server_encoding'), current_database()::text")
        let (encoding, name) = (try rows.text(0, 0) ?? "", try rows.text(0, 1) ?? "")
        guard encoding != "UTF8" else { return }
        throw QueueError(
            .unavailable,
            "the database \(name) has the encoding \(encoding), but the queue needs UTF8: create one with "
                + "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0")
    }

    /// Adds advice to errors about missing privileges, and about tables that are not those of a queue.
    ///
    /// Other errors are not changed.
    func explaining(_ error: any Error) -> any Error {
        guard let error = error as? PostgresError else { return error }
        switch error.kind {
        case .refused(state: "42501"):
            return QueueError(
                .notPermitted,
                "the tables of the queue cannot be created or read: \(error.description); grant the role CREATE on the "
                    + "schema, or create the tables with another role, and grant this one the tables, their sequence and "
                    + "USAGE")
        case .answerInvalid, .refused(state: "42P01"), .refused(state: "42703"), .refused(state: "42P07"),
            .refused(state: "42809"), .refused(state: "42723"), .refused(state: "42804"):
            return QueueError(
                .foreignFile,
                "the database has tables named convoy_… that are not those of a queue: \(error.description); "
                    + "use another database, or another schema with ?options=-csearch_path%3Dname in its address")
        default: return error
        }
    }
}
