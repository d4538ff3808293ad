// How fast a run may be, and must be.
import Convoy
import Foundation

extension RequestManager.Configuration {
    /// `--rate`: all transfers together.
    mutating func limit(by options: FetchOptions) { maximumBytesPerSecond = options.maximumRate }
}

extension Request {
    /// `--min-speed`: each transfer.
    func limited(by options: FetchOptions) -> Self {
        guard let speed = options.minimumSpeed else { return self }
        return minimumSpeed(bytesPerSecond: speed, over: FetchOptions.minimumSpeedWindow)
    }
}
