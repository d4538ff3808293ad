// How a queue can fail.
import Foundation

/// Why a queue or its store could not do what it was asked for.
///
/// The message names the file or the server, says what was tried, what happened and what to do. Nothing that was committed
/// before is lost by any of them.
public struct QueueError: Error, Sendable, Hashable {
    /// The kind of failure.
    public enum Code: String, Sendable, Hashable {
        /// The job can never be sent or kept: the caller's mistake.
        case invalidJob
        /// There is no job with this id.
        case unknownJob
        /// The disk is full, or a limit of file sizes or a quota was reached.
        case diskFull
        /// The file, or its directory, may not be written or opened.
        case notPermitted
        /// The file is no database, or that of another program.
        case foreignFile
        /// The database is damaged.
        case damaged
        /// A newer version of the library has made the tables.
        case newerSchema
        /// Others kept the database locked for too long.
        case busy
        /// The database cannot be reached, or what it needs is not installed.
        case unavailable
        /// The store was closed.
        case closed
        /// Anything else that the database reports.
        case failed
    }

    /// The kind of failure.
    public let code: Code
    /// What was tried, what happened and what to do, in one line; without secrets.
    public let message: String

    /// Makes an error; stores of your own report with it.
    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}

extension QueueError: CustomStringConvertible, LocalizedError {
    /// One line: the code and the message.
    public var description: String { "\(code.rawValue): \(message)" }

    /// The same line, for Foundation.
    public var errorDescription: String? { description }
}
