// Where the time of an attempt went, as HAR 1.2 counts it.
import Foundation

/// The phases of one attempt, one after the other, in whole microseconds; nil where a phase does not apply.
///
/// They add up to ``time``, the TLS handshake being part of ``connect``.
package struct HARTimings: Equatable {
    /// Before the attempt: behind dependencies and for a slot, in back-off, with interceptors.
    package var blocked: Int64
    /// How much of that was not asked for by a retry's delay.
    package var queued: Int64
    package var dns: Int64?
    package var connect: Int64?
    package var ssl: Int64?
    /// Not measured by any transport: the request's body is part of ``wait``.
    package let send: Int64 = 0
    package var wait: Int64
    package var receive: Int64

    package var time: Int64 { blocked + (dns ?? 0) + (connect ?? 0) + send + wait + receive }

    /// - Parameters:
    ///   - waited: from the end of the attempt before, or from the beginning, to this attempt.
    ///   - delay: how much of that a retry's policy wanted.
    ///   - total: from the start of the attempt to its end; decoding is part of it.
    ///   - firstByte: from the start of the attempt to the first byte of the answer, where the operation noted it.
    ///   - hasAnswer: whether an answer came.
    ///   - hasBody: whether the request had one. Then the noted first byte counts: libcurl 7 takes the first byte that is
    ///     sent for it.
    ///   - metrics: what the transport measured; each moment is kept between those around it.
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
            // One that never came about took the rest of the time.
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

    /// The `timings` of an entry; -1 stands for what does not apply.
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
    /// Whole microseconds, rounded; none for a negative duration, and at most thirty years.
    fileprivate var microseconds: Int64 { Int64(min(max(0, self / .microseconds(1)), 1e15).rounded()) }
}

extension JSONValue {
    /// Microseconds as milliseconds with no more than three decimals: sums of them are exact.
    static func inMilliseconds(_ microseconds: Int64) -> JSONValue { .number(microseconds.thousandths) }
}

extension Int64 {
    /// A thousandth of the number, in decimal: 12345 is `12.345`, 12000 is `12`.
    fileprivate var thousandths: String {
        guard self % 1_000 != 0 else { return String(self / 1_000) }
        let digits = String((self % 1_000).magnitude)
        var decimals = String(repeating: "0", count: 3 - digits.count) + digits
        while decimals.last == "0" { decimals.removeLast() }
        return "\(self < 0 ? "-" : "")\((self / 1_000).magnitude).\(decimals)"
    }
}
