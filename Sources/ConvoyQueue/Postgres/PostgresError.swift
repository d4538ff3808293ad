// How a PostgreSQL server, or the way to it, can fail.

/// What went wrong with a PostgreSQL database.
struct PostgresError: Error, Sendable, CustomStringConvertible {
    enum Kind: Sendable, Equatable {
        /// libpq is not installed.
        case libraryMissing
        /// The address cannot be read; another attempt does not help.
        case addressInvalid
        /// No connection could be made: nothing was asked of the server.
        case unreachable
        /// The connection ended, or the server did not answer in time: what was asked may have taken effect.
        case lost
        /// The server refused what was asked, with this SQLSTATE: it took no effect.
        case refused(state: String)
        /// The answer is none that was expected.
        case answerInvalid
    }

    let kind: Kind
    /// What was tried, what happened, and what to do where that is known.
    let description: String

    init(_ kind: Kind, _ description: String) {
        self.kind = kind
        self.description = description
    }

    /// The code of the server's error; appendix A of its manual.
    var state: String? {
        if case .refused(let state) = kind { state } else { nil }
    }

    /// Whether the same transaction may succeed if it is repeated at once, on the same connection.
    var isConflict: Bool { state == "40001" || state == "40P01" }

    /// Whether another connection may be better, after a while: the server ends, starts, has no room, or is a standby.
    var asksForConnection: Bool {
        switch kind {
        case .unreachable, .lost: true
        case .libraryMissing, .addressInvalid, .answerInvalid: false
        case .refused(let state):
            state.hasPrefix("08") || state.hasPrefix("57P") || state == "53300" || state == "25006"
        }
    }
}
