// How a request can fail: the one error type of the library.
import Foundation

/// Why a request failed.
///
/// A flat value with a ``code`` that can grow: switch over the codes you treat apart and keep a `default`.
///
/// ```swift
/// do {
///     let user = try await manager.send(Request<User>.get(url)).value
/// } catch {
///     switch error.code {
///     case .unacceptableStatus: print(error.response?.statusCode ?? 0)
///     default: print(error)
///     }
/// }
/// ```
///
/// ## Topics
/// - ``code``
/// - ``message``
/// - ``request``
/// - ``response``
/// - ``body``
/// - ``underlying``
/// - ``refusal(as:)``
/// - ``attempts``
/// - ``isRetryable``
public struct RequestError: Error, Sendable {
    // A reference, so that a result stays a word or two however much an error tells.
    private final class Storage: Sendable {
        let code: Code
        let message: String
        let summary: RequestSummary
        let response: ResponseHead?
        let body: Data?
        let underlying: (any Error)?
        let isRetryable: Bool
        let attempts: [AttemptRecord]

        init(
            code: Code, message: String, summary: RequestSummary, response: ResponseHead?, body: Data?,
            underlying: (any Error)?, isRetryable: Bool, attempts: [AttemptRecord]
        ) {
            self.code = code
            self.message = message
            self.summary = summary
            self.response = response
            self.body = body
            self.underlying = underlying
            self.isRetryable = isRetryable
            self.attempts = attempts
        }
    }

    private let storage: Storage

    /// Makes an error; transports and decoders of your own report with it.
    ///
    /// - Parameters:
    ///   - code: the kind of failure.
    ///   - message: what was tried, what happened and, where that helps, what to do; without secrets.
    ///   - request: the redacted description of the request; the operation fills it in when it is empty.
    ///   - response: the response, if one arrived.
    ///   - body: the raw body of the answer, when it was kept.
    ///   - underlying: the error this one was made from.
    ///   - isRetryable: whether sending the same request again can help; the code's own answer by default.
    public init(
        _ code: Code, _ message: String, request: String = "", response: ResponseHead? = nil, body: Data? = nil,
        underlying: (any Error)? = nil, isRetryable: Bool? = nil
    ) {
        self.init(
            code, message, summary: RequestSummary(text: request), response: response, body: body,
            underlying: underlying, isRetryable: isRetryable)
    }

    init(
        _ code: Code, _ message: String, summary: RequestSummary, response: ResponseHead? = nil, body: Data? = nil,
        underlying: (any Error)? = nil, isRetryable: Bool? = nil, attempts: [AttemptRecord] = []
    ) {
        storage = Storage(
            code: code, message: message, summary: summary, response: response, body: body, underlying: underlying,
            isRetryable: isRetryable ?? code.facts.contains(.retryable), attempts: attempts)
    }

    /// The kind of failure.
    public var code: Code { storage.code }
    /// What was tried, what happened and what to do, in one line.
    public var message: String { storage.message }
    /// Method and URL of the request, with credentials in the URL replaced.
    public var request: String { storage.summary.description }
    /// The response, if one arrived before the failure.
    public var response: ResponseHead? { storage.response }
    /// The raw body: of an answer that could not be decoded, or the first 64 KiB of one that was not acceptable.
    public var body: Data? { storage.body }
    /// The error this one was made from: the loader's, the decoder's or the file system's; or what the server told of a
    /// refusal, ``refusal(as:)``.
    public var underlying: (any Error)? { storage.underlying }
    /// Whether sending the same request again can help.
    public var isRetryable: Bool { storage.isRetryable }
    /// What became of each attempt, in order; empty when nothing was sent.
    public var attempts: [AttemptRecord] { storage.attempts }

    /// The same error, naming a request, a response and attempts where it names none yet.
    func with(
        _ summary: RequestSummary? = nil, response: ResponseHead? = nil, attempts: [AttemptRecord] = []
    ) -> RequestError {
        let names = storage.summary.isEmpty && summary != nil
        let lists = storage.attempts.isEmpty && !attempts.isEmpty
        guard names || lists || (storage.response == nil && response != nil) else { return self }
        return RequestError(
            code, message, summary: names ? summary ?? storage.summary : storage.summary,
            response: storage.response ?? response, body: body, underlying: underlying, isRetryable: isRetryable,
            attempts: lists ? attempts : storage.attempts)
    }
}

extension RequestError {
    /// What the server told of its refusal, decoded by ``Request/failing(with:decoder:)``.
    ///
    /// Of an operation that did not run because another was refused, what that was told.
    ///
    /// - Returns: nil for another kind of failure, for a body that could not be decoded, and for a value of another type.
    public func refusal<Failure: Error>(as type: Failure.Type) -> Failure? {
        switch code {
        case .unacceptableStatus: underlying as? Failure
        case .dependencyFailed: (underlying as? RequestError)?.refusal(as: type)
        default: nil
        }
    }

    /// The same error with what came of decoding the body of a refusal.
    func refused(_ words: String, _ underlying: any Error) -> RequestError {
        RequestError(
            code, message + words, summary: storage.summary, response: response, body: body, underlying: underlying,
            isRetryable: isRetryable, attempts: attempts)
    }

    /// The same error, telling more.
    func noting(_ note: String) -> RequestError {
        RequestError(
            code, "\(message); \(note)", summary: storage.summary, response: response, body: body,
            underlying: underlying, isRetryable: isRetryable, attempts: attempts)
    }
}

extension RequestError: CustomStringConvertible, LocalizedError {
    /// One line: the code, the request and the message.
    public var description: String {
        let line = request.isEmpty ? "\(code): \(message)" : "\(code): \(request): \(message)"
        return line.oneLine
    }

    /// The same line, for Foundation.
    public var errorDescription: String? { description }
}
