// How fast a run may be, and must be: where `--rate`, `--min-speed` and `--segments` meet the library.
//
// An option is refused as long as it is in `FetchOptions.laterOptions`; its value is read and checked all the same.
import Convoy
import Foundation

extension RequestManager.Configuration {
    /// `--rate` belongs here: `maximumBytesPerSecond` from ``FetchOptions/maximumRate``.
    mutating func limit(by options: FetchOptions) {}
}

extension Request {
    /// `--min-speed` belongs here: `minimumSpeed(bytesPerSecond:over:)` from ``FetchOptions/minimumSpeed`` and
    /// ``FetchOptions/minimumSpeedWindow``.
    ///
    /// `--segments` does not: a ``SegmentedDownload`` is no request that a batch could pull. It belongs into ``FetchRun``,
    /// beside the batch, with ``FetchOptions/segments``.
    func limited(by options: FetchOptions) -> Self { self }
}
