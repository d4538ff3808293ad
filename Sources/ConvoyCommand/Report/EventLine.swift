// One event of a run, as --json prints it and `convoy report` reads it.
import Convoy
import Foundation

/// One event of a run: the keys that do not apply are left out.
struct EventLine: Codable, Equatable, Sendable {
    var event: String
    var index: Int?
    var name: String?
    var method: String?
    var url: String?
    var list: String?
    var line: Int?
    var file: String?
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
    /// The header fields of a refusal, each as `Name: value`.
    var head: [String]?
    /// What the server said to what it refused, where that is text.
    var body: String?
    /// When the request was taken: seconds since 1970.
    var queuedAt: Double?
    /// From there to its end.
    var lifeSeconds: Double?
    /// The indices of the requests it waited for.
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
        case code, message, head, body, after, timeline, succeeded, skipped, failed, unsent, failures, cancelled
        case resumedBytes = "resumed_bytes"
        case keptBytes = "kept_bytes"
        case keptFiles = "kept_files"
        case expectedBytes = "expected_bytes"
        case delaySeconds = "delay_seconds"
        case queuedAt = "queued_at"
        case lifeSeconds = "life_seconds"
        case exitStatus = "exit_status"
    }

    /// The event in one line, its keys in order of the alphabet.
    var jsonLine: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return (try? encoder.encode(self)).map { String(decoding: $0, as: UTF8.self).unsafeEscaped } ?? "{}"
    }
}

/// Where the time of one attempt went, in seconds.
///
/// What is left out does not apply. The phases follow each other: together they last as long as the attempt.
struct AttemptLine: Codable, Equatable, Sendable {
    /// What followed an attempt that was not the last.
    enum Next: String, Codable, Sendable {
        case redirect
        case retry
        /// Another attempt for another reason: asked for by a 401, for example.
        case again
    }

    /// From the moment the request was taken to the beginning of the attempt.
    var start: Double
    var lookup: Double?
    var connect: Double?
    var tls: Double?
    /// Until the first byte of the answer; sending is part of it, which no transport measures.
    var wait: Double
    var receive: Double
    var status: Int?
    /// Why it failed.
    var code: String?
    var next: Next?
    /// The wait before the next attempt.
    var delay: Double?
    /// Where a redirect led to.
    var location: String?

    /// Its length.
    var seconds: Double { (lookup ?? 0) + (connect ?? 0) + (tls ?? 0) + wait + receive }
}

extension String {
    /// JSON in which what a terminal would not show is escaped: a program reads the same, and nothing steers a terminal.
    fileprivate var unsafeEscaped: String {
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
