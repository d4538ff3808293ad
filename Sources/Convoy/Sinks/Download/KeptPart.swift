// How much of an existing part (a partial file) is usable.
import Foundation

/// Reports how much of a part the next download resumes.
package enum KeptPart {
    /// The number of bytes that need not be requested again, and the time of the record.
    ///
    /// Nil when no bytes are usable.
    ///
    /// The server may have another version when the download resumes.
    ///
    /// - Parameters:
    ///   - name: the name of the part.
    ///   - url: the URL of the download; nil accepts any URL.
    ///   - inSegments: whether the download can fill gaps. Otherwise only a range from the first byte on is used.
    ///   - isVerified: whether the download has a digest. Without a digest, a part with bytes of mirrors is not usable.
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
