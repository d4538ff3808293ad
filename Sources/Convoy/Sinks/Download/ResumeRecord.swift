// The record of a part (a partial file), stored in a sidecar file.
import Foundation

struct ResumeRecord: SidecarRecord, Hashable {
    /// A hash of the URL, see `URL.downloadKey`, because the URL may contain a secret.
    var key: String
    var validator: Validator
    /// The source of the validator, see ``Validator/source(_:)``; nil when unknown.
    var source: String?
    var totalBytes: Int64?
    /// The boot in which the part was written; nil when the system has no name for it.
    var boot: String?
    var syncedBytes: Int64 = 0
    var promised: String?
    var coding: String?
    var name: String?
    /// Whether the part has bytes from servers with an unknown version, which only a digest can verify.
    var needsDigest: Bool?
    /// The number of reliable bytes at the last call of ``PartName/noteGrowth(in:)``; nil before.
    var notedBytes: Int64?
    /// The received ranges of a part with segments; nil for a part that grows from its start.
    var ranges: [Range<Int64>]?
    /// The ranges that have been synchronised with the disk; nil for a part that grows from its start.
    var syncedRanges: [Range<Int64>]?

    static let heading = "convoy-resume 1\n"

    var isSound: Bool { validator.isSound && name.map(FileName.isSafe) != false }

    /// The signature in the query may differ if the validator is an entity tag, because links are signed anew.
    func belongs(to url: URL) -> Bool {
        if key == url.downloadKey { return true }
        guard case .entityTag = validator else { return false }
        return source == validator.source(url)
    }

    func isOf(_ url: URL) -> Bool { source == nil || source == validator.source(url) }

    /// In order, not empty, without overlaps; after another boot only synchronised bytes are reliable.
    func usableRanges(ofPart byteCount: Int64, boot: String?) -> [Range<Int64>] {
        let isSameBoot = boot != nil && boot == self.boot
        guard let ranges else {
            guard syncedBytes >= 0, byteCount >= syncedBytes else { return [] }
            let usable = isSameBoot ? byteCount : syncedBytes
            return usable > 0 && usable <= totalBytes ?? .max ? [0..<usable] : []
        }
        let limit = min(byteCount, totalBytes ?? 0)
        let known = (isSameBoot ? ranges : syncedRanges ?? []).filter { !$0.isEmpty }
        guard zip([0..<0] + known, known).allSatisfy({ $0.upperBound <= $1.lowerBound }) else { return [] }
        return known.prefix { $0.lowerBound < limit }.map { $0.lowerBound..<min($0.upperBound, limit) }
    }
}

struct ReceivedRanges: Sendable {
    struct Segment: Sendable {
        let range: Range<Int64>
        var position: Int64
        /// The position before the current body, and the end that the server announced for the body.
        var body: (start: Int64, end: Int64)?
    }

    /// The ranges that were received before the division into segments, in order.
    var there: [Range<Int64>] = []
    var segments: [Segment] = []
    /// The received ranges that were on the disk after the last synchronisation.
    var synced: [Range<Int64>] = []
    var unsavedBytes: Int64 = 0

    var byteCount: Int64 { segments.reduce(there.byteCount) { $0 + $1.position - $1.range.lowerBound } }

    /// The received ranges in order, with adjacent ones joined.
    var ranges: [Range<Int64>] {
        Array(RangeSet(there + segments.map { $0.range.lowerBound..<$0.position }).ranges)
    }

    /// Only the last segment of a missing range may have fewer than `smallest` bytes.
    mutating func divide(totalBytes: Int64, into count: Int, atLeast smallest: Int64) {
        let gaps = Array(RangeSet(0..<totalBytes).subtracting(RangeSet(there)).ranges)
        let missing = gaps.byteCount.quotientAndRemainder(dividingBy: Int64(count))
        let size = max(smallest, missing.quotient + missing.remainder.signum())
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

extension [Range<Int64>] {
    var byteCount: Int64 { reduce(0) { $0 + $1.count64 } }
    /// How many bytes the file has without a gap.
    var leadingBytes: Int64 { first.map { $0.lowerBound == 0 ? $0.upperBound : 0 } ?? 0 }
}
