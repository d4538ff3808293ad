import Foundation

/// A failure of a queue or its store.
///
/// The message says what was tried, what happened, and what to do if known. An error does not undo earlier commits.
public struct QueueError: Error, Sendable, Hashable {
    /// The kind of failure.
    public enum Code: String, Sendable, Hashable {
        /// The job can never be sent or stored, because of a mistake of the caller.
        case invalidJob
        /// No job with this id exists.
        case unknownJob
        /// The disk is full, or a limit of file sizes or a quota was reached.
        case diskFull
        /// The database cannot be opened or written, because of missing permissions or an unsuitable file.
        ///
        /// An SQLite file may also be unable to have a write-ahead log. With PostgreSQL, the role lacks a privilege.
        case notPermitted
        /// The file is not a database, or the file or its tables belong to another program.
        case foreignFile
        /// The database is damaged.
        case damaged
        /// A newer version of the library has created or migrated the tables.
        case newerSchema
        /// Another process kept the database locked for too long, or transactions conflicted too often.
        case busy
        /// The database cannot be reached now, or a requirement of the queue is not met.
        ///
        /// The PostgreSQL server does not respond or is a standby, or the SQLite file was moved or removed. Examples of
        /// a requirement: libpq is installed, the server is new enough, its database has the encoding UTF8, a pooler
        /// uses session mode.
        case unavailable
        /// The store was closed.
        case closed
        /// Any other failure, for example an invalid address of a database server.
        case failed
    }

    /// The kind of failure.
    public let code: Code
    /// What was tried, what happened, and what to do if known, in one line without secrets.
    public let message: String

    /// Makes an error, for your own stores.
    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}

extension QueueError: CustomStringConvertible, LocalizedError {
    /// One line: the code and the message.
    public var description: String { "\(code.rawValue): \(message)" }

    /// The same line as `description`, for Foundation's `localizedDescription`.
    public var errorDescription: String? { description }
}
