// Failures of a PostgreSQL server or its connection.

struct PostgresError: Error, Sendable, CustomStringConvertible {
    enum Kind: Sendable, Equatable {
        /// libpq is not installed.
        case libraryMissing
        /// The address of the database is invalid, so another attempt does not help.
        case addressInvalid
        /// No connection could be opened.
        ///
        /// No statement was sent to the server.
        case unreachable
        /// The connection ended, or the server did not respond in time.
        ///
        /// The statement may have taken effect.
        case lost
        /// The server rejected the statement with this SQLSTATE.
        ///
        /// The statement had no effect.
        case refused(state: String)
        /// The server's result has an unexpected form.
        case answerInvalid
    }

    let kind: Kind
    /// What was tried, what happened, and what to do if known.
    let description: String

    init(_ kind: Kind, _ description: String) {
        self.kind = kind
        self.description = description
    }

    /// The SQLSTATE of a rejected statement (PostgreSQL manual, appendix A); nil for other failures.
    var state: String? {
        if case .refused(let state) = kind { state } else { nil }
    }

    /// What to do about a rejected statement, where the server's message does not say it.
    var advice: String? {
        switch state {
        case "0A000", "25006": "if the server is a standby, it takes no changes: use the address of the primary"
        case "26000", "42P05":
            "a pooler in transaction mode mixes up the prepared statements of its clients: let the pooler use session mode, "
                + "or connect to the server directly"
        case "3F000":
            "create the schema with CREATE SCHEMA, grant the role USAGE and CREATE on it, or correct the search_path of the "
                + "address or the role"
        default: nil
        }
    }

    /// Whether the same transaction may succeed when it is repeated at once on the same connection.
    var isConflict: Bool { state == "40001" || state == "40P01" }

    /// Whether another connection may work later: the server is unreachable, starting, stopping, full, or a standby.
    ///
    /// A standby rejects a transaction that may write (0A000), or a statement that writes (25006). With 0A000 a server
    /// also rejects a prepared statement whose result has changed; a new connection prepares it again.
    var asksForConnection: Bool {
        switch kind {
        case .unreachable, .lost: true
        case .libraryMissing, .addressInvalid, .answerInvalid: false
        case .refused(let state):
            state.hasPrefix("08") || state.hasPrefix("57P") || ["0A000", "25006", "53300"].contains(state)
        }
    }
}
