// What a terminal shows of a run.
import Convoy
import Foundation

/// Lays the progress of a run out: one line for each running file, then the whole.
///
/// A value: it draws nothing itself.
struct FetchScreen {
    static let maximumFileLines = 8

    let started: ContinuousClock.Instant
    private var total = RateMeter()
    private var meters: [Int: RateMeter] = [:]

    init(started: ContinuousClock.Instant) { self.started = started }

    /// The lines for a terminal of that size; the last column and line stay free.
    mutating func lines(
        _ progress: RunProgress, _ running: [RunningTransfer], size: Terminal.Size, now: ContinuousClock.Instant
    ) -> [String] {
        let columns = max(1, size.width - 1)
        let room = max(0, min(Self.maximumFileLines, size.height - 2))
        let shown = running.prefix(room)
        var meters: [Int: RateMeter] = [:]
        var lines: [String] = []
        for transfer in shown {
            var meter = self.meters[transfer.item.index] ?? RateMeter()
            meter.note(transfer.receivedBytes, at: now)
            meters[transfer.item.index] = meter
            lines.append(Self.line(transfer, rate: meter.bytesPerSecond).text(columns: columns))
        }
        self.meters = meters
        total.note(progress.receivedBytes, at: now)
        let hidden = running.count - shown.count
        lines.append(totalLine(progress, hidden: hidden, now: now).text(columns: columns))
        return lines
    }

    private static func line(_ transfer: RunningTransfer, rate: Double?) -> ProgressLine {
        let received = transfer.receivedBytes
        var sizes = Figures.bytes(received)
        if let expected = transfer.expectedBytes { sizes += " of " + Figures.bytes(expected) }
        // Columns of their own, so that the lines do not dance.
        var details = [sizes.padded(toColumns: 20), rate.map { Figures.rate($0).padded(toColumns: 10) } ?? ""]
        var fraction: Double?
        if let expected = transfer.expectedBytes, expected > 0 {
            fraction = Double(received) / Double(expected)
            if let rate, rate > 1 {
                details.append(Figures.timeLeft(Double(max(0, expected - received)) / rate).padded(toColumns: 6))
            }
        }
        return ProgressLine(label: transfer.item.fileName, fraction: fraction, details: details.filter { !$0.isEmpty })
    }

    private func totalLine(_ progress: RunProgress, hidden: Int, now: ContinuousClock.Instant) -> ProgressLine {
        let files = progress.totalCount.map { "\(progress.finishedCount) of \($0)" } ?? "\(progress.finishedCount)"
        var details: [String] = []
        if progress.failedCount > 0 { details.append("\(progress.failedCount) failed") }
        details.append(Figures.bytes(progress.receivedBytes))
        if let rate = total.bytesPerSecond { details.append(Figures.rate(rate)) }
        let fraction = progress.totalCount == nil ? nil : progress.fractionCompleted
        if let fraction, fraction > 0.01, fraction < 1 {
            details.append(Figures.timeLeft((now - started).inSeconds * (1 - fraction) / fraction))
        }
        if hidden > 0 { details.append("\(hidden) more running") }
        return ProgressLine(label: "\(files) files", fraction: fraction, details: details)
    }
}
