import Convoy
import ConvoyHTTPFile
import ConvoyTesting
import Foundation

// The JSON has no key for a property that is nil.
struct EventLine: Encodable, Equatable, Sendable {
    var event: String
    var index: Int?
    var name: String?
    var method: String?
    var url: String?
    var list: String?
    var line: Int?
    var file: String?
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
    var head: [String]?
    var queuedAt: Double?
    var lifeSeconds: Double?
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

    var jsonLine: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return (try? encoder.encode(self)).map { String(decoding: $0, as: UTF8.self).unsafeEscaped } ?? "{}"
    }

    /// A response with an acceptable status is not recorded, because such responses often contain secrets.
    mutating func setAnswer(of error: RequestError) {
        guard error.code == .unacceptableStatus, let answer = error.response else { return }
        let fields = answer.headerFields.map(\.shown)
        if !fields.isEmpty { head = fields }
    }

    mutating func setTimes(_ span: EventSpan, _ attempts: [AttemptRecord]) {
        queuedAt = span.queuedAt
        lifeSeconds = (span.ended - span.queued).roundedSeconds
        guard let last = attempts.last else { return }
        timeline = attempts.map { record in
            var line = AttemptLine(
                record, queued: span.queued, firstByte: record.number == last.number ? span.firstByte : nil)
            if case .redirect(let target) = record.next { line.location = target.redactedString }
            return line
        }
    }
}

extension Console {
    func warn(_ message: String, list: String? = nil) {
        guard isJSON else { return printError("convoy: \(message)") }
        printLine(EventLine(event: "warning", list: list, message: message.visible()).jsonLine)
    }
}

// The phases are consecutive, so their sum is the duration of the attempt. A phase that does not apply is nil.
struct AttemptLine: Encodable, Equatable, Sendable {
    enum Next: String, Encodable, Sendable {
        case redirect, retry
        /// Another attempt for another reason, for example after a 401.
        case again
    }

    var start: Double
    var lookup: Double?
    var connect: Double?
    var tls: Double?
    // It includes the time to send the request, because no transport measures that time separately.
    var wait: Double
    var receive: Double
    var status: Int?
    var code: String?
    var next: Next?
    var delay: Double?
    var location: String?

    var seconds: Double { (lookup ?? 0) + (connect ?? 0) + (tls ?? 0) + wait + receive }
}

extension String {
    // A JSON parser reads the same value, and no text can control a terminal.
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

extension HeaderFields.Field {
    // A secret value is replaced. In a field whose value is a URL, only the secrets of the URL are replaced.
    var shown: String {
        if SecretWords.standard.isSecret(name) { return "\(name): <redacted>" }
        guard ["location", "content-location", "referer"].contains(name.lowercased()) else { return description }
        return "\(name): \(SecretWords.standard.redacted(reference: value))"
    }
}

struct EventSpan: Sendable, Equatable {
    var queued = ContinuousClock.now
    var ended = ContinuousClock.now
    /// When the first byte of the final response arrived; nil if the operation did not measure the time.
    var firstByte: ContinuousClock.Instant?

    private static let reference = (instant: ContinuousClock.now, seconds: Date().timeIntervalSince1970)

    fileprivate var queuedAt: Double {
        let reference = Self.reference
        return ((reference.seconds + (queued - reference.instant).inSeconds) * 1e6).rounded() / 1e6
    }
}

extension EventSpan {
    // Without timings, the last attempt determines the end.
    init(queued: ContinuousClock.Instant, _ timings: Timings?, _ attempts: [AttemptRecord]) {
        self.queued = queued
        ended = max(queued, timings?.finished ?? attempts.last?.ended ?? .now)
        firstByte = timings?.firstByte
    }
}

extension AttemptLine {
    init(_ record: AttemptRecord, queued: ContinuousClock.Instant, firstByte: ContinuousClock.Instant?) {
        let timings = HARTimings(
            waited: .zero, delay: .zero, total: record.ended - record.started,
            firstByte: firstByte.map { $0 - record.started }, hasAnswer: record.response != nil,
            hasBody: record.request.body != nil, metrics: record.metrics)
        let seconds = { (microseconds: Int64) in Double(microseconds) / 1e6 }
        self.init(
            start: (record.started - queued).roundedSeconds, wait: seconds(timings.wait),
            receive: seconds(timings.receive))
        lookup = timings.dns.map(seconds)
        // `timings.connect` includes the TLS handshake, as in HAR 1.2.
        connect = timings.connect.map { seconds($0 - (timings.ssl ?? 0)) }
        tls = timings.ssl.map(seconds)
        status = record.statusCode
        code = record.failure?.rawValue
        switch record.next {
        case .outcome: break
        case .redirect: next = .redirect
        case .retry(let delay): (next, self.delay) = (.retry, delay.roundedSeconds)
        case .intercepted, .suspended, .startOver, .awaitedDescriptor: next = .again
        }
    }

