// The one error type of the library.
import Foundation

/// Why a request failed.
///
/// New codes may be added, so switch over the codes that matter to you, and keep a `default`.
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
public struct RequestError: Error, Sendable, CustomStringConvertible, LocalizedError, CustomNSError {
    private struct Parts {
        let code: Code
        var message: String
        var summary: RequestSummary
        var response: ResponseHead?
        let body: Data?
        var underlying: (any Error)?
        let isRetryable: Bool
        var attempts: [AttemptRecord]
    }

    // One word, so that a `Result` occupies one or two words, however large the error is.
    private var parts: CopyOnWrite<Parts>

    /// Makes an error, for your own transports and decoders, with a message without secrets; an empty `request` is set
    /// by the operation, and by default the code decides whether sending it again can help.
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
        parts = CopyOnWrite(
            Parts(
                code: code, message: message, summary: summary, response: response, body: body, underlying: underlying,
                isRetryable: isRetryable ?? code.facts.contains(.retryable), attempts: attempts))
    }

    /// The kind of failure.
    public var code: Code { parts.value.code }
    /// What was tried, what happened and, if that helps, what to do.
    public var message: String { parts.value.message }
    /// Method and URL of the request, with credentials in the URL replaced.
    public var request: String { parts.value.summary.description }
    /// The response, if one arrived before the failure.
    public var response: ResponseHead? { parts.value.response }
    /// The raw body of a response that could not be decoded, or the first 64 KiB of an unacceptable response; with
    /// ``Request/failing(with:decoder:)`` all of it, up to the body limit.
    public var body: Data? { parts.value.body }
    /// The error of the transport, the decoder or the file system behind this one, or the server's (``refusal(as:)``).
    public var underlying: (any Error)? { parts.value.underlying }
    /// Whether sending the same request again can help.
    public var isRetryable: Bool { parts.value.isRetryable }
    /// A record of each attempt, in order; empty if nothing was sent.
    public var attempts: [AttemptRecord] { parts.value.attempts }

    func with(
        _ summary: RequestSummary? = nil, response: ResponseHead? = nil, attempts: [AttemptRecord] = []
    ) -> RequestError {
        var error = self
        if let summary, parts.value.summary.isEmpty { error.parts.value.summary = summary }
        if let response, self.response == nil { error.parts.value.response = response }
        if self.attempts.isEmpty, !attempts.isEmpty { error.parts.value.attempts = attempts }
        return error
    }

    /// The server's decoded error (``Request/failing(with:decoder:)``), or that of a failed dependency.
    ///
    /// - Returns: nil unless the code is `.unacceptableStatus` or `.dependencyFailed`, for a body that could not be
    ///   decoded, and for an error that is not a `Failure`.
    public func refusal<Failure: Error>(as type: Failure.Type) -> Failure? {
        switch code {
        case .unacceptableStatus: underlying as? Failure
        case .dependencyFailed: (underlying as? RequestError)?.refusal(as: type)
        default: nil
        }
    }

    func refused(_ words: String, _ underlying: (any Error)?) -> RequestError {
        var error = self
        error.parts.value.message += words
        error.parts.value.underlying = underlying
        return error
    }

    func noting(_ note: String) -> RequestError { refused("; \(note)", underlying) }

    var lacksDescriptors: Bool { (underlying as? POSIXError).map { Self.shortages.contains($0.code) } ?? false }

    private static let shortages: [POSIXErrorCode] = [.EMFILE, .ENFILE]

    // Nil for other causes than a lack of descriptors. Libraries rarely report this cause: they report a host without
    // an address, or a certificate that cannot be read. So the method also tries to open as many descriptors as the
    // failed call needed and has released. `number` is the error number of the failure; 0 if there is none.
    static func shortage(_ number: Int32 = 0, needing count: Int = 4) -> RequestError? {
        (shortages.first { $0.rawValue == number } ?? descriptorLimitNow(count)).map {
            RequestError(
                .connectionFailed,
                "no connection could be made: the limit of open files is reached (ulimit -n)",
                underlying: POSIXError($0))
        }
    }

    private static func descriptorLimitNow(_ count: Int) -> POSIXErrorCode? {
        var taken: [Int32] = []
        defer { for descriptor in taken { close(descriptor) } }
        for _ in 0..<count {
            let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else { return shortages.first { [number = errno] in $0.rawValue == number } }
            taken.append(descriptor)
        }
        return nil
    }

    /// One line: the code, the request and the message.
    public var description: String {
        (request.isEmpty ? "\(code): \(message)" : "\(code): \(request): \(message)").oneLine
    }

    /// The same text as `description`, for Foundation.
    public var errorDescription: String? { description }

    /// The domain of these errors as an `NSError`.
    public static var errorDomain: String { "Convoy.RequestError" }

    /// The code of the `NSError`, stable across versions, from the table in <doc:Failures>; 1 for your own codes.
    public var errorCode: Int { code.number }

    /// The description, the underlying error, and the status code of a response as `HTTPStatusCode`.
    public var errorUserInfo: [String: Any] {
        var info: [String: Any] = [NSLocalizedDescriptionKey: description]
        if let underlying { info[NSUnderlyingErrorKey] = underlying as NSError }
        if let response { info["HTTPStatusCode"] = response.statusCode }
        return info
    }
}

#if canImport(CLibcurl)
    /// libcurl's error code and text: the ``RequestError/underlying`` error of a failure that libcurl reported without
    /// an error number of the system, which would be a `POSIXError`.
    public struct CurlError: Error, Sendable, Hashable {
        /// libcurl's error code, a `CURLcode`.
        public let code: Int
        /// libcurl's text, without user names and passwords.
        public let message: String
    }
#endif
