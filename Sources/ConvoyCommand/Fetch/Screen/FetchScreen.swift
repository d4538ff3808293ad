import Convoy
import Foundation

// Sizes and bars include bytes of an earlier run; rates and times do not. The caller draws the lines.
struct FetchScreen {
    private static let rateColumns = 10
    private static let timeColumns = 6
    private static let sizesColumns = 21

    let maxAttempts: Int
    let noun: String
    private var total = ArrivalMeter()
    private var meters: [Int: ArrivalMeter] = [:]

    init(maxAttempts: Int, noun: String = "files") { (self.maxAttempts, self.noun) = (maxAttempts, noun) }

    // The last column and line stay free.
    mutating func lines(
        _ progress: RunProgress, _ running: [RunningTransfer], size: Terminal.Size, now: ContinuousClock.Instant
    ) -> [String] {
        let columns = max(1, size.width - 1)
        note(progress, running, now)
        // Beside the total, the numbers of failed and skipped files would displace the bars.
        let note = size.height > 3 ? Self.note(progress) : nil
        let shownCount = Self.shownCount(of: running.count, height: size.height - (note == nil ? 0 : 1))
        let total = totalLine(progress, running, hidden: shownCount > 0 ? 0 : running.count, now)
        // The label column fits the shortest label of the total, so the count is never truncated.
        let labelColumns = max(
            ProgressLine.leastLabelColumns(of: columns), total.shortLabels.last?.columnCount ?? 0)
        var lines = running.prefix(shownCount).map { text(of: $0, now, columns: columns, labelColumns) }
        // With one file, the line of the file is also the total.
        if progress.totalCount == 1, !lines.isEmpty { return lines }
        let hiddenCount = running.count - shownCount
        if hiddenCount > 0, shownCount > 0 {
            lines.append("\u{2026} and \(hiddenCount) more".clipped(toColumns: columns))
        }
        lines.append(total.text(columns: columns, labelColumns: labelColumns))
        if let note { lines.append(note.clipped(toColumns: columns)) }
        return lines
    }

    private mutating func note(
        _ progress: RunProgress, _ running: [RunningTransfer], _ now: ContinuousClock.Instant
    ) {
        meters = running.reduce(into: [:]) { meters, transfer in
            var meter = self.meters[transfer.item.index] ?? ArrivalMeter()
            meter.note(transfer.receivedBytes &- transfer.resumedBytes, at: now)
            meters[transfer.item.index] = meter
        }
        total.note(progress.receivedBytes &- progress.resumedBytes, at: now)
    }

    // One line is for the total, and one stays free. If not all files fit, one line counts the files without a line.
    private static func shownCount(of count: Int, height: Int) -> Int {
        let room = max(0, height - 2)
        return count <= room ? count : max(0, room - 1)
    }

    private func secondsLeft(_ transfer: RunningTransfer, _ now: ContinuousClock.Instant) -> Double? {
        guard let expected = transfer.expectedBytes else { return nil }
        let left = Double(expected) - Double(transfer.receivedBytes)
        return meters[transfer.item.index]?.secondsLeft(for: left, at: now)
    }

    private func text(
        of transfer: RunningTransfer, _ now: ContinuousClock.Instant, columns: Int, _ labelColumns: Int
    ) -> String {
        guard let wait = transfer.wait else {
            return line(transfer, now).text(columns: columns, labelColumns: labelColumns)
        }
        let name = transfer.item.fileName.fitted(toColumns: labelColumns)
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
        _ progress: RunProgress, _ running: [RunningTransfer], hidden: Int, _ now: ContinuousClock.Instant
    ) -> ProgressLine {
        let done = "\(progress.finishedCount)"
        let files = progress.totalCount.map { "\(done) of \($0)" } ?? done
        let shortest = progress.totalCount.map { "\(done)/\($0)" } ?? done
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
            label: "\(files) \(noun)", shortLabels: [files, shortest], fraction: totals.fraction,
            sizes: sizes.padded(toColumns: Self.sizesColumns),
            details: details + (hidden > 0 ? ["\(hidden) running"] : []))
    }

    private static func note(_ progress: RunProgress) -> String? {
        let notes = [(progress.failedCount, "failed"), (progress.skippedCount, "skipped")]
            .compactMap { $0 > 0 ? "\($0) \($1)" : nil }
        return notes.isEmpty ? nil : notes.joined(separator: ", ")
    }

    private static func details(
        _ meter: ArrivalMeter, left: Double?, isEstimate: Bool, _ now: ContinuousClock.Instant
    ) -> [String] {
        let rate = meter.isStalled(at: now) ? "stalled" : meter.bytesPerSecond(at: now).map(Figures.rate) ?? ""
        let time = left.map { (isEstimate ? "~" : "") + Figures.timeLeft($0) } ?? ""
        return [rate.padded(toColumns: rateColumns), time.padded(toColumns: timeColumns)]
    }
}

// Unknown sizes count as the mean of the known ones; ``isEstimate`` is then true.
struct RunTotals: Equatable {
    let receivedBytes: Int64
    private(set) var remainingBytes: Double?
    private(set) var isEstimate = false
    // While no size is known, it is the fraction of finished files. It is less than 1 until all files have finished.
    private(set) var fraction: Double?

    init(_ progress: RunProgress, _ running: [RunningTransfer]) {
        receivedBytes = progress.receivedBytes
        guard let totalCount = progress.totalCount else { return }
        let waitingCount = max(0, totalCount - progress.finishedCount - running.count)
        // Servers may announce any size. The sums are floating-point numbers, which do not overflow.
        let known = running.compactMap { transfer in transfer.expectedBytes.map { max(0, Double($0)) } }
        let knownCount = progress.savedCount + known.count
        isEstimate = waitingCount > 0 || known.count < running.count
        if knownCount > 0 || !isEstimate {
            let mean = known.reduce(Double(progress.savedBytes), +) / Double(max(1, knownCount))
            let underWay = running.map {
                max(0, Double($0.expectedBytes ?? Int64(min(mean, 1e18))) - Double($0.receivedBytes))
            }
            remainingBytes = underWay.reduce(Double(waitingCount) * mean, +)
        }
        guard progress.finishedCount < totalCount else {
            fraction = 1
            return
        }
        let byFiles = Double(progress.finishedCount) / Double(totalCount)
        let part = remainingBytes.map { left in
            left > 0 ? Double(receivedBytes) / (Double(receivedBytes) + left) : receivedBytes > 0 ? 1 : byFiles
        }
        fraction = min(part ?? byFiles, 0.99)
    }

    /// The remaining time in seconds: the remaining bytes divided by the rate, but at least `slowest`.
    func secondsLeft(_ meter: ArrivalMeter, slowest: Double?, at now: ContinuousClock.Instant) -> Double? {
        guard let remainingBytes, let seconds = meter.secondsLeft(for: remainingBytes, at: now) else { return nil }
        return max(seconds, slowest ?? 0)
    }
}
