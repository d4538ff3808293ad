// What a terminal shows of a run.
import Convoy
import Foundation

/// Lays the progress of a run out: one line for each running file, as many as fit, then the whole.
///
/// Sizes and bars count what was there before; rates and times do not. A value: it draws nothing itself.
struct FetchScreen {
    private static let rateColumns = 10
    private static let timeColumns = 6
    private static let sizesColumns = 21

    /// How often each request is tried at most.
    let maxAttempts: Int
    /// What is counted.
    let noun: String
    private var total = ArrivalMeter()
    private var meters: [Int: ArrivalMeter] = [:]

    init(maxAttempts: Int, noun: String = "files") { (self.maxAttempts, self.noun) = (maxAttempts, noun) }

    /// The lines for a terminal of that size; the last column and line stay free.
    mutating func lines(
        _ progress: RunProgress, _ running: [RunningTransfer], size: Terminal.Size, now: ContinuousClock.Instant
    ) -> [String] {
        let columns = max(1, size.width - 1)
        note(progress, running, now)
        let shownCount = Self.shownCount(of: running.count, height: size.height)
        let notes = Self.notes(progress, hidden: shownCount > 0 ? 0 : running.count)
        // Where the total has notes the files have blanks: columns align.
        let blanks = notes.map { String(repeating: " ", count: $0.columnCount) }
        var lines = running.prefix(shownCount).map { text(of: $0, now, blanks, columns: columns) }
        // One file is the whole.
        if progress.totalCount == 1, !lines.isEmpty { return lines }
        let hiddenCount = running.count - shownCount
        if hiddenCount > 0, shownCount > 0 {
            lines.append("\u{2026} and \(hiddenCount) more".clipped(toColumns: columns))
        }
        return lines + [totalLine(progress, running, notes, now).text(columns: columns)]
    }

    private mutating func note(
        _ progress: RunProgress, _ running: [RunningTransfer], _ now: ContinuousClock.Instant
    ) {
        // Of those that are not shown too: they may be in the next picture.
        meters = running.reduce(into: [:]) { meters, transfer in
            var meter = self.meters[transfer.item.index] ?? ArrivalMeter()
            meter.note(transfer.receivedBytes &- transfer.resumedBytes, at: now)
            meters[transfer.item.index] = meter
        }
        total.note(progress.receivedBytes &- progress.resumedBytes, at: now)
    }

    /// How many files have a line of their own: one line is the total's, one stays free, and one counts the others.
    private static func shownCount(of count: Int, height: Int) -> Int {
        let room = max(0, height - 2)
        return count <= room ? count : max(0, room - 1)
    }

    private func secondsLeft(_ transfer: RunningTransfer, _ now: ContinuousClock.Instant) -> Double? {
        guard let expected = transfer.expectedBytes else { return nil }
        let left = Double(expected) - Double(transfer.receivedBytes)
        return meters[transfer.item.index]?.secondsLeft(for: left, at: now)
    }

    /// The line of a file: how far it is, or what it waits for.
    private func text(
        of transfer: RunningTransfer, _ now: ContinuousClock.Instant, _ blanks: [String], columns: Int
    ) -> String {
        guard let wait = transfer.wait else {
            var line = line(transfer, now)
            line.details += blanks
            return line.text(columns: columns)
        }
        let name = transfer.item.fileName.fitted(toColumns: ProgressLine.leastLabelColumns(of: columns))
        let done = transfer.receivedBytes > 0 ? transfer.fraction.map(ProgressLine.percent) : nil
        return "\(name)  \(done.map { $0 + "  " } ?? "")\(wait.text(maxAttempts: maxAttempts, now: now))".clipped(
            toColumns: columns)
    }

    private func line(_ transfer: RunningTransfer, _ now: ContinuousClock.Instant) -> ProgressLine {
        let received = transfer.receivedBytes
        var sizes = Figures.bytes(received)
        if let expected = transfer.expectedBytes { sizes += " of " + Figures.bytes(expected) }
        let details = Self.details(
            meters[transfer.item.index] ?? ArrivalMeter(), left: secondsLeft(transfer, now), isEstimate: false, now)
        return ProgressLine(
            label: transfer.item.fileName, fraction: transfer.fraction,
            sizes: sizes.padded(toColumns: Self.sizesColumns),
            details: details)
    }

    private func totalLine(
        _ progress: RunProgress, _ running: [RunningTransfer], _ notes: [String], _ now: ContinuousClock.Instant
    ) -> ProgressLine {
        let files = progress.totalCount.map { "\(progress.finishedCount) of \($0)" } ?? "\(progress.finishedCount)"
        let totals = RunTotals(progress, running)
        var sizes = Figures.bytes(totals.receivedBytes)
        if let remaining = totals.remainingBytes {
            let whole = Figures.bytes(Int64(min(Double(totals.receivedBytes) + remaining, 9e18)))
            sizes += " of \(totals.isEstimate ? "~" : "")\(whole)"
        }
        let slowest = running.compactMap { secondsLeft($0, now) }.max()
        let details = Self.details(
            total, left: totals.secondsLeft(total, slowest: slowest, at: now), isEstimate: totals.isEstimate, now)
        return ProgressLine(
            label: "\(files) \(noun)", fraction: totals.fraction, sizes: sizes.padded(toColumns: Self.sizesColumns),
            details: details + notes)
    }

    /// What the total says besides; behind its columns.
    ///
    /// - Parameter hidden: how many run without a line of their own, where none has one.
    private static func notes(_ progress: RunProgress, hidden: Int) -> [String] {
        [(progress.failedCount, "failed"), (progress.skippedCount, "skipped"), (hidden, "running")]
            .compactMap { $0 > 0 ? "\($0) \($1)" : nil }
    }

    /// Rate and time left, in columns of their own, so that the lines do not dance.
    private static func details(
        _ meter: ArrivalMeter, left: Double?, isEstimate: Bool, _ now: ContinuousClock.Instant
    ) -> [String] {
        let rate = meter.isStalled(at: now) ? "stalled" : meter.bytesPerSecond(at: now).map(Figures.rate) ?? ""
        let time = left.map { (isEstimate ? "~" : "") + Figures.timeLeft($0) } ?? ""
        return [rate.padded(toColumns: rateColumns), time.padded(toColumns: timeColumns)]
    }
}
