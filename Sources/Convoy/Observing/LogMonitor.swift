// A log with one line for each event.
import Foundation

#if canImport(os)
    import os
#endif

/// Writes a log line for each event whose ``Level`` is at least the minimum.
///
/// ```swift
/// var configuration = RequestManager.Configuration(monitors: [LogMonitor()])
/// // GET https://example.com/a: attempt 1 answered 503 after 12 ms; attempt 2 in 500 ms
/// // GET https://example.com/a: 200, 5120 bytes in 540 ms, 3 ms queued, 2 attempts
/// // GET https://example.com/b: unacceptableStatus: the server answered 404 (8 ms, 0 ms queued)
/// ```
///
/// A line never contains a secret field, a URL's user name and password, or a parameter of a URL whose name indicates a
/// secret. The line contains the rest of the URL, including the query. After a decoding failure, the line may contain a
/// value of the body. Control characters from a server are replaced by spaces, so one event is one line.
///
/// ## Concurrency
/// `Sendable`. Lines are written on the manager's queue for monitors, in order and without a lock. A slow destination
/// delays other monitors, but no request.
///
/// ## Topics
/// - ``init(minimumLevel:)``
/// - ``init(minimumLevel:write:)``
/// - ``Level``
public struct LogMonitor: EventMonitor {
    /// The importance of a line.
    public enum Level: String, Sendable, Hashable, CaseIterable, Comparable {
        /// An operation was queued, suspended or resumed, or an attempt started.
        case debug
        /// An attempt led to another, or the request succeeded or was cancelled.
        case info
        /// The request failed.
        case error

        /// Orders levels by importance.
        public static func < (left: Level, right: Level) -> Bool {
            (allCases.firstIndex(of: left) ?? 0) < (allCases.firstIndex(of: right) ?? 0)
        }
    }

    private let minimumLevel: Level
    private let write: @Sendable (Level, String) -> Void

    /// Makes a monitor that writes to the system's log on Apple platforms (subsystem `convoy`), elsewhere to standard
    /// error with a time in each line.
    ///
    /// Lines that cannot be written are dropped. A full pipe whose reader does not read blocks the monitors.
    public init(minimumLevel: Level = .info) {
        #if canImport(os)
            let logger = Logger(subsystem: "convoy", category: "requests")
            self.init(minimumLevel: minimumLevel) { level, line in
                // The line is public, because it contains no secret, and a log without URLs would be useless.
                logger.log(level: level.systemLevel, "\(line, privacy: .public)")
            }
        #else
            self.init(minimumLevel: minimumLevel) { level, line in
                StandardError.write("\(Date().internetTime) convoy \(level): \(line)\n")
            }
        #endif
    }

    /// Makes a monitor that passes its lines, without line feeds, to a function on the manager's queue for monitors.
    public init(minimumLevel: Level = .info, write: @escaping @Sendable (_ level: Level, _ line: String) -> Void) {
        self.minimumLevel = minimumLevel
        self.write = write
    }

    /// Writes the line of the event, if the event has one.
    public func operation(_ operation: AnyRequestOperation, did event: RequestEvent) {
        func log(_ level: Level, _ words: @autoclosure () -> String) {
            if level >= minimumLevel { write(level, "\(operation.label): \(words())".oneLine) }
        }
        switch event {
        case .queued: log(.debug, "queued")
        case .started(let attempt): log(.debug, "attempt \(attempt) started")
        case .suspended: log(.debug, "suspended")
        case .resumed: log(.debug, "resumed")
        case .attemptEnded(let record): log(.info, record.logText(of: operation))
        case .finished(let error):
            log(error == nil || error?.code == .cancelled ? .info : .error, operation.logText(error))
        case .response, .progress: break
        }
    }

    /// Writes a line for an operation that was enqueued after it had finished.
    public func operation(_ operation: AnyRequestOperation, wasRefused error: RequestError) {
        write(.error, "\(operation.label): \(error.code): \(error.message)".oneLine)
    }
}

extension AttemptRecord {
    fileprivate func logText(of operation: AnyRequestOperation) -> String {
        let answer = statusCode.map { isFromCache ? "answered \($0) from the cache" : "answered \($0)" }
        let end = failure.map { "failed (\($0))" } ?? answer ?? "was interrupted"
        let what = "attempt \(number) \(end) after \(started.duration(to: ended).shortText)"
        return switch next {
        case .outcome: what
        case .redirect(let url): "\(what); redirected to \(url.redactedString)"
        case .retry(let delay): "\(what); attempt \(number + 1) in \(delay.shortText)"
        case .intercepted(let delay): "\(what); an interceptor asked for attempt \(number + 1) in \(delay.shortText)"
        case .suspended: "\(what); suspended"
        case .awaitedDescriptor: "\(what); it is sent again when a file descriptor is free"
        case .startOver: "\(what); the earlier bytes cannot be resumed, so the complete file is requested"
        }
    }
}

extension AnyRequestOperation {
    fileprivate func logText(_ error: RequestError?) -> String {
        let attempts = attempts
        let waited = timings.waited.map { ", \($0.shortText) queued" } ?? ""
        let count = attempts.count > 1 ? ", \(attempts.count) attempts" : ""
        let spent = "\((timings.executed ?? .zero).shortText)\(waited)\(count)"
        // The message of an error says what failed, so the line adds only the code and the times.
        if let error { return "\(error.code): \(error.message) (\(spent))" }
        // A group sends nothing, and a download whose file exists may send nothing.
        guard let last = attempts.last, let statusCode = last.statusCode else { return "nothing was sent, in \(spent)" }
        let (source, progress) = (last.isFromCache ? " from the cache" : "", progress)
        let resumed = progress.resumedBytes > 0 ? ", \(progress.resumedBytes) of them resumed," : ""
        return "\(statusCode), \(progress.download.completedBytes) bytes\(resumed)\(source) in \(spent)"
    }
}

extension Duration {
    fileprivate var shortText: String { self < .seconds(10) ? "\(Int((seconds * 1_000).rounded())) ms" : words }
}

#if canImport(os)
    extension LogMonitor.Level {
        fileprivate var systemLevel: OSLogType {
            switch self {
            case .debug: .debug
            case .info: .info
            case .error: .error
            }
        }
    }
#endif

extension Date {
    package var internetTime: String { formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true)) }
}

#if !canImport(os)
    enum StandardError {
        // Text that cannot be written is dropped. SIGPIPE is blocked, because writing to a pipe without a reader would
        // end the process.
        static func write(_ text: String) {
            var brokenPipe = sigset_t()
            var earlier = sigset_t()
            sigemptyset(&brokenPipe)
            sigaddset(&brokenPipe, SIGPIPE)
            pthread_sigmask(SIG_BLOCK, &brokenPipe, &earlier)
            var bytes = Array(text.utf8)[...]
            while !bytes.isEmpty {
                let count = bytes.withUnsafeBytes { Foundation.write(STDERR_FILENO, $0.baseAddress, $0.count) }
                if count > 0 {
                    bytes = bytes.dropFirst(count)
                } else if count == 0 || errno != EINTR {
                    // Consumes the pending SIGPIPE of this thread.
                    var atOnce = timespec()
                    if errno == EPIPE, sigismember(&earlier, SIGPIPE) == 0 { sigtimedwait(&brokenPipe, nil, &atOnce) }
                    break
                }
            }
            pthread_sigmask(SIG_SETMASK, &earlier, nil)
        }
    }
#endif
