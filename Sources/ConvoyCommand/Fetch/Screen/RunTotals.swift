// The completed and remaining work of a run.

/// The received and remaining bytes of a run.
///
/// Unknown sizes count as the mean of the known ones; ``isEstimate`` is then true.
struct RunTotals: Equatable {
    let receivedBytes: Int64
    /// The bytes still to receive; nil while the number of files is unknown, or while no size is known.
    private(set) var remainingBytes: Double?
    private(set) var isEstimate = false
    /// The completed fraction of the bytes, 0 to 1; nil while the number of files is unknown.
    ///
    /// While no size is known, it is the fraction of finished files. The fraction is less than 1 until all files
    /// have finished.
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
    ///
    /// - Parameter slowest: the remaining seconds of the slowest running file; nil if unknown.
    func secondsLeft(_ meter: ArrivalMeter, slowest: Double?, at now: ContinuousClock.Instant) -> Double? {
        guard let remainingBytes, let seconds = meter.secondsLeft(for: remainingBytes, at: now) else { return nil }
        return max(seconds, slowest ?? 0)
    }
}
