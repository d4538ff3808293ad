// What a part that an earlier download has left is worth.
import Foundation

/// Tells how much of a part the next download continues.
package enum KeptPart {
    /// How many bytes are there that are not asked for again, and when that was noted; nil when there are none.
    ///
    /// The server may still have another version by then.
    ///
    /// - Parameters:
    ///   - name: of the part.
    ///   - url: what is to be downloaded; nil for whatever the part is of.
    ///   - inSegments: whether the download fills the gaps between several ranges; otherwise only the first range counts.
    ///   - isVerified: whether it has a digest, without which bytes of mirrors do not count.
    /// - Complexity: O(*n*) for a record of *n* bytes.
    package static func usableBytes(
        _ name: PartName, in directory: String, of url: URL?, inSegments: Bool, isVerified: Bool
    ) -> (count: Int64, noted: Date)? {
        let file = SidecarFile<ResumeRecord>(path: directory + "/" + name.record)
        var (part, noted) = (stat(), stat())
        guard lstat(directory + "/" + name.part, &part) == 0, lstat(file.path, &noted) == 0,
            let record = try? file.read(), record.needsDigest != true || isVerified
        else { return nil }
        if let url, url.downloadKey != record.key { return nil }
        let ranges = record.usableRanges(ofPart: Int64(part.st_size), boot: Boot.name)
        let count =
            inSegments
            ? ranges.reduce(0) { $0 + $1.count64 } : ranges.first.map { $0.lowerBound == 0 ? $0.upperBound : 0 } ?? 0
        #if canImport(Darwin)
            let seconds = noted.st_mtimespec.tv_sec
        #else
            let seconds = noted.st_mtim.tv_sec
        #endif
        return count > 0 ? (count, Date(timeIntervalSince1970: TimeInterval(seconds))) : nil
    }
}
