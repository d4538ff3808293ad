// One connection to a PostgreSQL server. Opening, waiting and closing have time limits.
import CPostgres
import Foundation

/// A connection to a PostgreSQL server.
///
/// Calls block, at most for their time limit. Use a connection on one thread that may block, not on one of Swift's
/// cooperative pool. Only the system's resolver limits the time in which libpq resolves the host's name.
final class PostgresConnection {
    /// How a wait ended: the socket is ready, the time limit was reached, or the wakeup is readable.
    enum Wait {
        case ready
        case timedOut
        case woken
    }

    let library: convoy_pg_functions
    let handle: OpaquePointer
    /// The names of statements that the server has parsed, by their text.
    var prepared: [String: String] = [:]
    /// The number of statement names used so far, which makes each new name unique.
    var nameCount = 0
    /// Queued statements, which the next call of `run` sends first.
    var waiting: [PostgresStatement] = []
    /// Why the connection can no longer be used; nil while it is usable.
    var ending: PostgresError?

    /// Connects to the server.
    ///
    /// - Parameters:
    ///   - address: `postgres://user@host:port/database`, or libpq's `key=value …`.
    ///   - library: libpq, with or without its functions for pipelines.
    init(
        _ address: String, within bound: Duration,
        library: Result<convoy_pg_functions, PostgresError> = PostgresLibrary.shared
    ) throws(PostgresError) {
        self.library = try library.get()
        let library = self.library
        try Self.check(address, library)
        // The address overrides the parameters before it. The parameters after it override the address.
        let parameters = [
            ("fallback_application_name", "convoy"), ("keepalives_idle", "30"), ("keepalives_interval", "10"),
            ("keepalives_count", "3"), ("dbname", address), ("client_encoding", "UTF8"),
        ]
        let started = Self.withStrings(parameters.map(\.0)) { keywords in
            Self.withStrings(parameters.map(\.1)) { library.connectStartParams(keywords, $0, 1) }
        }
        guard let started else { throw PostgresError(.unreachable, "no memory is left for a connection") }
        handle = started
        // Without this processor, libpq prints the server's notices.
        _ = library.setNoticeProcessor(handle, { _, _ in }, nil)
        try connect(until: .now + bound)
        _ = library.setnonblocking(handle, 1)
    }

    deinit { library.finish(handle) }

    /// Rejects an invalid address without libpq's message, which may contain parts of a password.
    ///
    /// With a second @ in the address, libpq would read a part of the password as the host's name.
    private static func check(_ address: String, _ library: convoy_pg_functions) throws(PostgresError) {
        var reason: UnsafeMutablePointer<CChar>?
        let list = library.conninfoParse(address, &reason)
        library.conninfoFree(list)
        library.freemem(reason)
        let parts = address.split(separator: "/", maxSplits: 2, omittingEmptySubsequences: false).dropFirst(2)
        let authority = parts.first?.prefix { $0 != "/" && $0 != "?" } ?? ""
        // An @ after the host means that the password contains a slash or a question mark. libpq would read a part of
        // the password as a port, a database or a parameter.
        let isSplit = address.hasPrefix("postgres") && parts.first?.dropFirst(authority.count).contains("@") ?? false
        guard list == nil || isSplit || authority.count(where: { $0 == "@" }) > 1 else { return }
        throw PostgresError(
            .addressInvalid,
            "the address of the database cannot be read; it has the form postgres://user@host:port/database, "
                + "with %40 for a @ and %2F for a / in a name or password")
    }

    private func connect(until end: ContinuousClock.Instant) throws(PostgresError) {
        var state = Int32(CONVOY_PG_POLLING_WRITING)
        while state != CONVOY_PG_POLLING_OK {
            guard state != CONVOY_PG_POLLING_FAILED, library.status(handle) != CONVOY_PG_CONNECTION_BAD else {
                throw PostgresError(.unreachable, "no connection to the database: \(message)")
            }
            let events = state == CONVOY_PG_POLLING_READING ? POLLIN : POLLOUT
            if try wait(for: Int16(events), until: end) == .timedOut {
                throw PostgresError(.unreachable, "no connection to the database: the server does not respond")
            }
            state = library.connectPoll(handle)
        }
    }

    /// The message of libpq's last failure, in one line.
    var message: String {
        let text = library.errorMessage(handle).map { String(cString: $0) } ?? ""
        return text.split(whereSeparator: \.isNewline).map { $0.trimmingPrefix(while: \.isWhitespace) }
            .joined(separator: " ")
    }

    /// Waits until the socket is ready, until an instant, or until the descriptor `wakeup` is readable.
    func wait(
        for events: Int16, until end: ContinuousClock.Instant, wakeup: Int32 = -1
    ) throws(PostgresError) -> Wait {
        while true {
            let descriptor = library.socket(handle)
            guard descriptor >= 0 else { throw lost(message) }
            var waits = [
                pollfd(fd: descriptor, events: events, revents: 0),
                pollfd(fd: wakeup, events: Int16(POLLIN), revents: 0),
            ]
            let rest = ContinuousClock.now.duration(to: end)
            // The wait is rounded up, so that the loop does not spin at the end.
            let milliseconds = max(0, min(60_000, rest / .milliseconds(1) + 1))
            let count = poll(&waits, 2, rest > .zero ? Int32(milliseconds) : 0)
            if count < 0, errno != EINTR { throw lost(String(cString: strerror(errno))) }
            if count > 0 { return waits.last?.revents != 0 ? .woken : .ready }
            if rest <= .zero { return .timedOut }
        }
    }

    /// Marks the connection as unusable, and returns the error to throw: the first reason that was given.
    func lost(_ reason: String) -> PostgresError {
        let error = ending ?? PostgresError(.lost, "the connection to the database is lost: \(reason)")
        ending = error
        return error
    }

    /// Calls a body with a list of strings in C's form, which ends with NULL.
    private static func withStrings<Result>(
        _ strings: [String], _ body: (UnsafePointer<UnsafePointer<CChar>?>?) -> Result
    ) -> Result {
        let copies = strings.map { strdup($0) }
        defer { for copy in copies { free(copy) } }
        let pointers = copies.map { UnsafePointer($0) } + [nil]
        return pointers.withUnsafeBufferPointer { body($0.baseAddress) }
    }
}