    fileprivate init(_ json: JSONValue) throws {
        guard case .object(let members) = json else { throw WrongType() }
        self.init(start: .nan, wait: .nan, receive: .nan)
        for member in members where member.value != .null {
            let value = member.value
            switch member.name {
            case "start": start = try value.number()
            case "lookup": lookup = try value.number()
            case "connect": connect = try value.number()
            case "tls": tls = try value.number()
            case "wait": wait = try value.number()
            case "receive": receive = try value.number()
            case "status": status = try value.integer()
            case "code": code = try value.string()
            case "next":
                guard let step = Next(rawValue: try value.string()) else { throw WrongType() }
                next = step
            case "delay": delay = try value.number()
            case "location": location = try value.string()
            default: break
            }
        }
        // The initializer set the required times to NaN. JSON has no NaN, so a time that is still NaN is missing.
        if (start + wait + receive).isNaN { throw WrongType() }
    }
}

extension Duration {
    var roundedSeconds: Double { (inSeconds * 1e6).rounded() / 1e6 }
}

extension Int64 {
    var positive: Int64? { self > 0 ? self : nil }
}

extension EventLine {
    init?(_ line: [UInt8]) {
        guard let json = try? JSONReader.read(line), case .object(let members) = json else { return nil }
        self.init(event: "")
        do {
            for member in members where member.value != .null { try read(member) }
        } catch { return nil }
        if event.isEmpty { return nil }
    }

    private mutating func read(_ member: JSONValue.Member) throws {
        let value = member.value
        switch CodingKeys(stringValue: member.name) {
        case .event: event = try value.string()
        case .index: index = try value.integer()
        case .name: name = try value.string()
        case .method: method = try value.string()
        case .url: url = try value.string()
        case .list: list = try value.string()
        case .line: line = try value.integer()
        case .status: status = try value.integer()
        case .bytes: bytes = try value.integer()
        case .resumedBytes: resumedBytes = try value.integer()
        case .seconds: seconds = try value.number()
        case .attempts: attempts = try value.integer()
        case .cache: cache = try value.string()
        case .code: code = try value.string()
        case .message: message = try value.string()
        case .head: head = try value.list { try $0.string() }
        case .queuedAt: queuedAt = try value.number()
        case .lifeSeconds: lifeSeconds = try value.number()
        case .after: after = try value.list { try $0.integer() }
        case .timeline: timeline = try value.list(AttemptLine.init)
        default: break
        }
    }
}

private struct WrongType: Error {}

extension JSONValue {
    fileprivate func string() throws -> String {
        guard case .string(let text) = self else { throw WrongType() }
        return text
    }

    fileprivate func number() throws -> Double {
        guard case .number(let digits) = self, let number = Double(digits), number.isFinite else { throw WrongType() }
        return number
    }

    fileprivate func integer<Value: FixedWidthInteger>() throws -> Value {
        // An integer may have an exponent, such as 1e3.
        guard case .number(let digits) = self,
            let number = Value(digits) ?? Double(digits).flatMap(Value.init(exactly:))
        else { throw WrongType() }
        return number
    }

    fileprivate func list<Element>(_ read: (JSONValue) throws -> Element) throws -> [Element] {
        guard case .array(let elements) = self else { throw WrongType() }
        return try elements.map(read)
    }
}

enum CacheOutcome: String, Sendable {
    case hit, stale, revalidated, miss, bypass

    var words: String {
        switch self {
        case .hit: ", from the cache"
        case .stale: ", from the cache, stale"
        case .revalidated: ", from the cache, validated"
        case .miss, .bypass: ""
        }
    }
}

extension CacheStatus {
    var outcome: CacheOutcome {
        if isHit { return timeToLive.map { $0 > 0 } ?? true ? .hit : .stale }
        if detail == "stale-if-error" { return .stale }
        if forwardStatus == 304 { return .revalidated }
        return forward == .bypass || forward == .method ? .bypass : .miss
    }
}

extension [AttemptRecord] {
    var cacheOutcome: CacheOutcome? { last?.metrics?.cache?.outcome }
}
