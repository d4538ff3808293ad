// What of a whole run is done, and what is left.

/// The bytes of a run: those it has, and those that are to come.
///
/// A value. Sizes that are not known count as the mean of those that are; then ``isEstimate`` says so.
struct RunTotals: Equatable {
    let receivedBytes: Int64
    /// Nil while nothing is known of the sizes, or of the number of files.
    private(set) var remainingBytes: Double?
    private(set) var isEstimate = false
    /// The part that is done, 0 to 1, by bytes; by files while no size is known, nil while their number is not.
    ///
    /// Less than 1 until all have finished.
    private(set) var fraction: Double?

    init(_ progress: RunProgress, _ running: [RunningTransfer]) {
        receivedBytes = progress.receivedBytes
        guard let totalCount = progress.totalCount else { return }
        let waitingCount = max(0, totalCount - progress.finishedCount - running.count)
        // Servers announce any number: the sums are floating-point numbers, which do not overflow.
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

    /// How long the rest takes: its bytes over the rate, and not less than any file under way.
    ///
    /// - Parameter slowest: the time left of the file that takes longest; nil when none is known.
    func secondsLeft(_ meter: ArrivalMeter, slowest: Double?, at now: ContinuousClock.Instant) -> Double? {
        guard let remainingBytes, let seconds = meter.secondsLeft(for: remainingBytes, at: now) else { return nil }
        return max(seconds, slowest ?? 0)
    }
}
