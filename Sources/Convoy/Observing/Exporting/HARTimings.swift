// The timings of an attempt in the form of HAR 1.2.
import Foundation

/// The phases of one attempt in order, in whole microseconds; nil when a phase does not apply.
///
/// The phases add up to ``time``. The TLS handshake is part of ``connect``.
package struct HARTimings: Equatable {
    /// The time before the attempt: waiting for dependencies, a slot, back-off and interceptors.
    package var blocked: Int64
    /// The part of ``blocked`` that was not back-off.
    package var queued: Int64
    package var dns: Int64?
    package var connect: Int64?
    package var ssl: Int64?
    /// Always 0, because no transport measures the time to send.
    ///
    /// The time to send a body is part of ``wait``.
    package let send: Int64 = 0
    package var wait: Int64
    package var receive: Int64

    package var time: Int64 { blocked + (dns ?? 0) + (connect ?? 0) + send + wait + receive }

    /// - Parameters:
    ///   - waited: the time from the end of the previous attempt, or from enqueueing, to this attempt.
    ///   - delay: the part of `waited` that the retry policy or an interceptor required.
    ///   - total: the time from the start of the attempt to its end, including decoding.
    ///   - firstByte: the time from the start of the attempt to the response's first byte, if the operation recorded
    ///     it.
    ///   - hasAnswer: whether there was a response.
    ///   - hasBody: whether the request had a body. If so, `firstByte` takes precedence over the first byte in
    ///     `metrics`, because libcurl 7 measures the first byte sent instead.
    ///   - metrics: the transport's measurements. Each moment is limited to the range between its neighbours.
    package init(
        waited: Duration, delay: Duration, total: Duration, firstByte: Duration?, hasAnswer: Bool,
        hasBody: Bool = false, metrics: TransferMetrics?
    ) {
        blocked = waited.microseconds
        queued = max(0, blocked - delay.microseconds)
        let end = total.microseconds
        var start: Int64 = 0
        if let metrics, !metrics.isReusedConnection {
            let looked = min(metrics.nameLookup.microseconds, end)
            // A connection attempt that failed took the rest of the time.
            let isConnected = metrics.connect > .zero || hasAnswer
            let connected = isConnected ? max(looked, min(metrics.connect.microseconds, end)) : end
            start =
                metrics.secureConnect > .zero ? max(connected, min(metrics.secureConnect.microseconds, end)) : connected
            dns = looked
            connect = start - looked
            ssl = metrics.secureConnect > .zero ? start - connected : nil
        }
        let told = metrics.flatMap { $0.firstByte > .zero ? $0.firstByte : nil }
        let measured = hasBody ? firstByte ?? told : told ?? firstByte
        let answered = hasAnswer ? max(start, min(measured?.microseconds ?? end, end)) : end
        wait = answered - start
        receive = end - answered
    }

    /// The `timings` of an entry; -1 means that a phase does not apply.
    var json: JSONValue {
        let optional = { (value: Int64?) in value.map(JSONValue.inMilliseconds) ?? -1 }
        return [
            "blocked": .inMilliseconds(blocked), "dns": optional(dns), "connect": optional(connect),
            "ssl": optional(ssl),
            "send": .inMilliseconds(send), "wait": .inMilliseconds(wait), "receive": .inMilliseconds(receive),
            "_queued": .inMilliseconds(queued),
        ]
    }
}

extension Duration {
    /// Whole microseconds, rounded.
    ///
    /// Zero for a negative duration, and at most a billion seconds, about 31 years.
    fileprivate var microseconds: Int64 { Int64(min(max(0, self / .microseconds(1)), 1e15).rounded()) }
}

extension JSONValue {
    /// Microseconds as milliseconds with at most three decimals, so that sums are exact.
    static func inMilliseconds(_ microseconds: Int64) -> JSONValue { .number(microseconds.thousandths) }
}

extension Int64 {
    /// The number divided by 1,000, in decimal: 12345 is `12.345`, 12000 is `12`.
    fileprivate var thousandths: String {
        guard self % 1_000 != 0 else { return String(self / 1_000) }
        let digits = String((self % 1_000).magnitude)
        var decimals = String(repeating: "0", count: 3 - digits.count) + digits
        while decimals.last == "0" { decimals.removeLast() }
        return "\(self < 0 ? "-" : "")\((self / 1_000).magnitude).\(decimals)"
    }
}
