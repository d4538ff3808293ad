// The times of a request and of its attempts.
import Convoy
import ConvoyTesting
import Foundation

/// The times at which a request was queued and ended.
struct EventSpan: Sendable, Equatable {
    var queued = ContinuousClock.now
    var ended = ContinuousClock.now
    /// When the first byte of the final response arrived; nil if the operation did not measure the time.
    var firstByte: ContinuousClock.Instant?

    /// The readings of both clocks at the same moment, which convert instants to dates.
    private static let reference = (instant: ContinuousClock.now, seconds: Date().timeIntervalSince1970)

    /// When the request was queued, in seconds since 1970.
    fileprivate var queuedAt: Double {
        let reference = Self.reference
        return ((reference.seconds + (queued - reference.instant).inSeconds) * 1e6).rounded() / 1e6
    }
}

extension EventSpan {
    /// Makes the span of a request.
    ///
    /// Without timings, the last attempt determines the end.
    ///
    /// - Parameter queued: when the request was queued.
    init(queued: ContinuousClock.Instant, _ timings: Timings?, _ attempts: [AttemptRecord]) {
        self.queued = queued
        ended = max(queued, timings?.finished ?? attempts.last?.ended ?? .now)
        firstByte = timings?.firstByte
    }
}

extension EventLine {
    /// Sets the times of the request and of its attempts.
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
}

extension Duration {
    /// Seconds, rounded to microseconds.
    var roundedSeconds: Double { (inSeconds * 1e6).rounded() / 1e6 }
}

extension Int64 {
    /// The number, or nil if it is not positive.
    var positive: Int64? { self > 0 ? self : nil }
}
