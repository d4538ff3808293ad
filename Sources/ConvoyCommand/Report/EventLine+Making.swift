// Makes event lines from what happened.
import Convoy
import Foundation

/// The times of a request from its start to its end.
struct EventSpan: Sendable, Equatable {
    var queued = ContinuousClock.now
    var ended = ContinuousClock.now
    /// The first byte of the final answer, if no transport measured it.
    var firstByte: ContinuousClock.Instant?

    /// The readings of both clocks at the same moment.
    private static let reference = (instant: ContinuousClock.now, seconds: Date().timeIntervalSince1970)

    /// The seconds since 1970 when it was taken.
    fileprivate var queuedAt: Double {
        let reference = Self.reference
        return ((reference.seconds + (queued - reference.instant).inSeconds) * 1e6).rounded() / 1e6
    }
}

extension EventSpan {
    /// - Parameter queued: when the request was taken.
    init(queued: ContinuousClock.Instant, _ timings: Timings?, _ attempts: [AttemptRecord]) {
        self.queued = queued
        ended = max(queued, timings?.finished ?? attempts.last?.ended ?? .now)
        firstByte = timings?.firstByte
    }
}

extension EventLine {
    /// Makes the line of a step.
    init(_ step: FetchStep, index: Int, name: String? = nil, url: String) {
        self.init(event: "started", index: index, name: name, url: url)
        switch step {
        case .started: break
        case .redirected(let statusCode, let target):
            event = "redirect"
            status = statusCode
            location = target.redactedString
        case .retrying(let attempt, let failure, let statusCode, _, let delay):
            event = "retry"
            self.attempt = attempt
            code = (failure ?? .unacceptableStatus).rawValue
            status = statusCode
            delaySeconds = delay.roundedSeconds
        }
    }

    /// Makes the line of a download's end.
    ///
    /// - Parameter directory: the base of its file name; nil without files.
    init(_ outcome: FetchOutcome, directory: String?) {
        self.init(event: "finished", index: outcome.item.index, url: outcome.item.url.redactedString)
        method = outcome.attempts.first?.method.rawValue
        cache = outcome.attempts.cacheOutcome?.rawValue
        let path = { (success: FetchOutcome.Success) -> String? in
            let name = success.fileName ?? outcome.item.fileName
            return directory.map { name.hasPrefix("/") ? name : $0.hasSuffix("/") ? $0 + name : "\($0)/\(name)" }
        }
        switch outcome.result {
        case .success(let success) where success.isSkipped:
            event = "skipped"
            if success.hasFile { file = path(success) }
        case .success(let success):
            attempts = outcome.attemptCount
            status = success.statusCode
            bytes = success.bytes
            resumedBytes = success.resumedBytes.positive
            seconds = success.time.roundedSeconds
            file = path(success)
        case .failure(let error):
            event = "failed"
            attempts = outcome.attemptCount
            keptBytes = outcome.keptBytes
            status = error.response?.statusCode
            code = error.code.rawValue
            message = outcome.message?.visible()
            seconds = outcome.attempts.first.map { (outcome.span.ended - $0.started).roundedSeconds }
            setAnswer(of: error, without: [])
        }
        // A file that was skipped without a request has no times.
        if event != "skipped" || method != nil { setTimes(outcome.span, outcome.attempts) }
    }

    /// Makes the line of a list entry that did not become a request.
    init(_ defect: FetchItems.Defect) {
        self.init(
            event: "failed", list: defect.list, line: defect.line, code: defect.code, message: defect.reason.visible())
    }

    mutating func setTimes(_ span: EventSpan, _ attempts: [AttemptRecord]) {
        queuedAt = span.queuedAt
        lifeSeconds = (span.ended - span.queued).roundedSeconds
        guard let last = attempts.last else { return }
        timeline = attempts.map { record in
            AttemptLine(record, queued: span.queued, firstByte: record.number == last.number ? span.firstByte : nil)
        }
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
        // `connect` of the timings includes the TLS handshake.
        connect = timings.connect.map { seconds($0 - (timings.ssl ?? 0)) }
        tls = timings.ssl.map(seconds)
        status = record.statusCode
        code = record.failure?.rawValue
        switch record.next {
        case .outcome: break
        case .redirect(let target): (next, location) = (.redirect, target.redactedString)
        case .retry(let delay): (next, self.delay) = (.retry, delay.roundedSeconds)
        case .intercepted, .suspended, .startOver, .awaitedDescriptor, .awaitedConnectivity: next = .again
        }
    }
}

extension Duration {
    /// Seconds, rounded to microseconds.
    var roundedSeconds: Double { (inSeconds * 1e6).rounded() / 1e6 }
}

extension Int64 {
    /// The number, or nil if it is not positive.
    var positive: Int64? { self > 0 ? self : nil }
}
