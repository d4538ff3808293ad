// The progress of a segmented download: a value.

/// The ranges of the file that were received, and the position of each segment.
struct SegmentTable: Sendable {
    struct Segment: Sendable {
        let range: Range<Int64>
        /// The offset of the segment's next byte.
        var position: Int64
        /// The position before the current body, and the end that the server announced for the body.
        var body: (start: Int64, end: Int64)?
    }

    /// The ranges that were received before the division into segments, in order.
    var there: [Range<Int64>] = []
    var segments: [Segment] = []
    /// The received ranges that were on the disk after the last synchronisation.
    var syncedRanges: [Range<Int64>] = []
    /// The numbers of bytes written since the table was saved, and since the last synchronisation.
    var unsavedBytes: Int64 = 0
    var unsyncedBytes: Int64 = 0

    /// The received ranges in order, with adjacent ones joined.
    var ranges: [Range<Int64>] {
        let all = (there + segments.map { $0.range.lowerBound..<$0.position }).filter { !$0.isEmpty }
        var joined: [Range<Int64>] = []
        for range in all.sorted(by: { $0.lowerBound < $1.lowerBound }) {
            if let last = joined.last, last.upperBound == range.lowerBound {
                joined[joined.count - 1] = last.lowerBound..<range.upperBound
            } else {
                joined.append(range)
            }
        }
        return joined
    }

    var byteCount: Int64 { ranges.reduce(0) { $0 + $1.count64 } }

    /// Divides the missing ranges into about `count` segments.
    ///
    /// Only the last segment of a missing range may have fewer than `smallest` bytes.
    ///
    /// - Complexity: O(*n*) for *n* segments and ranges.
    mutating func divide(totalBytes: Int64, into count: Int, atLeast smallest: Int64) {
        var gaps: [Range<Int64>] = []
        var end: Int64 = 0
        for range in there {
            if range.lowerBound > end { gaps.append(end..<range.lowerBound) }
            end = max(end, range.upperBound)
        }
        if end < totalBytes { gaps.append(end..<totalBytes) }
        let missing = gaps.reduce(0) { $0 + $1.count64 }
        let size = max(smallest, 1, missing / Int64(max(1, count)) + (missing % Int64(max(1, count)) > 0 ? 1 : 0))
        segments = gaps.flatMap { gap -> [Segment] in
            stride(from: gap.lowerBound, to: gap.upperBound, by: Int64.Stride(clamping: size)).map { start in
                Segment(range: start..<start + min(size, gap.upperBound - start), position: start)
            }
        }
    }
}

extension Range<Int64> {
    var count64: Int64 { upperBound - lowerBound }
}
