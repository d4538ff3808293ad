// The current rate of a transfer.
import Foundation

/// A moving average: bytes that arrived three seconds ago have about a third (1/e) of the weight of new bytes.
package struct RateMeter: Sendable {
    private static let memorySeconds = 3.0

    /// The average; nil until two counts are more than 10 ms apart.
    package private(set) var bytesPerSecond: Double?
    private var last: (bytes: Int64, moment: ContinuousClock.Instant)?

    package init() {}

    /// `bytes` is the total; a total lower than the last one resets the average.
    package mutating func note(_ bytes: Int64, at moment: ContinuousClock.Instant) {
        guard let last, bytes >= last.bytes else {
            self.last = (bytes, moment)
            bytesPerSecond = nil
            return
        }
        let seconds = last.moment.duration(to: moment).seconds
        guard seconds > 0.01 else { return }
        let current = Double(bytes - last.bytes) / seconds
        let weight = 1 - exp(-seconds / Self.memorySeconds)
        bytesPerSecond = bytesPerSecond.map { $0 + (current - $0) * weight } ?? current
        self.last = (bytes, moment)
    }
}
