// The record of a part (a partial file), stored in a sidecar file.
import Foundation

/// Describes the bytes of a part, and how many of them are reliable.
struct ResumeRecord: SidecarRecord, Hashable {
    /// Identifies the download by a hash of its URL; see `URL.downloadKey`.
    ///
    /// The URL is not stored, because it may contain a secret.
    var key: String
    var validator: Validator
    /// The source of the validator, see ``Validator/source(_:)``; nil when unknown.
    var source: String?
    /// The length of the complete file, once known.
    var totalBytes: Int64?
    /// The boot in which the part was written; nil when the system has no name for it.
    var boot: String?
    /// How many bytes of the part have been synchronised.
    var syncedBytes: Int64 = 0
    /// The digest that the server announced, as ``FileDigest/description``.
    var promised: String?
    /// The content coding of the file, whose bytes are stored without decoding.
    var coding: String?
    /// The name of the file, if the target is a directory.
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

    init(key: String, validator: Validator, totalBytes: Int64?, boot: String?) {
        self.key = key
        self.validator = validator
        self.totalBytes = totalBytes
        self.boot = boot
    }

    /// Whether a download of this URL may resume the part.
    ///
    /// The signature in the query may differ if the validator is an entity tag, because links are signed anew.
    func belongs(to url: URL) -> Bool {
        if key == url.downloadKey { return true }
        guard case .entityTag = validator else { return false }
        return source == validator.source(url)
    }

    /// Whether the validator applies to the resource at a URL.
    func isOf(_ url: URL) -> Bool { source == nil || source == validator.source(url) }

    /// The reliable ranges of a part: in order, not empty, without overlaps.
    ///
    /// Written bytes survive a killed process, but not a system crash. After another boot only synchronised bytes are
    /// reliable.
    func usableRanges(ofPart byteCount: Int64, boot: String?) -> [Range<Int64>] {
        let isSameBoot = boot != nil && boot == self.boot
        guard let ranges else {
            guard syncedBytes >= 0, byteCount >= syncedBytes else { return [] }
            let usable = isSameBoot ? byteCount : syncedBytes
            return usable > 0 && usable <= totalBytes ?? .max ? [0..<usable] : []
        }
        let limit = min(byteCount, totalBytes ?? 0)
        var end: Int64 = 0
        var usable: [Range<Int64>] = []
        for range in isSameBoot ? ranges : syncedRanges ?? [] where !range.isEmpty {
            guard range.lowerBound >= end else { return [] }
            guard range.lowerBound < limit else { break }
            end = min(range.upperBound, limit)
            usable.append(range.lowerBound..<end)
        }
        return usable
    }
}
