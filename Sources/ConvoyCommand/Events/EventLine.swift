// One event of a run, as --json prints it and `convoy report` reads it.
import Convoy
import Foundation

/// One event of a run.
///
/// The JSON has no key for a property that is nil.
struct EventLine: Encodable, Equatable, Sendable {
    var event: String
    var index: Int?
    var name: String?
    var method: String?
    var url: String?
    var list: String?
    var line: Int?
    var file: String?
    /// How the cache handled the request: a word of `CacheOutcome`.
    var cache: String?
    var status: Int?
    var bytes: Int64?
    var resumedBytes: Int64?
    var keptBytes: Int64?
    var expectedBytes: Int64?
    var seconds: Double?
    var attempt: Int?
    var attempts: Int?
    var delaySeconds: Double?
    var location: String?
    var code: String?
    var message: String?
    /// The header fields of a failed response, each as `Name: value`.
    var head: [String]?
    /// When the request was queued, in seconds since 1970.
    var queuedAt: Double?
    /// The time from queueing the request to its end.
    var lifeSeconds: Double?
    /// The indices of the requests that this request waited for.
    var after: [Int]?
    var timeline: [AttemptLine]?
    var succeeded: Int?
    var skipped: Int?
    var failed: Int?
    var unsent: Int?
    var failures: [String: Int]?
    var cancelled: Int?
    var keptFiles: Int?
    var exitStatus: Int32?

    enum CodingKeys: String, CodingKey {
        case event, index, name, method, url, list, line, file, status, bytes, seconds, attempt, attempts, location
        case cache, code, message, head, after, timeline, succeeded, skipped, failed, unsent, failures, cancelled
        case resumedBytes = "resumed_bytes"
        case keptBytes = "kept_bytes"
        case keptFiles = "kept_files"
        case expectedBytes = "expected_bytes"
        case delaySeconds = "delay_seconds"
        case queuedAt = "queued_at"
        case lifeSeconds = "life_seconds"
        case exitStatus = "exit_status"
    }

    /// The event as one line of JSON with sorted keys.
    var jsonLine: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return (try? encoder.encode(self)).map { String(decoding: $0, as: UTF8.self).unsafeEscaped } ?? "{}"
    }
}

extension Console {
    /// Prints a warning on standard error; with `--json`, prints it as an event on standard output.
    func warn(_ message: String, list: String? = nil) {
        guard isJSON else { return printError("convoy: \(message)") }
        printLine(EventLine(event: "warning", list: list, message: message.visible()).jsonLine)
    }
}

/// The phases of one attempt, in seconds.
///
/// A phase that does not apply is nil. The phases are consecutive, so their sum is the duration of the attempt.
struct AttemptLine: Encodable, Equatable, Sendable {
    /// The step that followed an attempt; the last attempt has none.
    enum Next: String, Encodable, Sendable {
        case redirect, retry
        /// Another attempt for another reason, for example after a 401.
        case again
    }

    /// The time from queueing the request to the start of the attempt.
    var start: Double
    var lookup: Double?
    var connect: Double?
    var tls: Double?
    /// The time from the end of the connection phases to the first byte of the response.
    ///
    /// It includes the time to send the request, because no transport measures that time separately.
    var wait: Double
    var receive: Double
    var status: Int?
    /// The error code of a failed attempt.
    var code: String?
    var next: Next?
    /// The delay before the next attempt.
    var delay: Double?
    /// The URL to which the response redirects; nil without a redirect.
    var location: String?

    /// The duration of the attempt.
    var seconds: Double { (lookup ?? 0) + (connect ?? 0) + (tls ?? 0) + wait + receive }
}

extension String {
    /// JSON in which unprintable characters are escaped.
    ///
    /// A JSON parser reads the same value, and no text can control a terminal.
    var unsafeEscaped: String {
        guard unicodeScalars.contains(where: \.isUnsafeToShow) else { return self }
        var result = ""
        for scalar in unicodeScalars {
            guard scalar.isUnsafeToShow else {
                result.unicodeScalars.append(scalar)
                continue
            }
            for unit in String(scalar).utf16 {
                let digits = String(unit, radix: 16)
                result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            }
        }
        return result
    }
}
