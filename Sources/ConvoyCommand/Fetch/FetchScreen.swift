// What a terminal shows of a run.
import Convoy
import Foundation

/// Lays the progress of a run out: one line for each running file, as many as fit, then the whole.
///
/// Sizes and bars count what was there before; rates and times do not. A value: it draws nothing itself.
struct FetchScreen {
    let started: ContinuousClock.Instant
    private var total = RateMeter()
    private var meters: [Int: RateMeter] = [:]

    init(started: ContinuousClock.Instant) { self.started = started }

    /// The lines for a terminal of that size; the last column and line stay free.
    mutating func lines(
        _ progress: RunProgress, _ running: [RunningTransfer], size: Terminal.Size, now: ContinuousClock.Instant
    ) -> [String] {
        let columns = max(1, size.width - 1)
        let shownCount = Self.shownCount(of: running.count, height: size.height)
        var meters: [Int: RateMeter] = [:]
        var lines: [String] = []
        for (place, transfer) in running.enumerated() {
            // Of those that are not shown too: they may be in the next picture.
            var meter = self.meters[transfer.item.index] ?? RateMeter()
            meter.note(transfer.receivedBytes - transfer.resumedBytes, at: now)
            meters[transfer.item.index] = meter
            guard place < shownCount else { continue }
            lines.append(Self.line(transfer, rate: meter.bytesPerSecond).text(columns: columns))
        }
        self.meters = meters
        let hiddenCount = running.count - shownCount
        if hiddenCount > 0, shownCount > 0 {
            lines.append("\u{2026} and \(hiddenCount) more".clipped(toColumns: columns))
        }
        total.note(progress.receivedBytes - progress.resumedBytes, at: now)
        lines.append(totalLine(progress, hidden: shownCount > 0 ? 0 : hiddenCount, now: now).text(columns: columns))
        return lines
    }

    /// How many files have a line of their own: one line is the total's, one stays free, and one counts the others.
    private static func shownCount(of count: Int, height: Int) -> Int {
        let room = max(0, height - 2)
        return count <= room ? count : max(0, room - 1)
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
        if progress.skippedCount > 0 { details.append("\(progress.skippedCount) skipped") }
        details.append(Figures.bytes(progress.receivedBytes))
        if let rate = total.bytesPerSecond { details.append(Figures.rate(rate)) }
        let fraction = progress.totalCount == nil ? nil : progress.fractionCompleted
        if let fraction, fraction - progress.fractionBefore > 0.01, fraction < 1 {
            let pace = (fraction - progress.fractionBefore) / (now - started).inSeconds
            details.append(Figures.timeLeft((1 - fraction) / pace))
        }
        if hidden > 0 { details.append("\(hidden) running") }
        return ProgressLine(label: "\(files) files", fraction: fraction, details: details)
    }
}
