// What is known about a part, kept beside it: the sidecar.
import Foundation

/// What the bytes of a part are of, and how many of them can be relied on.
struct ResumeRecord: SidecarRecord, Hashable {
    /// See ``PreparedRequest/downloadKey``: no URL is kept, it may have a secret in it.
    var key: String
    var validator: Validator
    /// What sent the validator, see ``Validator/source(_:)``; nil where that is not known.
    var source: String?
    /// The length of the whole, once it is known.
    var totalBytes: Int64?
    /// The boot of the system in which the part was written; nil where it has no name.
    var boot: String?
    /// How much of the part has been synchronised with the disk.
    var syncedBytes: Int64 = 0
    /// The digest that the server has promised, as ``FileDigest/description``.
    var promised: String?
    /// The content coding that the server puts on the file, whose bytes are kept as they are sent.
    var coding: String?
    /// What the file is to be called, where the server has a say in it.
    var name: String?
    /// Whether there are bytes of servers whose version is not known: only a digest can tell whether they fit.
    var needsDigest: Bool?
    /// Which bytes are there, of a part that is filled in several places; nil for one that grows from its start.
    var ranges: [Range<Int64>]?
    /// Those of them that have been synchronised with the disk.
    var syncedRanges: [Range<Int64>]?

    static let heading = "convoy-resume 1\n"

    var isSound: Bool { validator.isSound && name.map(FileName.isSafe) != false }

    init(key: String, validator: Validator, totalBytes: Int64?, boot: String?) {
        self.key = key
        self.validator = validator
        self.totalBytes = totalBytes
        self.boot = boot
    }

    /// Whether its validator says something of what is at a URL.
    func isOf(_ url: URL) -> Bool { source == nil || source == validator.source(url) }

    /// Which bytes of a part can be relied on: in order, not empty, none of them twice.
    ///
    /// What a process has written stays when the process is killed, and not when the system stops: after another boot
    /// only what had been synchronised counts.
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
